from whence.model import WhenceError


class Unreachable(WhenceError, ValueError):
    """No choice meets the limits."""


class NoWay(WhenceError, ValueError):
    """A question asks for a way that does not lead there."""


class NoSuchStep(WhenceError, LookupError):
    """The plan knows nothing of this step."""
