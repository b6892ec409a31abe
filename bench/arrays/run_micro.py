"""Figures 8 and 9: one operator with given fanin and fanout."""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.arrays import micro
from bench.arrays.measure import Measured, executed, mb, ms, repeated
from bench.arrays.report import busy, done
from bench.harness import Bars, Result, progress


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
        f"micro: FullOne smaller than FullMany in {one} of {len(small)} cases of fanout 1, FullMany smaller in {many} "
        f"of {len(large)} of fanout 10 and 100 (paper: the crossing is at 5)"
    )
    notes = [
        "1000 x 1000, lineage for a tenth of the output cells; run s: added to the run with Blackbox; questions about "
        "1000 cells, ms, with the query-time switch",
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
