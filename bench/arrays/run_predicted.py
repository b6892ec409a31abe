"""What the chooser predicts for every strategy of the users' operators, and what is measured."""

from __future__ import annotations

from typing import Any

from bench.arrays import astronomy, genomics
from bench.arrays.measure import Measured, ask, asked, executed, mb, ms, on_path
from bench.arrays.report import busy, done
from bench.harness import Result, progress


def predictions(w: Any, args: Any) -> Result:
    """Every strategy of every operator of the users', predicted, and then kept and asked alone."""
    rows: list[list[str]] = []
    ratios: dict[str, list[float]] = {"disk": [], "run time": [], "query": []}
    cases = [
        ("astronomy", astronomy.workflow(), "ABCD", astronomy.WORKLOAD, astronomy.questions, _pictures(args)),
        ("genomics", genomics.workflow(), "EFH", genomics.WORKLOAD, genomics.questions, _matrices(args)),
    ]
    for title, wf, steps, workload, ask_about, inputs in cases:
        black = Measured()
        run = executed(w, wf, inputs, "Blackbox", black)
        questions = ask_about(run)
        asked(run, questions, Measured(), most=1)
        texts: dict[str, tuple[str, ...]] = {}
        for step in steps:
            modes = {mode.value for mode in wf[step].operator.supported_modes()}
            texts[step] = tuple(t for t, mode in STRATEGIES.items() if mode in modes)
        with progress(f"predicted, {title}", sum(map(len, texts.values()))) as tick:
            for step in steps:
                for text in texts[step]:
                    tick(f"{step} {text}")
                    plan = w.strategy(workload=workload, workflow=wf, force={step: text})
                    cost = plan.costs[step][text]
                    runs = [w.execute(wf, inputs, strategies={step: text}) for _ in range(args.rounds)]
                    kept = runs[-1]
                    through = [q for q in questions if step in on_path(q)]
                    seconds = _of_step(kept, step, through)
                    measured = {
                        "disk": kept.stats[step].bytes,
                        "run time": min(run.stats[step].overhead for run in runs),
                        "query": seconds,
                    }
                    ways = [q.direction for q in through]
                    predicted = {
                        "disk": cost.disk,
                        "run time": cost.runtime,
                        "query": sum(cost.query(way) for way in ways) / max(len(ways), 1),
                    }
                    cells = [title, step, text]
                    for kind in ratios:
                        if measured[kind] > 0 and predicted[kind] > 0 and (kind != "query" or through):
                            ratios[kind].append(predicted[kind] / measured[kind])
                        show = mb if kind == "disk" else ms
                        cells += [show(predicted[kind]), show(measured[kind])]
                    rows.append(cells)
    within = {
        kind: sum(1 / most <= r <= most for r in found) / max(len(found), 1)
        for kind, most, found in (
            ("disk", 1.5, ratios["disk"]),
            ("run time", 2.0, ratios["run time"]),
            ("query", 2.0, ratios["query"]),
        )
    }
    line = (
        f"predicted: disk within 1.5x for {within['disk']:.0%}, run time within 2x for {within['run time']:.0%}, query "
        f"time within 2x for {within['query']:.0%} of strategies (promised 90%)"
    )
    result = Result(
        "arrays-predicted",
        "Arrays: what the chooser predicts, and what is measured",
        line,
        ["workflow", "step", "strategy", "MB", "measured", "run ms", "measured", "query ms", "measured"],
        rows,
        {kind: round(part, 3) for kind, part in within.items()},
        [
            "one strategy of one operator at a time, all others as without a plan; "
            f"run time: the least of {args.rounds} runs; "
            "query: one step, the least of three times, mean over the questions",
            busy(),
        ],
    )
    return done(result, None, args)


STRATEGIES = {
    "FullOne": "full",
    "FullOne:forward": "full",
    "FullMany": "full",
    "FullMany:forward": "full",
    "PayOne": "pay",
    "PayMany": "pay",
    "Comp": "comp",
    "Comp:forward": "comp",
}


def _of_step(run: Any, step: str, questions: list[Any]) -> float:
    """What this step takes in these questions: as the run itself noted when it was asked, the least of three times."""
    node = run.workflow[step]
    took, noted = [], 0
    for question in questions:
        times = []
        for _ in range(3):
            ask(run, question)
            told = run.observed[node].answered  # the newest first
            mine = told[: len(told) - noted]
            noted = len(told)
            times.append(sum(a.seconds for a in mine) / max(len(mine), 1))
        took.append(min(times))
    return sum(took) / max(len(took), 1)


def _pictures(args: Any) -> dict[str, Any]:
    one, two, _ = astronomy.pictures(args.pictures)
    return {"image_1": one, "image_2": two}


def _matrices(args: Any) -> dict[str, Any]:
    return {"train": genomics.matrix(args.scale, 1), "test": genomics.matrix(args.scale, 2)}
