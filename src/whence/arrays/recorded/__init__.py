"""numpy code recorded as a workflow: docs/arrays.md."""

from whence.arrays.recorded.array import Array, Held, asarray
from whence.arrays.recorded.errors import NotFollowed
from whence.arrays.recorded.gather import gather

__all__ = ["Array", "Held", "NotFollowed", "asarray", "gather"]
