"""Section 7.3.1's dataflow: three MapReduce jobs join four data sets; 42 actor instances; two maps are faulty.

Each job has 4 readers, 4 maps, 3 reduces and 3 writers. A map emits one tuple for each item of its record (a Poisson
number), so that multiplicity varies by nature; keys are skewed, so that the joins' fan-out does too. A faulty map emits
`magnitude` spurious tuples for one input, all with one key; the second faulty map is hit by a descendant of the first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from whence.actors import Actor, ActorStore

READERS, REDUCES = 4, 3


@dataclass(frozen=True)
class Dataflow:
    root: Actor
    faulty: tuple[str, str]  # paths of the two faulty maps
    bad: int  # an output that came through both
    good: tuple[int, ...]
    associations: int
    instances: int


class _Job:
    def __init__(self, store: ActorStore, app: Actor, name: str, seed: np.random.Generator) -> None:
        self.job = store.register(name, kind="job", parents=[app])
        self.random = seed
        parts = {"reader": READERS, "map": READERS, "reduce": REDUCES, "writer": REDUCES}
        self.actors = {
            kind: [store.register(f"{kind} {n}", kind=kind, parents=[self.job]) for n in range(count)]
            for kind, count in parts.items()
        }
        links = [(r, m) for r, m in zip(self.actors["reader"], self.actors["map"], strict=True)]
        links += [(m, r) for m in self.actors["map"] for r in self.actors["reduce"]]
        links += list(zip(self.actors["reduce"], self.actors["writer"], strict=True))
        for giver, taker in links:
            store.flow_link(giver, taker)
        self.associations = 0

    def capture(self, kind: str, n: int, inputs: Any, outputs: Any) -> None:
        self.actors[kind][n].capture_many(np.asarray(inputs), np.asarray(outputs))
        self.associations += len(inputs)

    def commit(self) -> None:
        for actors in self.actors.values():
            for actor in actors:
                actor.commit()
        self.job.commit()


class _Ids:
    def __init__(self) -> None:
        self.next = 0

    def __call__(self, count: int) -> Any:
        self.next += count
        return np.arange(self.next - count, self.next)


def build(store: ActorStore, magnitude: int, size: int = 2000, seed: int = 0, goods: int = 200) -> Dataflow:
    """`size` records a data set. `magnitude` 0: no fault."""
    random, ids = np.random.default_rng(seed), _Ids()
    app = store.register(f"three joins {seed}", kind="application")
    jobs: list[_Job] = []
    left_ids = ids(size)
    spoiled = np.zeros(size, bool)  # which records descend from the faults so far
    faulty: list[str] = []
    keys = max(size // 4, 4)
    for number in range(3):
        job = _Job(store, app, f"join {number + 1}", random)
        if jobs:
            store.flow_link(jobs[-1].job, job.job)
        right_ids = ids(size)
        # two readers and two maps for the left side, two for the right one
        sides = [(left_ids, spoiled, 0), (right_ids, np.zeros(size, bool), 2)]
        mapped: list[dict[str, Any]] = []
        for records, marks, first in sides:
            share = np.arange(len(records)) % 2
            for part in range(2):
                mine, mine_marks = records[share == part], marks[share == part]
                read = ids(len(mine))
                job.capture("reader", first + part, mine, read)
                items = random.poisson(1.5 if first == 0 else 2.0, len(mine))
                fault = None
                if magnitude and number > 0 and first == 0 and len(faulty) < number:
                    # the second fault waits for a descendant of the first
                    candidates = np.flatnonzero(mine_marks) if number == 2 else np.arange(len(mine))
                    if len(candidates):
                        fault = int(candidates[len(candidates) // 2])
                        items[fault] = max(items[fault], 1) + magnitude
                        faulty.append(f"{job.job.spec.path}/map {first + part}")
                inputs = np.repeat(read, items)
                marked = np.repeat(mine_marks, items)
                if fault is not None:
                    hit = np.repeat(np.arange(len(mine)) == fault, items)
                    marked = hit if number == 1 else hit & marked
                elif number == 2:
                    marked = np.zeros(len(inputs), bool)
                outputs = ids(len(inputs))
                job.capture("map", first + part, inputs, outputs)
                skewed = random.zipf(1.6, len(inputs)) % keys + random.integers(0, keys, len(inputs))
                if fault is not None:
                    skewed[hit] = random.integers(0, keys)
                mapped.append({"ids": outputs, "keys": skewed % keys, "marks": marked, "left": first == 0})
        left_ids, spoiled = _reduce(job, ids, mapped, size, random)
        job.commit()
        jobs.append(job)
    app.commit()
    clean = left_ids[~spoiled]
    bad = int(left_ids[spoiled][0]) if spoiled.any() else int(left_ids[0])
    chosen = random.choice(clean, min(goods, len(clean)), replace=False)
    return Dataflow(
        app, (faulty[0], faulty[1]) if len(faulty) == 2 else ("", ""), bad, tuple(int(g) for g in chosen),
        sum(j.associations for j in jobs), 3 * 2 * (READERS + REDUCES),
    )  # fmt: skip


def _reduce(
    job: _Job, ids: _Ids, mapped: list[dict[str, Any]], size: int, random: np.random.Generator
) -> tuple[Any, Any]:
    sides = {}
    for left in (True, False):
        parts = [m for m in mapped if m["left"] is left]
        sides[left] = {k: np.concatenate([p[k] for p in parts]) for k in ("ids", "keys", "marks")}
    written, marks = [], []
    for n in range(REDUCES):
        left, right = ({k: v[s["keys"] % REDUCES == n] for k, v in s.items()} for s in (sides[True], sides[False]))
        order = np.argsort(right["keys"], kind="stable")
        low = np.searchsorted(right["keys"][order], left["keys"], side="left")
        high = np.searchsorted(right["keys"][order], left["keys"], side="right")
        count = np.minimum(high - low, 3)  # at most three partners, so that three joins do not explode
        who = np.repeat(np.arange(len(left["ids"])), count)
        start = low + random.integers(0, 1 << 30, len(low)) % np.maximum(high - low - count + 1, 1)
        partner = order[np.repeat(start, count) + np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)]
        out = ids(len(who))
        job.capture("reduce", n, left["ids"][who], out)
        job.capture("reduce", n, right["ids"][partner], out)
        done = ids(len(out))
        job.capture("writer", n, out, done)
        written.append(done)
        marks.append(left["marks"][who])
    everything, marked = np.concatenate(written), np.concatenate(marks)
    # what goes on to the next job: all that is marked, and about `size` of the others
    keep = marked | (random.random(len(everything)) < size / max(len(everything), 1))
    return everything[keep], marked[keep]
