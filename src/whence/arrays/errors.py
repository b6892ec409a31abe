from whence.model import WhenceError


class ArrayError(WhenceError, ValueError):
    """What was asked of an array, a workflow or a run cannot be: the text names the node and what is wrong."""


class UnknownNode(WhenceError, LookupError):
    """A name or a node that is not of this workflow."""

    def __str__(self) -> str:  # LookupError shows the repr of its text
        return WhenceError.__str__(self)


class UnknownRun(WhenceError, LookupError):
    def __str__(self) -> str:
        return WhenceError.__str__(self)


class OperatorFailed(WhenceError):
    """The user's operator raised; its own exception is the cause."""
