"""Who may ask a recorded array for its plain value: np.asarray(b), and nothing that makes results without lineage.

numpy tells `__array__` nothing of why it is asked, so the frame that asks is looked at."""

from __future__ import annotations

import dis
import sys
from functools import lru_cache
from types import CodeType, FrameType

from whence.arrays.recorded.errors import NotFollowed

# From 3.14 on Python counts indexing among the binary operators, none of the others of which asks for a plain array.
SUBSCRIPTS = (
    "BINARY_SUBSCR",
    "STORE_SUBSCR",
    "BINARY_SLICE",
    "STORE_SLICE",
    *(("BINARY_OP",) if sys.version_info >= (3, 14) else ()),
)
CALLS = ("CALL", "PRECALL", "CALL_KW", "CALL_FUNCTION", "CALL_METHOD", "CALL_FUNCTION_KW")
NAMED = ("CALL_KW", "CALL_FUNCTION_KW")  # what they are called with ends with the names of arguments
LOADS = ("LOAD_FAST", "LOAD_CONST", "LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "LOAD_FAST_BORROW", "LOAD_SMALL_INT")
BESIDE = ("PRECALL", "KW_NAMES", "CACHE")
BUILDS = ("BUILD_LIST", "BUILD_TUPLE")


def refuse_leaving(frame: FrameType) -> None:
    module = frame.f_globals.get("__name__", "")
    root = module.partition(".")[0]
    if root in ("numpy", "scipy") and not module.startswith("numpy.testing"):
        raise NotFollowed(
            f"{root}'s {_outermost(frame, root)} cannot be followed: it would read a recorded array and give a plain "
            "one. For its value alone, give it np.asarray(x)."
        )
    asked = _asked(frame.f_code, frame.f_lasti)
    if asked == "subscript":
        raise NotFollowed(
            "A plain array indexed by a recorded one, or set from one, would hold values without lineage: index "
            "whence.arrays.asarray(plain), or use np.asarray(x) for the value alone."
        )
    if asked == "list":
        raise NotFollowed(
            "A function that is given a list of recorded arrays and does not ask what they are would make a plain "
            "array of their values: use np.stack or np.concatenate, or np.asarray(x) of each."
        )


def _outermost(frame: FrameType, root: str) -> str:
    """The function that the user called."""
    while frame.f_back is not None and frame.f_back.f_globals.get("__name__", "").partition(".")[0] == root:
        frame = frame.f_back
    return frame.f_code.co_name


@lru_cache(maxsize=1024)
def _asked(code: CodeType, at: int) -> str:
    """What the code does at this place: "subscript", a call with a "list" of its own making, or "other"."""
    before: list[dis.Instruction] = []
    for instruction in dis.get_instructions(code):
        if instruction.offset == at:
            break
        before.append(instruction)
    else:
        return "other"
    if instruction.opname in SUBSCRIPTS:
        return "subscript"
    if instruction.opname not in CALLS:
        return "other"
    left = (instruction.arg or 0) + (instruction.opname in NAMED)
    while left and before:
        last = before.pop()
        if last.opname in BUILDS:
            return "list"
        if last.opname in LOADS:
            left -= 1
        elif last.opname not in BESIDE:
            break
    return "other"
