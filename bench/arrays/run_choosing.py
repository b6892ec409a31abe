"""What the choice itself takes."""

from __future__ import annotations

import random
import time
from statistics import median
from typing import Any

from bench.arrays.measure import ms
from bench.arrays.report import busy, done
from bench.harness import Result
from whence.strategy import Cost, Limits, Question, choose


def choosing(w: Any, args: Any) -> Result:
    """100 operators x 8 strategies, drawn; limits at which not all fits."""
    rows, figures = [], {}
    choose(*_table_of(0, both=True))  # the first choice of a process brings scipy in
    for title, both in (("limit on disk", False), ("limits on disk and run time", True)):
        took = []
        for seed in range(20):
            costs, workload, limits = _table_of(seed, both)
            start, cpu = time.perf_counter(), time.process_time()
            choose(costs, workload, limits)
            took.append((time.perf_counter() - start, time.process_time() - cpu))
        wall, cpu_ = (median(t[k] for t in took) for k in (0, 1))
        rows.append([title, ms(wall), ms(cpu_), ms(min(t[0] for t in took)), ms(max(t[0] for t in took))])
        figures[title] = round((cpu_ if args.cpu else wall) * 1e3, 1)
    shown = 2 if args.cpu else 1
    line = (
        f"choosing: 100 operators x 8 strategies in {rows[0][shown]} ms with one limit, {rows[1][shown]} ms with two"
        f"{', of the processor' if args.cpu else ''} (promised 50)"
    )
    result = Result(
        "arrays-choosing",
        "Arrays: what choosing takes",
        line,
        ["100 x 8, 20 tables", "median ms", "of the processor", "least", "most"],
        rows,
        figures,
        ["drawn tables; every plan is optimal within its limits", busy()],
    )
    return done(result, None, args)


def _table_of(seed: int, both: bool) -> tuple[dict[str, dict[str, Cost]], list[Question], Limits]:
    drawn = random.Random(seed)
    costs = {}
    for n in range(100):
        scale = 10 ** drawn.uniform(3, 7)
        back, forth = drawn.uniform(0.001, 0.1), drawn.uniform(0.001, 0.1)
        costs[f"op{n:03}"] = {
            "Blackbox": Cost(0, 0, drawn.uniform(0.2, 2), drawn.uniform(0.2, 2)),
            **{
                f"S{k}": Cost(
                    int(scale * drawn.uniform(0.1, 4)),
                    scale * 1e-7 * drawn.uniform(0.5, 2),
                    back * drawn.uniform(0.3, 3) * (1 if k < 4 else 20),
                    forth * drawn.uniform(0.3, 3) * (20 if k < 4 else 1),
                )
                for k in range(7)
            },
        }
    workload = [
        Question("backward" if drawn.random() < 0.7 else "forward", frozenset(drawn.sample(sorted(costs), 40)))
        for _ in range(8)
    ]
    free = choose(costs, workload)
    disk = drawn.uniform(0.05, 0.6) * free.disk
    return costs, workload, Limits(disk, drawn.uniform(0.05, 0.6) * free.runtime if both else None)
