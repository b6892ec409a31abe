"""How many causes could anybody find with 50 runs? `python -m bench.diagnose_bound`: no search is run, pipelines are
drawn as bench.diagnose draws them, and what a questioner would need is counted who knows how they are drawn.

- A run tells one bit at most. A cause that is known to hold one failing run takes as many bits as its chance, among
  all causes that hold this run, says; of causes in one pipeline each has to be paid for.
- `p != v` is another matter: a run tells nothing of v unless it lies within all other conditions of the cause, and
  then whether v is the one value that it has. So m such runs find v among s values with a chance of (m + 1) / s, and
  they tell nothing else. One run tries a value of every parameter, so a cause pays once for all of these conditions.
- Runs are shared out among the causes of a pipeline as is best for it. Succeeding runs that are given count as bits.
- With nothing given, a cause must first be met: with a chance of 1 - (1 - its share of the space) ** runs.

It is an estimate, no proof: each cause is taken for as likely as those that take as many bits. It
is generous: which causes the runs go to is known beforehand, no run is spent on what another cause hides, and all
that is named is right. So F is at most 2 r / (1 + r), r being the share of causes that is found.
"""

from __future__ import annotations

from functools import cache
from math import comb, log2, prod

import numpy as np

from bench.diagnose import NAMES
from bench.diagnose_cases import Case, history, make_case
from bench.diagnose_seeds import ASKED, GIVEN, RUNS
from bench.harness import Result, arguments, finish, write_docs
from whence.debug.diagnose.causes import Box
from whence.debug.diagnose.space import Codes

# How many conditions a cause has, and how often (bench.diagnose_cases).
CONDITIONS = {"disjunction": {1: 1.0}, "dnf": {1: 0.2, 2: 0.5, 3: 0.3}}
Values = frozenset[int]


@cache
def chances(size: int, ordinal: bool) -> dict[Values, float]:
    """How often a condition on a parameter with so many values picks each set of them."""
    found: dict[Values, float] = {}

    def add(values: range | Values, chance: float) -> None:
        found[frozenset(values)] = found.get(frozenset(values), 0.0) + chance

    each = 1 / 6 if ordinal else 1 / 2
    for v in range(size):
        add(frozenset({v}), each / size)
        add(frozenset(range(size)) - {v}, each / size)
    for cut in range(1, size) if ordinal else ():
        add(range(cut), 2 * each / (size - 1))
        add(range(cut, size), 2 * each / (size - 1))
    return found


def symmetric(values: list[float], k: int) -> float:
    """The sum of all products of k of these."""
    sums = [1.0] + [0.0] * k
    for value in values:
        for at in range(k, 0, -1):
            sums[at] += sums[at - 1] * value
    return sums[k]


def needed(case: Case, kind: str, box: Box, run: Codes) -> tuple[float, list[list[float]]]:
    """The bits that tell a cause which holds this run, but for the values that it leaves out one at a time; and of each
    of these the chance of every value, the likeliest first."""
    count = len(case.space.sizes)
    known = [chances(len(p.values), p.ordinal) for p in case.space.parameters]
    masses = [sum(c for values, c in some.items() if run[p] in values) for p, some in enumerate(known)]
    every = sum(w / comb(count, k) * symmetric(masses, k) for k, w in CONDITIONS[kind].items())
    chance = CONDITIONS[kind][len(box)] / comb(count, len(box))
    left_out = []
    for p, values in box:
        size = len(case.space.parameters[p].values)
        if len(values) < size - 1 or size == 2:
            chance *= known[p][values]
            continue
        family = sorted((c for some, c in known[p].items() if len(some) == size - 1 and run[p] in some), reverse=True)
        chance *= sum(family)
        left_out.append([c / sum(family) for c in family])
    return log2(every / chance), left_out


def found_with(bits: float, left_out: list[list[float]], runs: int) -> float:
    """The chance that a cause is found with so many runs, shared out as is best between bits and values left out."""
    return max(
        min(1.0, 2.0 ** (runs - tries - bits)) * prod(sum(family[: tries + 1]) for family in left_out)
        for tries in range(runs + 1 if left_out else 1)
    )


def share_found(case: Case, kind: str, how: str, seed: int) -> float:
    """How many causes of this pipeline are found, at most."""
    rng = np.random.default_rng([7, seed])
    given = history(case, "each", rng)
    failing = [codes for codes, succeeded in given if not succeeded]
    runs = RUNS - (len(failing) if how == "each" else 0)
    best = [0.0] * (runs + 1)
    for box, run in zip(case.truth, failing, strict=True):
        met = 1.0
        if how == "none":
            share = prod(len(values) / case.space.sizes[p] for p, values in box)
            met = 1 - (1 - share) ** RUNS
        gains = [met * found_with(*needed(case, kind, box, run), n) for n in range(runs + 1)]
        best = [max(best[n - m] + gains[m] for m in range(n + 1)) for n in range(runs + 1)]
    return best[runs]


def main() -> None:
    parser = arguments("How many causes could anybody find with 50 runs?")
    parser.add_argument("--pipelines", type=int, default=100, help="of each kind and first seed")
    parser.add_argument("--first-seeds", type=int, nargs="+", default=[0, 5000, 20000])
    options = parser.parse_args()
    rows, figures = [], {}
    for kind, how in ASKED:
        cells = []
        for first in options.first_seeds:
            cases = [make_case(kind, seed) for seed in range(first, first + options.pipelines)]
            found = sum(share_found(case, kind, how, case.seed) for case in cases)
            recall = found / sum(len(case.truth) for case in cases)
            figures[f"{kind} {how} {first}"] = round(2 * recall / (1 + recall), 4)
            cells.append(f"{2 * recall / (1 + recall):.2f} ({recall:.2f})")
        rows.append((f"{NAMES[kind]}, {GIVEN[how]}", *cells))
    means = [np.mean([v for k, v in figures.items() if k.startswith(f"{kind} {how} ")]) for kind, how in ASKED]
    result = Result(
        name="diagnose-bound",
        title=f"What could be found with {RUNS} runs by whoever knows how pipelines are drawn: an estimate",
        line=f"diagnose with {RUNS} runs, in reach: disjunctions, disjunctions of conjunctions, the same with nothing "
        f"given: {', '.join(f'{m:.2f}' for m in means)}",
        columns=("pipelines", *(f"seeds from {first}" for first in options.first_seeds)),
        rows=rows,
        figures=figures,
        notes=(
            f"F if nothing wrong is named (recall), {options.pipelines} pipelines a cell; no search is run.",
            "counted: one bit a run, and for `p != v` the runs that it takes to meet v; not counted: what a search "
            "cannot know, such as which runs another cause hides, and that a cause must be told from none.",
        ),
    )
    target = finish(result)
    if options.docs:
        write_docs(target)


if __name__ == "__main__":
    main()
