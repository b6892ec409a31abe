"""Figures 6 and 7: the genomics workflow under given strategies, and under those chosen within budgets."""

from __future__ import annotations

from itertools import product
from statistics import median
from typing import Any

from bench.arrays import genomics
from bench.arrays.measure import Measured, asked, executed, mb, ms, on_path, plainly, same
from bench.arrays.report import busy, done
from bench.harness import Bars, Result, progress

MOST = 3.0
"""Seconds that a plan may add to a run: else Interval would be kept, which is small and takes long to make."""


def in_genomics(w: Any, args: Any) -> list[Result]:
    users = "EFGH"
    wf = genomics.workflow()
    inputs = {"train": genomics.matrix(args.scale, 1), "test": genomics.matrix(args.scale, 2)}
    size = sum(array.nbytes for array in inputs.values())
    static: dict[str, Any] = {
        "BlackBox": ["Blackbox"],
        "FullOne": ["FullOne"],
        "FullMany": ["FullMany"],
        "FullForw": ["FullOne:forward"],
        "FullBoth": ["FullOne:forward", "FullOne"],
        "PayOne": ["PayOne"],
        "PayMany": ["PayMany"],
        "PayBoth": ["PayOne", "FullOne:forward"],
    }
    ways: dict[str, Any] = {name: dict.fromkeys(users, texts) for name, texts in static.items()}
    found: dict[str, Measured] = {name: Measured() for name in ways}
    dynamic: dict[str, Measured] = {name: Measured() for name in ways}
    budgets = (1, 10, 20, 50, 100, None)
    with progress("genomics", (args.rounds + 1) * len(ways) + args.rounds * len(budgets) + 1) as tick:
        runs: dict[str, Any] = {}
        for turn in range(args.rounds):
            for name in list(ways) if turn % 2 == 0 else list(ways)[::-1]:
                tick(name)
                runs[name] = executed(w, wf, inputs, ways[name], found[name])
        questions = genomics.questions(runs["BlackBox"])
        for name in ways:
            tick(f"questions to {name}")
            asked(runs[name], questions, dynamic[name])
            asked(runs[name], questions, found[name], optimise=False)
        tick("choosing")
        plans = {}
        for budget in budgets:
            name = f"SubZero{budget}" if budget else "unbounded"
            plans[name] = w.strategy(
                limit_disk=budget * 1e6 if budget else None,
                limit_runtime=MOST,
                workload=genomics.WORKLOAD,
                workflow=wf,
            )
            print(plans[name])
            dynamic[name] = Measured()
            for _ in range(args.rounds):
                tick(name)
                runs[name] = executed(w, wf, inputs, plans[name], dynamic[name])
            asked(runs[name], questions, dynamic[name])
    black = dynamic["BlackBox"]
    wrong = [
        f"{name} {q.name}"
        for table, q in product((found, dynamic), questions)
        for name in table
        if not same(table[name].answers[q.name], black.answers[q.name])
    ]
    paper = {"PayBoth": "2.8x / 8x", "FullBoth": "26x / 18.5x"}
    rows, worst = [], 0.0
    for name in ways:
        ratio = median(a / b for a, b in zip(found[name].seconds, found["BlackBox"].seconds, strict=True))
        worst = max(worst, *(dynamic[name].queries[q.name] / black.queries[q.name] for q in questions))
        rows.append(
            [
                name,
                f"{found[name].runtime:.2f}",
                f"{ratio:.2f}x",
                mb(found[name].disk),
                f"{found[name].disk / size:.2f}x",
                paper.get(name, "-"),
                *(f"{ms(found[name].queries[q.name])} / {ms(dynamic[name].queries[q.name])}" for q in questions),
            ]
        )
    line = (
        f"genomics: with the query-time switch no question takes more than {worst:.2f}x BlackBox (promised 2); "
        f"{len(wrong)} answers differ"
    )
    notes = [
        f"56 x 100 scaled {args.scale} times, {mb(size)} MB of inputs; ten built-in operators and E to H; "
        f"{args.rounds} rounds",
        "paper: run time / disk of its figure 6; questions in ms, static / with the query-time switch",
        f"answers that differ from BlackBox's: {', '.join(wrong) or 'none'}",
        busy(),
    ]
    names = [q.name for q in questions]
    first = Result(
        "arrays-genomics",
        "Arrays: genomics, given strategies (SubZero's figure 6)",
        line,
        ["strategy", "run s", "ratio", "MB", "of inputs", "paper", *names],
        rows,
        {"worst of BlackBox": round(worst, 3), "wrong": len(wrong)},
        notes,
    )
    plot = Bars(list(ways), {q: [dynamic[n].queries[q] for n in ways] for q in names}, "s", log=True)
    results = [done(first, plot, args)]

    rows, figures = [], {}
    plain = {q.name: plainly(runs["BlackBox"], on_path(q)) for q in questions}
    for name in plans:
        faster = {q: black.queries[q] / dynamic[name].queries[q] for q in names}
        figures |= {f"{name} {q}": round(value, 2) for q, value in faster.items()}
        rows.append(
            [
                name,
                mb(dynamic[name].disk),
                mb(plans[name].disk),
                f"{dynamic[name].runtime / found['BlackBox'].runtime:.2f}x",
                *(f"{ms(dynamic[name].queries[q])} ({value:.1f}x)" for q, value in faster.items()),
                "; ".join(f"{step} {' + '.join(plans[name][step])}" for step in users),
            ]
        )
    at_20 = [figures[f"SubZero20 {q}"] for q in names]
    line = (
        f"genomics, chosen: with 20 MB the slowest question is {min(at_20):.2f}x as fast as BlackBox (promised 1), "
        f"forward {min(figures[f'SubZero20 {q}'] for q in names if q[0] == 'F'):.0f}x (promised 25); unbounded forward "
        f"{min(figures[f'unbounded {q}'] for q in names if q[0] == 'F'):.0f}x (promised 500)"
    )
    notes = [
        f"SubZeroX: limit of X MB, and in all of {MOST:.0f} s on what is added to a run;"
        " disk kept and predicted; times in ms and how many times as fast as BlackBox",
        "the median of five times after the first (of short questions as many as 50 ms hold), the next of which puts "
        "steps of the path together; the slowest of them, unbounded: "
        + ", ".join(f"{q} {ms(dynamic['unbounded'].slowest[q])} ms" for q in names),
        "BlackBox over a plain numpy rerun of the operators on the way: "
        + ", ".join(f"{q} {black.queries[q] / plain[q]:.2f}x" for q in names),
        busy(),
    ]
    second = Result(
        "arrays-genomics-chosen",
        "Arrays: genomics, chosen strategies (SubZero's figure 7)",
        line,
        ["limit", "MB", "predicted", "run time", *names, "keeps"],
        rows,
        figures,
        notes,
    )
    plot = Bars(list(plans), {q: [dynamic[n].queries[q] for n in plans] for q in names}, "s", log=True)
    return [*results, done(second, plot, args)]
