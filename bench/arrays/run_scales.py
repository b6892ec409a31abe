"""How much sooner the genomics questions are answered than by BlackBox, as the matrix grows."""

from __future__ import annotations

from typing import Any

from bench.arrays import genomics
from bench.arrays.measure import Measured, asked, executed, mb, ms, same
from bench.arrays.report import busy, done
from bench.harness import Result, progress

SCALES = (1, 10, 100, 1000)


def growing(w: Any, args: Any) -> Result:
    """A rerun takes longer with every patient, a look-up hardly: the unbounded plan at each scale, beside BlackBox."""
    rows, figures, wrong = [], {}, []
    names: list[str] = []
    with progress("genomics, growing", 3 * len(SCALES)) as tick:
        for scale in SCALES:
            wf = genomics.workflow()
            inputs = {"train": genomics.matrix(scale, 1), "test": genomics.matrix(scale, 2)}
            black, chosen = Measured(), Measured()
            tick(f"{scale}: BlackBox")
            run = executed(w, wf, inputs, "Blackbox", black)
            questions = genomics.questions(run)
            names = [q.name for q in questions]
            asked(run, questions, black)
            tick(f"{scale}: choosing")
            plan = w.strategy(workload=genomics.WORKLOAD, workflow=wf)
            tick(f"{scale}: chosen")
            asked(executed(w, wf, inputs, plan, chosen), questions, chosen)
            wrong += [f"{scale} {q}" for q in names if not same(black.answers[q], chosen.answers[q])]
            faster = {q: black.queries[q] / chosen.queries[q] for q in names}
            figures |= {f"{scale} {q}": round(value, 1) for q, value in faster.items()}
            rows.append(
                [
                    str(scale),
                    mb(sum(array.nbytes for array in inputs.values())),
                    mb(chosen.disk),
                    *(f"{ms(black.queries[q])} / {ms(chosen.queries[q])} ({faster[q]:.0f}x)" for q in names),
                    "; ".join(f"{step} {' + '.join(plan[step])}" for step in "EFGH"),
                ]
            )
    forward = {scale: min(figures[f"{scale} {q}"] for q in names if q[0] == "F") for scale in SCALES}
    line = "genomics, unbounded, slowest forward question over BlackBox: " + ", ".join(
        f"{value:.0f}x at scale {scale}" for scale, value in forward.items()
    )
    result = Result(
        "arrays-genomics-scales",
        "Arrays: genomics as it grows, no limits",
        line,
        ["scale", "MB of inputs", "MB of lineage", *names, "keeps"],
        rows,
        figures,
        [
            "56 x 100, patients repeated so many times; questions in ms, BlackBox / chosen",
            f"answers that differ from BlackBox's: {', '.join(wrong) or 'none'}",
            busy(),
        ],
    )
    return done(result, None, args)
