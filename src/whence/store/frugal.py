"""Little memory for a process that runs for long: what was needed once is given back to the system.

glibc keeps what is freed, in an arena for each thread; here it is told to keep less. Elsewhere nothing is done.
"""

from __future__ import annotations

import ctypes
import gc
from contextlib import suppress

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENAS = -1, -3, -8


def be_frugal() -> None:
    """Few arenas, and large blocks straight from the system and back to it. To be called before there are threads."""
    with suppress(OSError, AttributeError):
        libc = ctypes.CDLL("libc.so.6")
        libc.mallopt(_ARENAS, 2)
        libc.mallopt(_MMAP_THRESHOLD, 256 * 1024)
        libc.mallopt(_TRIM_THRESHOLD, 1024 * 1024)


def give_back() -> None:
    gc.collect()
    with suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)
