from whence.model import WhenceError


class NotFollowed(WhenceError, TypeError, NotImplementedError):
    """numpy could do this, and whence cannot say where the result's cells come from; the text names the function."""


class NoSuchPart(NotFollowed, AttributeError):
    """The same of an attribute, so that code which only looks for it goes on."""


class Unfit(ValueError):
    """A rule's reason not to follow a call; the call adds its name."""
