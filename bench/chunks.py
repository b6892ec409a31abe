"""An array that is larger than memory should be: run in chunks on Spark, then asked about single cells.

python -m bench.chunks [--side 20000] [--chunk 2000] [--docs]
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
from pathlib import Path
from statistics import median

import numpy as np
import zarr

import whence
from bench.harness import Result, arguments, finish, progress, spark_session, with_children, write_docs
from whence.arrays import Mode, Operator, Workflow, ops


class Rays(Operator):
    """Cells above a limit depend on their neighbourhood, all others on themselves."""

    halo = 3

    def supported_modes(self) -> set[Mode]:
        return {Mode.COMP}

    def run(self, x, cur_modes):  # type: ignore[no-untyped-def]
        mask = x > 4.0
        if Mode.COMP in cur_modes:
            bright = np.argwhere(mask)
            self.lwrite_many(bright, payload=np.full(len(bright), 3))
        return mask

    def map_b(self, outcell, i):  # type: ignore[no-untyped-def]
        return [outcell]

    map_f = map_b

    def map_p(self, outcell, payload, i):  # type: ignore[no-untyped-def]
        r, c = outcell
        return [(r + a, c + b) for a in range(-payload, payload + 1) for b in range(-payload, payload + 1)]


class Memory:
    """The most that this process and all it started took together: the share of each page that is its own (PSS)."""

    def __init__(self) -> None:
        self.peak = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def end(self) -> int:
        self._ended.set()
        self._thread.join()
        return self.peak

    def _watch(self) -> None:
        while not self._ended.wait(0.5):
            self.peak = max(self.peak, sum(_taken(pid) for pid in with_children(os.getpid())))


def _taken(pid: int) -> int:
    try:
        for line in Path("/proc", str(pid), "smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


def main() -> None:
    parser = arguments(__doc__ or "", rounds=20)
    parser.add_argument("--side", type=int, default=20_000)
    parser.add_argument("--chunk", type=int, default=2_000)
    options = parser.parse_args()
    side, chunk = options.side, options.chunk
    home = Path(tempfile.mkdtemp(prefix="chunks-bench-"))
    memory = Memory()
    spark = spark_session("bench chunks", memory="1g")
    try:
        steps = -(-side // chunk)
        source = zarr.create_array(
            str(home / "sky.zarr"), shape=(side, side), chunks=(chunk, chunk), dtype="f8", compressors=None
        )
        with progress("chunks", steps + 1 + options.rounds) as tick:
            for row in range(steps):
                tick(f"rows of the input, {row + 1} of {steps}")
                noise = np.random.default_rng(row).normal(size=(min(chunk, side - row * chunk), side))
                source[row * chunk : (row + 1) * chunk] = noise
            wf = Workflow()
            sky = wf.input("sky")
            smooth = wf.add(ops.Convolve(np.full((3, 3), 0.5)), sky, name="smooth")
            wf.add(Rays(), smooth, name="mask")
            with whence.attach(spark, store=home / "store") as w:
                tick("three arrays in chunks")
                start = time.perf_counter()
                run = w.execute(wf, {"sky": str(home / "sky.zarr")}, chunks=chunk)
                seconds = time.perf_counter() - start
                run = w.reopen(run.id)
                rng = np.random.default_rng(0)
                back, forth = [], []
                for number in range(options.rounds):
                    tick(f"cell {number + 1} of {options.rounds}")
                    cell = tuple(rng.integers(0, side, 2).tolist())
                    start = time.perf_counter()
                    run.backward("mask", [cell], to="sky")
                    back.append(time.perf_counter() - start)
                    start = time.perf_counter()
                    run.forward("sky", [cell], to="smooth")
                    forth.append(time.perf_counter() - start)
                lineage = sum(run.stats[name].bytes for name in ("smooth", "mask"))
        peak = memory.end()
    finally:
        spark.stop()
        shutil.rmtree(home, ignore_errors=True)
    figures = {
        "cells": side * side,
        "run_seconds": seconds,
        "peak_memory_bytes": peak,
        "lineage_bytes": lineage,
        "backward_median_seconds": median(back),
        "backward_slowest_seconds": max(back),
        "forward_median_seconds": median(forth),
    }
    rows = [
        ("three arrays, run in chunks", f"{seconds:.0f} s"),
        ("most memory, of all processes together", f"{peak / 1e9:.2f} GB"),
        ("lineage on disk", f"{lineage / 1e6:.1f} MB"),
        ("a cell backward through both operators, median and slowest", f"{median(back):.4f} s, {max(back):.4f} s"),
        ("a cell forward through the convolution, median", f"{median(forth):.4f} s"),
    ]
    result = Result(
        name="chunks",
        title=f"An array of {side} x {side} in chunks of {chunk}",
        columns=("what", "measured"),
        rows=rows,
        figures=figures,
        line=f"{side} x {side}: {peak / 1e9:.2f} GB at most, a cell in {max(back):.3f} s at most",
    )
    target = finish(result)
    if options.docs:
        write_docs(target)


if __name__ == "__main__":
    main()
