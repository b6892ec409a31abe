"""How the array benchmarks end: how busy the machine was, and the table, the plot and the page."""

from __future__ import annotations

import os
from typing import Any

from bench.arrays.measure import which_clock
from bench.harness import Bars, Result, finish, write_docs


def busy() -> str:
    return f"{which_clock()}; load of the machine meanwhile: {os.getloadavg()[0]:.0f} on {os.cpu_count()} cores"


def done(result: Result, plot: Bars | None, args: Any) -> Result:
    written = finish(result, plot)
    if args.docs:
        write_docs(written)
    return result
