"""SubZero's benchmarks: `python -m bench.arrays` (`--only astronomy` for one; `--pictures DIR` for real FITS pictures).

Astronomy (figure 5), genomics (figures 6 and 7) and the operator with given fan (figures 8 and 9); what the chooser
predicts against what is measured; and what choosing takes. Ways of keeping lineage are executed in turn, and every
answer is compared with the black box's.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from itertools import product
from statistics import median
from typing import Any

import numpy as np

import whence
from bench.arrays import astronomy, genomics, micro
from bench.arrays.measure import Measured, ask, asked, executed, geometric, mb, ms, on_path, plainly, repeated, same
from bench.harness import Bars, Result, arguments, console, finish, progress, spark_session, write_docs

PAPER_5 = {"FullOne": "6x / 66x", "FullMany": "44x / 53x", "SubZero": "1.49x / 1.95x"}


def busy() -> str:
    return f"load of the machine while it was measured: {os.getloadavg()[0]:.0f} on {os.cpu_count()} cores"


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
    rounds = args.rounds + 1
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
        console.print(plan)
        ways["chosen"] = plan
        runs: dict[str, Any] = {}
        for turn in range(rounds):
            for name in list(ways) if turn % 2 == 0 else list(ways)[::-1]:
                tick(name)
                into = found[name] if turn else Measured()
                runs[name] = executed(w, wf, inputs, ways[name], into)
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
        f"two pictures of 512 x 2000 ({which}), {mb(size)} MB; 22 built-in operators and A to D; {args.rounds} rounds, ways "
        "in turn, ratios are medians of the rounds' ratios to BlackBox; questions: median of five, ms",
        "disk: lineage, and as a multiple of the inputs; paper: run time / disk of its figure 5 (its disk counts the inputs too)",
        "faster: BlackBox's time over this one's, geometric mean of the backward questions, and of their sums",
        "chosen keeps: " + "; ".join(f"{step} {' + '.join(plan[step])}" for step in "ABCD"),
        f"FQ0 without the whole-array shortcut (FQ0Slow): {ms(slowly)} ms, {slowly / found['chosen'].queries['FQ0']:.0f}x as "
        "long (paper: 83x)",
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
        f"astronomy, chosen: run time {figures['chosen run time']:.2f}x (promised 1.3), disk {figures['chosen disk']:.3f}x the "
        f"inputs (promised 1.5), backward {figures['chosen backward']:.0f}x faster than BlackBox (promised 255); FullOne run "
        f"time {figures['FullOne run time']:.2f}x (promised 2)"
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
    into = Measured()
    executed(w, wf, inputs, "Blackbox", into)
    return into.runtime


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
    with progress("genomics", (args.rounds + 2) * len(ways) + 3 * len(budgets) + 1) as tick:
        runs: dict[str, Any] = {}
        for turn in range(args.rounds + 1):
            for name in list(ways) if turn % 2 == 0 else list(ways)[::-1]:
                tick(name)
                runs[name] = executed(w, wf, inputs, ways[name], found[name] if turn else Measured())
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
                limit_disk=budget * 1e6 if budget else None, workload=genomics.WORKLOAD, workflow=wf
            )
            console.print(plans[name])
            dynamic[name] = Measured()
            for _ in range(2):
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
        f"56 x 100 scaled {args.scale} times, {mb(size)} MB of inputs; ten built-in operators and E to H; {args.rounds} rounds",
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
        f"genomics, chosen: with 20 MB the slowest question is {min(at_20):.2f}x as fast as BlackBox (promised 1), forward "
        f"{min(figures[f'SubZero20 {q}'] for q in names if q[0] == 'F'):.0f}x (promised 25); unbounded forward "
        f"{min(figures[f'unbounded {q}'] for q in names if q[0] == 'F'):.0f}x (promised 500)"
    )
    notes = [
        "SubZeroX: limit of X MB; disk kept and predicted; times in ms and how many times as fast as BlackBox",
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


def in_micro(w: Any, args: Any) -> Result:
    image = np.random.default_rng(0).random(micro.SHAPE)
    fans = [(fanin, fanout) for fanout in (1, 10, 100) for fanin in (1, 10, 50, 100)]
    texts = ("Blackbox", "FullOne", "FullMany", "PayOne", "PayMany", "FullOne:forward")
    rows, raw = [], {}
    with progress("micro", len(fans) * len(texts)) as tick:
        for fanin, fanout in fans:
            wf = micro.workflow(fanin, fanout)
            back, forth = micro.asked(fanin, fanout)
            base = 0.0
            for text in texts:
                tick(f"fanin {fanin}, fanout {fanout}, {text}")
                into = Measured()
                for _ in range(2):
                    run = executed(w, wf, {"image": image}, {"synthetic": text}, into)
                base = into.runtime if text == "Blackbox" else base
                ways = {
                    "backward": lambda run=run, back=back: run.backward("synthetic", back, to="image"),
                    "forward": lambda run=run, forth=forth: run.forward("image", forth, to="synthetic"),
                }
                times = {}
                for way, work in ways.items():
                    work()
                    times[way] = repeated(work, 3)
                raw[f"{fanin} {fanout} {text}"] = [into.disk, into.runtime - base, times["backward"], times["forward"]]
                rows.append(
                    [
                        str(fanout),
                        str(fanin),
                        text,
                        mb(into.disk),
                        f"{max(into.runtime - base, 0):.2f}",
                        ms(times["backward"]),
                        ms(times["forward"]),
                    ]
                )
    small = [f for f in fans if f[1] <= 5]
    large = [f for f in fans if f[1] > 5]
    one = sum(raw[f"{i} {o} FullOne"][0] <= raw[f"{i} {o} FullMany"][0] for i, o in small)
    many = sum(raw[f"{i} {o} FullMany"][0] <= raw[f"{i} {o} FullOne"][0] for i, o in large)
    line = (
        f"micro: FullOne smaller than FullMany in {one} of {len(small)} cases of fanout 1, FullMany smaller in {many} of "
        f"{len(large)} of fanout 10 and 100 (paper: the crossing is at 5)"
    )
    notes = [
        "1000 x 1000, lineage for a tenth of the output cells; run s: added to the run with Blackbox; questions about 1000 "
        "cells, ms, with the query-time switch",
        busy(),
    ]
    result = Result(
        "arrays-micro",
        "Arrays: one operator with given fan (SubZero's figures 8 and 9)",
        line,
        ["fanout", "fanin", "strategy", "MB", "run s", "backward", "forward"],
        rows,
        {"one": one, "many": many},
        notes,
        raw=raw,
    )
    labels = [f"{i}/{o}" for i, o in fans]
    plot = Bars(
        labels, {t: [max(raw[f"{i} {o} {t}"][2], 1e-5) for i, o in fans] for t in texts}, "backward, s", log=True
    )
    return done(result, plot, args)


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
                    forced = {**dict.fromkeys(steps, "Blackbox"), step: text}
                    kept = w.execute(wf, inputs, strategies=forced)
                    through = [q for q in questions if step in on_path(q)]
                    seconds = _of_step(kept, step, through)
                    measured = {
                        "disk": kept.stats[step].bytes,
                        "run time": kept.stats[step].overhead,
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
        f"predicted: disk within 1.5x for {within['disk']:.0%}, run time within 2x for {within['run time']:.0%}, query time "
        f"within 2x for {within['query']:.0%} of strategies (promised 90%)"
    )
    result = Result(
        "arrays-predicted",
        "Arrays: what the chooser predicts, and what is measured",
        line,
        ["workflow", "step", "strategy", "MB", "measured", "run ms", "measured", "query ms", "measured"],
        rows,
        {kind: round(part, 3) for kind, part in within.items()},
        [
            "one strategy of one operator at a time, all others Blackbox; query: one step, mean over the questions",
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
    """What this step takes in these questions: as the run itself noted when it was asked."""
    node = run.workflow[step]
    for question in questions:
        ask(run, question)
        ask(run, question)
    told = [a for a in run.observed[node].answered]
    return sum(a.seconds for a in told) / max(len(told), 1)


def _pictures(args: Any) -> dict[str, Any]:
    one, two, _ = astronomy.pictures(args.pictures)
    return {"image_1": one, "image_2": two}


def _matrices(args: Any) -> dict[str, Any]:
    return {"train": genomics.matrix(args.scale, 1), "test": genomics.matrix(args.scale, 2)}


def choosing(w: Any, args: Any) -> Result:
    """100 operators x 8 strategies, drawn; limits at which not all fits."""
    import random

    from whence.strategy import Cost, Limits, Question, choose

    rows, figures = [], {}
    for title, both in (("limit on disk", False), ("limits on disk and run time", True)):
        took = []
        for seed in range(20):
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
            limits = Limits(
                drawn.uniform(0.05, 0.6) * free.disk, drawn.uniform(0.05, 0.6) * free.runtime if both else None
            )
            start, cpu = time.perf_counter(), time.process_time()
            choose(costs, workload, limits)
            took.append((time.perf_counter() - start, time.process_time() - cpu))
        wall, cpu_ = (median(t[k] for t in took) for k in (0, 1))
        rows.append([title, ms(wall), ms(cpu_), ms(min(t[0] for t in took)), ms(max(t[0] for t in took))])
        figures[title] = round(wall * 1e3, 1)
    line = f"choosing: 100 operators x 8 strategies in {rows[0][1]} ms with one limit, {rows[1][1]} ms with two (promised 50)"
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


def done(result: Result, plot: Bars | None, args: Any) -> Result:
    written = finish(result, plot)
    if args.docs:
        write_docs(written)
    return result


PARTS = {
    "choosing": choosing,
    "astronomy": in_astronomy,
    "genomics": in_genomics,
    "micro": in_micro,
    "predicted": predictions,
}


def main() -> None:
    parser = arguments(__doc__ or "", rounds=3)
    parser.add_argument("--only", choices=PARTS, action="append", help="one part; may be given several times")
    parser.add_argument("--pictures", help="a folder with two FITS pictures of the same sky; without it they are made")
    parser.add_argument("--scale", type=int, default=100, help="how many times the genomics patients are repeated")
    args = parser.parse_args()
    store = tempfile.mkdtemp(prefix="whence-bench-arrays-")
    spark = spark_session("bench-arrays", memory="1g")
    try:
        with whence.attach(spark, store=store) as w:
            for name in args.only or PARTS:
                PARTS[name](w, args)
    finally:
        spark.stop()
        shutil.rmtree(store, ignore_errors=True)


if __name__ == "__main__":
    main()
