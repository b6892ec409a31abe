"""What the chooser predicts for every strategy of the users' operators, and what is measured."""

from __future__ import annotations

from statistics import median
from typing import Any

from bench.arrays import astronomy, genomics
from bench.arrays.measure import mb, ms
from bench.arrays.report import busy, done
from bench.harness import Result, progress
from whence.arrays.access import Asking
from whence.arrays.cells import as_set
from whence.arrays.trial import beyond_noise


def predictions(w: Any, args: Any) -> Result:
    """Every strategy of every operator of the users', predicted, and then kept and asked alone."""
    rows: list[list[str]] = []
    ratios: dict[str, list[float]] = {"disk": [], "run time": [], "query": []}
    cases = [
        ("astronomy", astronomy.workflow(), "ABCD", astronomy.WORKLOAD, astronomy.questions, _pictures(args)),
        ("genomics", genomics.workflow(), "EFH", genomics.WORKLOAD, genomics.questions, _matrices(args)),
    ]
    for title, wf, steps, workload, ask_about, inputs in cases:
        run = w.execute(wf, inputs, strategies="Blackbox")
        questions = ask_about(run)
        _ask_all(run, questions)
        w.strategy(workload=workload, workflow=wf)  # tries all that is not forced, once
        texts: dict[str, tuple[str, ...]] = {}
        for step in steps:
            modes = {mode.value for mode in wf[step].operator.supported_modes()}
            texts[step] = tuple(t for t, mode in STRATEGIES.items() if mode in modes)
        nothing: list[Any] = []
        forced: dict[tuple[str, str], tuple[Any, list[Any]]] = {}
        with progress(f"predicted, {title}", sum(map(len, texts.values()))) as tick:
            for step, text in [(step, text) for step, some in texts.items() for text in some]:
                tick(f"{step} {text}")
                plan = w.strategy(workload=workload, workflow=wf, force={step: text})
                if text == texts[step][0]:
                    nothing += [w.execute(wf, inputs, strategies="Blackbox") for _ in range(args.rounds)]
                runs = [w.execute(wf, inputs, strategies={step: text}) for _ in range(args.rounds)]
                _ask_all(runs[-1], questions)
                forced[step, text] = plan.costs[step][text], runs
        plain = {step: _work(nothing, step) for step in steps}
        told: dict[tuple[str, str], list[Any]] = {}  # what an operator does for its lineage hangs on the mode alone
        for (step, text), (_, runs) in forced.items():
            told.setdefault((step, STRATEGIES[text]), []).extend(runs)
        for (step, text), (cost, runs) in forced.items():
            kept = runs[-1]
            through = [q for q in questions if _passes(wf, q, step)]
            own = beyond_noise(_work(told[step, STRATEGIES[text]], step), plain[step])
            measured = {
                "disk": kept.stats[step].bytes,
                "run time": min(run.stats[step].overhead for run in runs) + own,
                "query": _of_step(kept, step, through),
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
            f"run time: what runs say was for lineage, the least of {args.rounds}, and what the operator's own work "
            "took more, in all runs in that mode, than in runs that kept nothing of it, where that is more than noise; "
            "query: what the operator takes of a question along all ways, the median of five, mean over the questions",
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


def _ask_all(run: Any, questions: list[Any]) -> None:
    """As the workload says them: along all ways."""
    for question in questions:
        getattr(run, question.direction)(question.start, question.cells, to=question.to)


def _work(runs: list[Any], step: str) -> float:
    """What the operator's `run` took without the writing: the least, since what else a machine does only adds."""
    return min(run.observed[run.workflow[step]].seconds for run in runs)


def _passes(wf: Any, question: Any, step: str) -> bool:
    ends = (question.start, question.to) if question.direction == "backward" else (question.to, question.start)
    return step in _behind(wf, ends[0]) and ends[1] in _behind(wf, step)


def _behind(wf: Any, name: str) -> set[str]:
    found, waiting = set(), [wf[name]]
    while waiting:
        node = waiting.pop()
        if node.name not in found:
            found.add(node.name)
            waiting += node.inputs
    return found


def _of_step(run: Any, step: str, questions: list[Any]) -> float:
    """What this operator takes of these questions, all inputs together: as the steps themselves say, the median of five
    after one that opens files."""
    node, took = run.workflow[step], []
    for question in questions:
        start, to = run.workflow[question.start], run.workflow[question.to]
        cells = as_set(question.cells, run.shape(start), question.start)
        times = []
        for _ in range(6):
            asking = Asking()
            run.query(question.direction).along_all(start, cells, to, asking)
            times.append(sum(told.seconds for asked, told in asking.told if asked is node))
        took.append(median(times[1:]))
    return sum(took) / max(len(took), 1)


def _pictures(args: Any) -> dict[str, Any]:
    one, two, _ = astronomy.pictures(args.pictures)
    return {"image_1": one, "image_2": two}


def _matrices(args: Any) -> dict[str, Any]:
    return {"train": genomics.matrix(args.scale, 1), "test": genomics.matrix(args.scale, 2)}
