"""Does what diagnose finds with 50 runs depend on the seeds it was measured with?

`python -m bench.diagnose_seeds`: pipelines of bench.diagnose, from several first seeds, 50 runs each, those given
among them. Changes of the search are tried on seeds from 10,000 on; those below are for measuring.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from bench.diagnose import NAMES, Tally, search
from bench.diagnose_cases import make_case
from bench.harness import Result, arguments, finish, progress, write_docs

RUNS = 50
ASKED = (("disjunction", "each"), ("dnf", "each"), ("dnf", "none"))
GIVEN = {"each": "a failing run of each cause given", "none": "nothing given"}


def main() -> None:
    parser = arguments(__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--pipelines", type=int, default=20, help="of each kind and first seed")
    parser.add_argument("--first-seeds", type=int, nargs="+", default=[0, 5000, 20000, 30000])
    options = parser.parse_args()
    rows: list[list[str]] = []
    figures: dict[str, float] = {}
    sure = Tally()
    with progress("diagnose with other seeds", len(ASKED) * len(options.first_seeds) * options.pipelines) as tick:
        for kind, how in ASKED:
            cells = []
            for first in options.first_seeds:
                total = Tally()
                for seed in range(first, first + options.pipelines):
                    tick(f"{kind} {seed}")
                    total.add(search(make_case(kind, seed), (RUNS,), how)[0][RUNS])
                sure.add(total)
                cells.append(f"{total.f:.2f} ({total.precision:.2f} / {total.recall:.2f})")
                figures[f"{kind}_{how}_{first}"] = round(total.f, 4)
            rows.append([f"{NAMES[kind]}, {GIVEN[how]}", *cells])
    means = [sum(v for k, v in figures.items() if k.startswith(f"{kind}_{how}_")) for kind, how in ASKED]
    words = ", ".join(f"{m / len(options.first_seeds):.2f}" for m in means)
    result = Result(
        "diagnose-seeds",
        f"Causes found with {RUNS} runs, by the seeds of the pipelines",
        f"diagnose with {RUNS} runs, mean over first seeds: disjunctions, disjunctions of conjunctions, the same with "
        f"nothing given: {words}",
        ["pipelines", *(f"seeds from {first}" for first in options.first_seeds)],
        rows,
        figures,
        notes=[
            f"F over all true causes (precision / recall), {options.pipelines} pipelines a cell; what was given counts "
            "among the runs.",
            "Changes of the search were tried on seeds from 10,000 on; those below were only measured at the end.",
            f"Confirmed causes that are right: {sure.confirmed_right} of {sure.confirmed}.",
        ],
    )
    target = finish(result)
    if options.docs:
        write_docs(target)


if __name__ == "__main__":
    main()
