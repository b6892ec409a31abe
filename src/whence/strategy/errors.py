from whence.model import WhenceError


class Unreachable(WhenceError, ValueError):
    """No choice meets the limits."""


class NoSuchStep(WhenceError, LookupError):
    """The plan knows nothing of this step."""
