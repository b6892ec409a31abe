"""Lineage of regular numpy operations (DSLog's): what Interval keeps, against a plain table of all pairs of cells."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from bench.arrays.measure import geometric
from bench.arrays.report import busy, done
from bench.harness import Result, progress
from whence.arrays import asarray
from whence.arrays.maps import Maps

SIDE, SQUARE = 500, 64
"""Sides of the arrays: of operations that relate a cell to one or a lane, and of those that relate it to many."""
PROMISED = 1000.0

ELEMENTS = """negative absolute sign sqrt square exp exp2 expm1 log1p sin cos tan arctan sinh tanh arcsinh floor ceil
rint trunc isnan isfinite isinf logical_not reciprocal cbrt deg2rad rad2deg signbit spacing"""
PAIRS = """add subtract multiply divide floor_divide power maximum minimum fmax fmin mod arctan2 hypot copysign
logaddexp greater less equal not_equal logical_and logical_or"""
LANES = "sum prod mean std var max min argmax argmin median any all ptp nansum"
MOVES: dict[str, Callable[[Any], Any]] = {
    "transpose": np.transpose,
    "reshape": lambda a: np.reshape(a, (-1, 10)),
    "ravel": np.ravel,
    "flip": np.flip,
    "fliplr": np.fliplr,
    "flipud": np.flipud,
    "rot90": np.rot90,
    "roll": lambda a: np.roll(a, 7, axis=1),
    "repeat": lambda a: np.repeat(a, 2, axis=0),
    "tile": lambda a: np.tile(a, (1, 2)),
    "concatenate": lambda a: np.concatenate([a, a]),
    "stack": lambda a: np.stack([a, a]),
    "hstack": lambda a: np.hstack([a, a]),
    "vstack": lambda a: np.vstack([a, a]),
    "pad": lambda a: np.pad(a, 3),
    "diff": lambda a: np.diff(a, axis=0),
    "gradient": lambda a: np.gradient(a, axis=0),
    "slice": lambda a: a[10:-10:2, ::3],
    "swapaxes": lambda a: np.swapaxes(a, 0, 1),
    "expand_dims": lambda a: np.expand_dims(a, 0),
    "broadcast_to": lambda a: np.broadcast_to(a[0], a.shape),
    "triu": np.triu,
    "clip": lambda a: np.clip(a, 0, 1),
    "round": np.round,
    "dot (matrix, vector)": lambda a: np.dot(a, np.ones(a.shape[1])),
    "outer": lambda a: np.outer(a[0], np.ones(SIDE)),
    "kron": lambda a: np.kron(a, np.ones((2, 2))),
    "convolve": lambda a: np.convolve(np.ravel(a), np.ones(9)),
    "diagonal (planes)": lambda a: np.diagonal(np.reshape(a, (10, 10, -1))),
    "trace (planes)": lambda a: np.trace(np.reshape(a, (10, 10, -1))),
}
MANY: dict[str, Callable[[Any], Any]] = {
    "cumsum": lambda a: np.cumsum(a, axis=1),
    "cumprod": lambda a: np.cumprod(a, axis=1),
    "matmul": lambda a: np.matmul(a, a),
    "inv": np.linalg.inv,
    "fft": lambda a: np.fft.fft(a, axis=0),
}


def _twice(function: Callable[..., Any], a: Any) -> Any:
    return function(a, a)


def regular(w: Any, args: Any) -> Result:
    cases: list[tuple[str, int, Callable[[Any], Any]]] = []
    for name in ELEMENTS.split():
        cases.append((name, SIDE, getattr(np, name)))
    for name in PAIRS.split():
        cases.append((name, SIDE, partial(_twice, getattr(np, name))))
    for name in LANES.split():
        cases.append((name, SIDE, partial(getattr(np, name), axis=1)))
    cases += [(name, SIDE, function) for name, function in MOVES.items()]
    cases += [(name, SQUARE, function) for name, function in MANY.items()]
    rows, ratios, missing = [], [], []
    with progress("regular numpy operations", len(cases)) as tick:
        for name, side, function in cases:
            tick(name)
            data = np.random.default_rng(1).random((side, side)) + np.eye(side)
            made = function(asarray(data, name="a"))
            run = w.execute(made)
            steps = {node: "Interval" for node in run.workflow.nodes if node.operator is not None}
            kept = w.execute(made, strategies=steps)
            size = sum(kept.stats[node].bytes for node in kept.stats)
            count, plain = 0, 0
            for node in steps:
                shapes, shape = tuple(run[below].shape for below in node.inputs), run[node].shape
                for i, below in enumerate(shapes):
                    found = sum(len(out) for out, _ in Maps(node.operator, shapes, shape).all_pairs(i))
                    count += found
                    plain += 8 * found * (len(shape) + len(below))
            ratio = plain / size
            ratios.append(ratio)
            if ratio < PROMISED:
                missing.append(name)
            rows.append([name, f"{side} x {side}", f"{count:,}", f"{plain:,}", f"{size:,}", f"1/{ratio:,.0f}"])
    rows.sort(key=lambda row: float(row[-1][2:].replace(",", "")))
    good = len(cases) - len(missing)
    line = (
        f"regular numpy operations: lineage at most 1/1000 of its plain columnar form for {good} of {len(cases)} "
        f"(1/{geometric(ratios):,.0f} on average)"
    )
    result = Result(
        "arrays-regular",
        "Arrays: lineage of regular numpy operations (DSLog's)",
        line,
        ["operation", "array", "pairs of cells", "plain bytes", "Interval bytes", "part"],
        rows,
        {"cases": len(cases), "within a thousandth": good, "average": round(geometric(ratios))},
        [
            "plain: a row for each pair of an output and an input cell, a column of 8 bytes for each coordinate; the "
            "least compressed first",
            "without a strategy these operations keep Map, which takes no bytes at all",
            f"over a thousandth: {', '.join(missing) or 'none'}",
            busy(),
        ],
    )
    return done(result, None, args)
