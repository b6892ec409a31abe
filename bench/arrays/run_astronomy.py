"""Figure 5: the astronomy workflow under given strategies and under the chosen ones."""

from __future__ import annotations

import time
from itertools import product
from statistics import median
from typing import Any

from bench.arrays import astronomy
from bench.arrays.measure import Measured, ask, asked, executed, geometric, mb, ms, on_path, plainly, repeated, same
from bench.arrays.report import busy, done
from bench.harness import Bars, Result, progress

PAPER_5 = {"FullOne": "6x / 66x", "FullMany": "44x / 53x", "SubZero": "1.49x / 1.95x"}


def in_astronomy(w: Any, args: Any) -> Result:
    one, two, which = astronomy.pictures(args.pictures)
    inputs = {"image_1": one, "image_2": two}
    size = one.nbytes + two.nbytes
    wf = astronomy.workflow()
    users = dict.fromkeys("ABCD")
    ways: dict[str, Any] = {
        "BlackBox": "Blackbox",
        "BlackBoxOpt": dict.fromkeys(users, "Blackbox"),
        "FullOne": "FullOne",
        "FullMany": "FullMany",
        "SubZero": {**dict.fromkeys("ABC", "Comp"), "D": "PayOne"},
    }
    found = {name: Measured() for name in (*ways, "chosen")}
    rounds = args.rounds
    with progress("astronomy", rounds * (len(ways) + 1) + len(ways) + 4) as tick:
        tick("a first run, and its questions")
        first = executed(w, wf, inputs, None, Measured())
        questions = astronomy.questions(first)
        asked(first, questions, Measured(), most=1)
        tick("choosing")
        base = timed_run(w, wf, inputs)
        start = time.perf_counter()
        plan = w.strategy(limit_disk=size, limit_runtime=0.2 * base, workload=astronomy.WORKLOAD, workflow=wf)
        choosing = time.perf_counter() - start
        print(plan)
        ways["chosen"] = plan
        runs: dict[str, Any] = {}
        for turn in range(rounds):
            for name in list(ways) if turn % 2 == 0 else list(ways)[::-1]:
                tick(name)
                runs[name] = executed(w, wf, inputs, ways[name], found[name])
        for name in ways:
            tick(f"questions to {name}")
            asked(runs[name], questions, found[name])
        tick("the forward question without the whole-array shortcut")
        slow = executed(w, astronomy.workflow(entire=False), inputs, plan, Measured())
        forward = questions[-1]
        slowly = repeated(lambda: ask(slow, forward), 1)
    plain = plainly(first)
    black = found["BlackBox"]
    wrong = [
        f"{name} {q.name}"
        for name, q in product(found, questions)
        if not same(found[name].answers[q.name], black.answers[q.name])
    ]
    rows = []
    backward = [q.name for q in questions if q.direction == "backward"]
    figures: dict[str, Any] = {"wrong": len(wrong), "choosing": round(choosing, 2)}
    for name, one_way in found.items():
        ratio = median(a / b for a, b in zip(one_way.seconds, black.seconds, strict=True))
        faster = [black.queries[q] / one_way.queries[q] for q in backward]
        figures[f"{name} run time"] = round(ratio, 3)
        figures[f"{name} disk"] = round(one_way.disk / size, 4)
        figures[f"{name} backward"] = round(geometric(faster), 1)
        rows.append(
            [
                name,
                f"{one_way.runtime:.2f}",
                f"{ratio:.2f}x",
                mb(one_way.disk),
                f"{one_way.disk / size:.3f}x",
                PAPER_5.get(name, "-"),
                *(ms(one_way.queries[q.name]) for q in questions),
                f"{geometric(faster):.0f}x",
                f"{sum(black.queries[q] for q in backward) / sum(one_way.queries[q] for q in backward):.0f}x",
            ]
        )
    over = {q.name: black.queries[q.name] / plainly(first, on_path(q)) for q in questions}
    chosen = found["chosen"]
    mine = {q.name: chosen.queries[q.name] / plainly(first, on_path(q)) for q in questions}
    notes = [
        f"two pictures of 512 x 2000 ({which}), {mb(size)} MB; 22 built-in operators and A to D; {args.rounds} rounds, "
        "ways in turn, ratios are medians of the rounds' ratios to BlackBox; questions: median of five, ms",
        "disk: lineage, and as a multiple of the inputs; paper: run time / disk of its figure 5, where disk "
        "counts the inputs too",
        "faster: BlackBox's time over this one's, geometric mean of the backward questions, and of their sums",
        "chosen keeps: " + "; ".join(f"{step} {' + '.join(plan[step])}" for step in "ABCD"),
        f"FQ0 without the whole-array shortcut (FQ0Slow): {ms(slowly)} ms, "
        f"{slowly / found['chosen'].queries['FQ0']:.0f}x as long (paper: 83x)",
        f"choosing, with trials of all strategies for 26 operators: {choosing:.1f} s",
        "BlackBox over a plain numpy rerun of the operators on the way: "
        + ", ".join(f"{name} {value:.2f}x" for name, value in over.items())
        + "; chosen: "
        + ", ".join(f"{name} {value:.4f}x" for name, value in mine.items()),
        f"the whole workflow as plain numpy code, nothing kept: {plain:.2f} s",
        f"answers that differ from BlackBox's: {', '.join(wrong) or 'none'}",
        busy(),
    ]
    line = (
        f"astronomy, chosen: run time {figures['chosen run time']:.2f}x (promised 1.3), disk "
        f"{figures['chosen disk']:.3f}x the inputs (promised 1.5), backward {figures['chosen backward']:.0f}x faster "
        f"than BlackBox (promised 255); FullOne run time {figures['FullOne run time']:.2f}x (promised 2)"
    )
    columns = [
        "strategy",
        "run s",
        "ratio",
        "MB",
        "of inputs",
        "paper",
        *(q.name for q in questions),
        "faster",
        "of sums",
    ]
    result = Result("arrays-astronomy", "Arrays: astronomy (SubZero's figure 5)", line, columns, rows, figures, notes)
    plot = Bars(
        [q.name for q in questions],
        {n: [m.queries[q.name] for q in questions] for n, m in found.items()},
        "s",
        log=True,
    )
    return done(result, plot, args)


def timed_run(w: Any, wf: Any, inputs: Any) -> float:
    """By the clock, as the costs of a plan are."""
    start = time.perf_counter()
    executed(w, wf, inputs, "Blackbox", Measured())
    return time.perf_counter() - start
