"""Does diagnose find all true causes, with how few runs, and how long does it think?

`python -m bench.diagnose` (`make bench-diagnose`): the paper's synthetic pipelines and the further cases of the
issue, all seeded. `--quick` takes few pipelines; `--jobs 2` uses two processes. Seeds below 10,000 are for reporting
only: nothing was tuned on them. Runs are counted with the history that a search begins with. Figures 3 to 8 of the
paper are drawn anew.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # the matrices are small: threads only get in each other's way

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from statistics import mean, median
from typing import Any

import numpy as np

from bench.diagnose_baselines import BASELINES
from bench.diagnose_cases import KINDS, Case, history, make_case, polygamy, score
from bench.harness import OUT, Bars, Result, arguments, finish, progress, write_docs
from whence.debug.diagnose import Diagnosis, diagnose
from whence.debug.diagnose.causes import Box, box_of

MARKS = (25, 50, 100, 200, 500, 1000)
TARGETS = {
    200: {"single": 0.98, "disjunction": 0.98, "conjunction": 0.95, "dnf": 0.92},
    50: {"single": 0.9, "disjunction": 0.9, "conjunction": 0.75, "dnf": 0.6},
}
NAMES = {"single": "single", "disjunction": "disjunction", "conjunction": "conjunction", "dnf": "disj. of conj."}


@dataclass
class Tally:
    """Counts over pipelines: right, reported, true; the same for confirmed causes; pipelines with one found."""

    right: int = 0
    reported: int = 0
    true: int = 0
    confirmed_right: int = 0
    confirmed: int = 0
    any: int = 0
    pipelines: int = 0
    runs: list[int] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        for name in ("right", "reported", "true", "confirmed_right", "confirmed", "any", "pipelines"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.runs += other.runs

    @property
    def precision(self) -> float:
        return self.right / self.reported if self.reported else 0.0

    @property
    def recall(self) -> float:
        return self.right / self.true if self.true else 0.0

    @property
    def mild_recall(self) -> float:
        """The paper's: pipelines with at least one true cause found."""
        return self.any / self.pipelines if self.pipelines else 0.0

    @property
    def f(self) -> float:
        both = self.precision + self.recall
        return 2 * self.precision * self.recall / both if both else 0.0

    @property
    def sure(self) -> float:
        return self.confirmed_right / self.confirmed if self.confirmed else 1.0


def tally(found: Sequence[tuple[Box, bool]], case: Case, runs: int) -> Tally:
    right, reported, true = score([b for b, _ in found], case)
    sure_right, sure, _ = score([b for b, confirmed in found if confirmed], case)
    return Tally(right, reported, true, sure_right, sure, int(right > 0), 1, [runs])


def boxes(d: Diagnosis, case: Case) -> list[tuple[Box, bool]]:
    return [(box_of(c.conditions, case.space), c.status == "confirmed") for c in d.causes]


def search(case: Case, marks: Sequence[int], how: str, goal: str = "all") -> tuple[dict[int, Tally], list[float], Any]:
    """One diagnosis, looked at when it has made so many runs (the history counts)."""
    rng = np.random.default_rng([7, case.seed])
    given = [(case.space.decode(c), ok) for c, ok in history(case, how, rng)]
    d = Diagnosis(
        case.space,
        given,
        budget=marks[-1] - len(given),
        valid=case.valid if case.forbidden else None,
        flaky=case.noise or False,
        seed=case.seed,
        goal=goal,
    )
    found: dict[int, Tally] = {}
    thought: list[float] = []
    asking = True
    for mark in marks:
        while asking and len(d.runs) < mark:
            begun = time.perf_counter()
            asked = d.ask()
            thought.append(time.perf_counter() - begun)
            if not asked:
                asking = False
                break
            fails = case.fails(case.space.encode(asked[0]))
            if case.noise and rng.random() < case.noise:
                fails = not fails
            d.tell(asked[0], not fails)
        found[mark] = tally(boxes(d, case), case, len(d.runs))
    made = [(case.space.encode(c), ok) for c, ok in d.history]
    return found, thought, made


def one_case(kind: str, marks: Sequence[int], how: str, baselines: bool, options: dict[str, Any], seed: int) -> Any:
    case = make_case(kind, seed, **options)
    found, thought, made = search(case, marks, how)
    results: dict[str, dict[int, Tally]] = {"whence": found}
    if baselines:
        begin = history(case, how, np.random.default_rng([7, case.seed]))
        for name, baseline in BASELINES.items():
            results[name] = {}
            for mark in marks:
                answer, runs = baseline(case, begin, mark, made)
                results[name][mark] = tally([(b, False) for b in answer], case, runs)
    return results, thought


def first_case(kind: str, seed: int) -> Tally:
    """Stop at the first confirmed cause (figure 3)."""
    case = make_case(kind, seed)
    found, _, made = search(case, (400,), "each", goal="one")
    del made
    return found[400]


class Bench:
    def __init__(self, jobs: int, tick: Callable[[str], None]) -> None:
        self.pool = ProcessPoolExecutor(jobs) if jobs > 1 else None
        self.tick = tick

    def map(self, what: str, work: Callable[[int], Any], seeds: Sequence[int]) -> list[Any]:
        self.tick(what)
        return list(self.pool.map(work, seeds) if self.pool else map(work, seeds))

    def cases(
        self, what: str, kind: str, marks: Sequence[int], seeds: Sequence[int], how: str = "each",
        baselines: bool = False, **options: Any,
    ) -> dict[str, dict[int, Tally]]:  # fmt: skip
        total: dict[str, dict[int, Tally]] = {}
        for results, _ in self.map(what, partial(one_case, kind, marks, how, baselines, options), seeds):
            for name, found in results.items():
                for mark, one in found.items():
                    total.setdefault(name, {}).setdefault(mark, Tally()).add(one)
        return total


def polygamy_case(seed: int) -> Tally:
    """R.1 to R.4 of section 4.5. Diff < 0 fails whatever the percentage is (below 0 it fails by R.1), so the minimal
    definitive cause, by the paper's own definition 5, is Diff < 0 alone; likewise R.4."""
    case = polygamy(seed)
    found, _, _ = search(case, (200,), "each")
    return found[200]


def thinking_time(pipelines: int) -> list[float]:
    """15 parameters of 40 values: the time between a run's outcome and the next question."""
    times: list[float] = []
    for seed in range(pipelines):
        case = make_case("dnf", seed, parameters=15, values=(40, 40))
        times += search(case, (150,), "each")[1]
    return times


def _slow(config: dict[str, Any]) -> bool:
    time.sleep(0.2)
    return not (config["p1"] >= 4 and config["p3"] == 2)


def speed_up(workers: Sequence[int]) -> dict[int, float]:
    """Wall time of 60 runs of 0.2 s each, over one worker's."""
    space = {f"p{i}": list(range(8)) for i in range(8)}
    took = {}
    for count in workers:
        begun = time.perf_counter()
        diagnose(_slow, space, budget=60, workers=count, seed=1)
        took[count] = time.perf_counter() - begun
    return {count: took[workers[0]] / seconds for count, seconds in took.items()}


def main() -> None:
    parser = arguments(__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--quick", action="store_true", help="few pipelines and budgets up to 200")
    parser.add_argument("--pipelines", type=int, default=50, help="synthetic pipelines of each kind")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--first-seed", type=int, default=0, help="below 10,000: not used for tuning")
    options = parser.parse_args()
    count = 6 if options.quick else options.pipelines
    marks = tuple(m for m in MARKS if m <= 200) if options.quick else MARKS
    few = 3 if options.quick else 25
    seeds = range(options.first_seed, options.first_seed + count)
    some = seeds[:few]
    with progress("diagnose", 3 * len(KINDS) + 9) as tick:
        bench = Bench(options.jobs, tick)
        tick("thinking time")
        times = thinking_time(1 if options.quick else 3)
        tick("speed-up")
        speed = speed_up((1, 2) if options.quick else (1, 2, 4, 8))
        main_cases = {k: bench.cases(k, k, marks, seeds, baselines=True) for k in KINDS}
        first = {k: _sum(bench.map(f"first cause, {k}", partial(first_case, k), seeds)) for k in KINDS}
        dp = _sum(bench.map("Data Polygamy", polygamy_case, some))
        wide = {
            k: bench.cases(f"30 parameters, {k}", k, (300,), some, parameters=30)["whence"][300]
            for k in ("conjunction", "dnf")
        }
        flaky = {
            k: bench.cases(f"flaky, {k}", k, (300,), some, noise=0.05)["whence"][300]
            for k in ("single", "conjunction", "dnf")
        }
        rules = bench.cases("constraints", "dnf", (200,), some, rules=3)["whence"][200]
        bare = {h: bench.cases(f"history: {h}", "dnf", (50, 200), some, how=h)["whence"] for h in ("one", "none")}
    _finish(options, marks, times, speed, main_cases, first, dp, wide, flaky, rules, bare)


def _sum(tallies: Sequence[Tally]) -> Tally:
    total = Tally()
    for one in tallies:
        total.add(one)
    return total


def _finish(
    options: Any, marks: Sequence[int], times: list[float], speed: dict[int, float],
    cases: dict[str, dict[str, dict[int, Tally]]], first: dict[str, Tally], dp: Tally,
    wide: dict[str, Tally], flaky: dict[str, Tally], rules: Tally, bare: dict[str, dict[int, Tally]],
) -> None:  # fmt: skip
    rows = []
    for kind in KINDS:
        for method in cases[kind]:
            rows.append([f"{NAMES[kind]}: {method}", *(f"{cases[kind][method][m].f:.2f}" for m in marks)])
    all_wide, all_flaky = _sum(list(wide.values())), _sum(list(flaky.values()))
    sure = _sum([cases[k]["whence"][m] for k in KINDS for m in marks])
    p95 = float(np.percentile(times, 95)) * 1000

    def extra(name: str, value: str) -> None:
        rows.append([name, *[""] * (len(marks) - 1), value])

    for kind in KINDS:
        t = first[kind]
        extra(
            f"first cause, {NAMES[kind]}: precision / recall / runs",
            f"{t.precision:.2f} / {t.mild_recall:.2f} / {median(t.runs):.0f}",
        )
    extra("Data Polygamy, 200 runs", f"{dp.f:.2f}")
    extra("30 parameters, 300 runs", f"{all_wide.f:.2f}")
    extra("5% flaky, 300 runs", f"{all_flaky.f:.2f}")
    extra("constraints, 200 runs", f"{rules.f:.2f}")
    for how, found in bare.items():
        words = "one failing run given" if how == "one" else "no history"
        extra(f"disj. of conj., {words}: 50 / 200 runs", f"{found[50].f:.2f} / {found[200].f:.2f}")
    extra("precision of confirmed causes", f"{sure.sure:.3f} of {sure.confirmed}")
    extra("thinking time, 15 x 40: mean / 95% ms", f"{1000 * mean(times):.0f} / {p95:.0f}")
    extra("speed-up, 2 workers", f"{speed[2]:.2f}")
    figures: dict[str, float] = {}
    for mark, wanted in TARGETS.items():
        for kind in wanted:
            figures[f"f_{kind}_{mark}"] = round(cases[kind]["whence"][mark].f, 4)
    for kind in KINDS:
        figures[f"first_precision_{kind}"] = round(first[kind].precision, 4)
        figures[f"first_recall_{kind}"] = round(first[kind].mild_recall, 4)
    figures |= {
        "polygamy": round(dp.f, 4),
        "thirty": round(all_wide.f, 4),
        "flaky": round(all_flaky.f, 4),
        "constraints": round(rules.f, 4),
        "confirmed_precision": round(sure.sure, 4),
        "think_ms_mean": round(1000 * mean(times), 1),
        "think_ms_p95": round(p95, 1),
        "speed_up_2": round(speed[2], 3),
    }
    line = "diagnose: F with 200 runs " + " ".join(f"{figures[f'f_{k}_200']:.2f}" for k in KINDS)
    line += " (single, disjunction, conjunction, disjunction of conjunctions), with 50 runs "
    line += " ".join(f"{figures[f'f_{k}_50']:.2f}" for k in KINDS)
    line += f"; Data Polygamy {dp.f:.2f}; 30 parameters {all_wide.f:.2f}; 5% flaky {all_flaky.f:.2f}; "
    line += f"constraints {rules.f:.2f}; "
    line += f"confirmed right {sure.sure:.3f}; thinks {figures['think_ms_mean']:.0f} ms; 2 workers {speed[2]:.2f}x"
    draw_figures(marks, cases, first, speed)
    result = Result(
        "diagnose",
        "Causes found (F over all true causes) by number of runs",
        line,
        ["pipelines and method", *(f"{m} runs" for m in marks)],
        rows,
        figures,
        notes=[
            f"{len(cases['single']['whence'][marks[0]].runs)} pipelines of each kind; a cause counts when it is "
            "equal, over the whole space, to a true minimal cause. The history has one failing run of each cause and "
            "three succeeding ones; it counts among the runs.",
            "Without a history a conjunction of two values out of 40 each fails one run in 1,600: none can be "
            "looked for.",
        ],
        raw={k: {m: {str(b): asdict(t) for b, t in by.items()} for m, by in v.items()} for k, v in cases.items()},
    )
    bars = Bars([NAMES[k] for k in KINDS], {f"{m} runs": [cases[k]["whence"][m].f for k in KINDS] for m in marks}, "F")
    target = finish(result, bars)
    if options.docs:
        write_docs(target)


def draw_figures(
    marks: Sequence[int],
    cases: dict[str, dict[str, dict[int, Tally]]],
    first: dict[str, Tally],
    speed: dict[int, float],
) -> None:
    """Figures 3 to 8 of the paper."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    OUT.mkdir(parents=True, exist_ok=True)
    figure, panels = pyplot.subplots(1, len(KINDS), figsize=(13, 3.2), sharey=True)
    for panel, kind in zip(panels, KINDS, strict=True):
        t = first[kind]
        mild = 2 * t.precision * t.mild_recall / max(1e-9, t.precision + t.mild_recall)
        panel.bar(["precision", "recall", "F"], [t.precision, t.mild_recall, mild], color="#2457a6")
        panel.set_title(f"Figure 3: {NAMES[kind]}", fontsize=9)
        panel.set_ylim(0, 1.05)
    _save(figure, OUT / "diagnose-figure3.png")
    for number, kind in zip((4, 5, 6, 7), KINDS, strict=True):
        figure, panels = pyplot.subplots(1, 3, figsize=(13, 3.4), sharey=True)
        for panel, (title, value) in zip(
            panels,
            {"precision": "precision", "recall (all causes)": "recall", "F": "f"}.items(),
            strict=True,
        ):
            for method, found in cases[kind].items():
                wide = 2.2 if method == "whence" else 1.1
                panel.plot(marks, [getattr(found[m], value) for m in marks], marker="o", ms=3, lw=wide, label=method)
            panel.set_xscale("log")
            panel.set_xticks(list(marks), [str(m) for m in marks])
            panel.set_title(f"Figure {number}: {NAMES[kind]}, {title}", fontsize=9)
            panel.set_ylim(0, 1.05)
        panels[0].legend(fontsize=7)
        _save(figure, OUT / f"diagnose-figure{number}.png")
    figure, panel = pyplot.subplots(figsize=(4.5, 3.4))
    panel.plot(list(speed), list(speed.values()), marker="o", label="measured")
    panel.plot(list(speed), list(speed), ls="--", color="grey", label="linear")
    panel.set_title("Figure 8: speed-up by workers", fontsize=9)
    panel.legend(fontsize=8)
    _save(figure, OUT / "diagnose-figure8.png")


def _save(figure: Any, path: Path) -> None:
    from matplotlib import pyplot

    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


if __name__ == "__main__":
    main()
