"""Does diagnose find all true causes, with how few runs, and how long does it think?

`python -m bench.diagnose` (`make bench-diagnose`): the paper's synthetic pipelines and the further cases of the
issue, all seeded. Each pipeline's result is kept in bench/out/diagnose-units.jsonl as soon as it is there, under the
code it was made with; `--minutes 8` stops in time and the next call goes on. `--parts timing` measures only what needs
a quiet machine, `--parts quality` only the rest. Seeds below 10,000 are for reporting: nothing was tuned on them.
Runs are counted with the history that a search begins with. Figures 3 to 8 of the paper are drawn anew.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # the matrices are small: threads only get in each other's way

import hashlib
import json
import signal
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field
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
LIMIT = 240  # seconds for one pipeline
FIRST = 400  # runs at most until the first cause is confirmed
WORKERS = (1, 2, 4)
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


Found = dict[str, dict[int, Tally]]


def _kept(found: Found) -> dict[str, dict[str, dict[str, Any]]]:
    return {method: {str(mark): asdict(t) for mark, t in by.items()} for method, by in found.items()}


def one_case(
    kind: str, marks: Sequence[int], how: str, baselines: bool, options: dict[str, Any], seed: int, goal: str = "all"
) -> Any:
    case = make_case(kind, seed, **options)
    found, _, made = search(case, marks, how, goal)
    results: Found = {"whence": found}
    if baselines:
        begin = history(case, how, np.random.default_rng([7, case.seed]))
        for name, baseline in BASELINES.items():
            results[name] = {}
            for mark in marks:
                answer, runs = baseline(case, begin, mark, made)
                results[name][mark] = tally([(b, False) for b in answer], case, runs)
    return _kept(results)


def unit(name: str) -> Any:
    """One pipeline, by its name section/kind/seed: what is kept is JSON."""
    section, kind, number = name.split("/")
    seed = int(number)
    if section == "main":
        return one_case(kind, MARKS, "each", True, {}, seed)
    if section == "first":
        return one_case(kind, (FIRST,), "each", False, {}, seed, goal="one")
    if section == "polygamy":
        return _kept({"whence": search(polygamy(seed), MARKS[:4], "each")[0]})
    if section == "thirty":
        return one_case(kind, (300,), "each", False, {"parameters": 30}, seed)
    if section == "flaky":
        return one_case(kind, (300,), "each", False, {"noise": 0.05}, seed)
    if section == "constraints":
        return one_case(kind, (50, 200), "each", False, {"rules": 3}, seed)
    if section in ("one", "none"):
        return one_case(kind, (50, 200), section, False, {}, seed)
    if section == "thinking":
        return thinking_time(seed)
    return speed_up(int(kind), seed)


def limited(name: str) -> Any:
    """None, with a word, when it takes too long: it then stays missing, and the rest can go on."""

    def stop(*_: object) -> None:
        raise TimeoutError

    signal.signal(signal.SIGALRM, stop)
    signal.alarm(LIMIT)
    try:
        return unit(name)
    except TimeoutError:
        print(f"diagnose: {name} took more than {LIMIT} s and is left out", flush=True)
        return None
    finally:
        signal.alarm(0)


def units(pipelines: int, few: int, first_seed: int) -> dict[str, list[str]]:
    """Names by part, in an order that gives a break in the middle something of everything."""
    half = pipelines // 2

    def some(sections: Sequence[str], kinds: Sequence[str], numbers: Iterable[int]) -> list[str]:
        return [f"{section}/{kind}/{first_seed + n}" for n in numbers for kind in kinds for section in sections]

    quality = some(["main"], KINDS, range(half))
    quality += some(["thirty", "flaky"], KINDS, range(few))
    quality += some(["constraints", "one", "none"], ["dnf"], range(few)) + some(["polygamy"], ["all"], range(few))
    quality += some(["first"], KINDS, range(half)) + some(["main", "first"], KINDS, range(half, pipelines))
    timing = [f"thinking/dnf/{first_seed + n}" for n in range(3)]
    timing += [f"workers/{count}/{turn}" for turn in range(2) for count in WORKERS]
    return {"quality": quality, "timing": timing}


def version() -> str:
    """Of the code that decides what is found."""
    import whence.debug.diagnose as package

    files = [*Path(package.__file__ or "").parent.glob("*.py"), *Path(__file__).parent.glob("diagnose_*.py")]
    ignored = ("page.py", "report.py", "progress.py", "script.py", "sources.py", "__init__.py")
    text = b"".join(f.read_bytes() for f in sorted(files, key=lambda f: f.name) if f.name not in ignored)
    return hashlib.sha256(text).hexdigest()[:12]


class Kept:
    """Results by unit, one JSON line each."""

    def __init__(self, path: Path) -> None:
        self.path, self.version = path, version()
        self.results: dict[str, Any] = {}
        if path.exists():
            for line in path.read_text().splitlines():
                row = json.loads(line)
                if row["version"] == self.version:
                    self.results[row["unit"]] = row["result"]

    def add(self, name: str, result: Any) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a") as file:
            file.write(json.dumps({"unit": name, "version": self.version, "result": result}) + "\n")
        self.results[name] = result

    def tallies(self, section: str, kind: str, names: Sequence[str]) -> dict[str, dict[int, Tally]]:
        total: dict[str, dict[int, Tally]] = {}
        for name in names:
            if name.startswith(f"{section}/{kind}/") and name in self.results:
                for method, found in self.results[name].items():
                    for mark, one in found.items():
                        total.setdefault(method, {}).setdefault(int(mark), Tally()).add(Tally(**one))
        return total


def thinking_time(seed: int) -> list[float]:
    """15 parameters of 40 values: the time between a run's outcome and the next question."""
    case = make_case("dnf", seed, parameters=15, values=(40, 40))
    return search(case, (200,), "each")[1]


def _slow(config: dict[str, Any]) -> bool:
    time.sleep(0.2)
    return not (config["p1"] >= 4 and config["p3"] == 2)


def speed_up(workers: int, turn: int) -> float:
    """Seconds for 60 runs of 0.2 s each."""
    space = {f"p{i}": list(range(8)) for i in range(8)}
    begun = time.perf_counter()
    diagnose(_slow, space, budget=60, workers=workers, seed=turn)
    return time.perf_counter() - begun


def main() -> None:
    parser = arguments(__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--quick", action="store_true", help="a handful of pipelines")
    parser.add_argument("--pipelines", type=int, default=50, help="synthetic pipelines of each kind")
    parser.add_argument("--few", type=int, default=8, help="pipelines of each kind for the further cases")
    parser.add_argument("--parts", choices=("all", "quality", "timing"), default="all")
    parser.add_argument("--only", default="", help="only units whose name contains this, such as flaky/dnf")
    parser.add_argument("--jobs", type=int, default=1, help="processes; timing always has one")
    parser.add_argument("--minutes", type=float, default=600.0, help="stop after so long; the next call goes on")
    parser.add_argument("--first-seed", type=int, default=0, help="below 10,000: not used for tuning")
    options = parser.parse_args()
    pipelines, few = (3, 2) if options.quick else (options.pipelines, options.few)
    named = units(pipelines, few, options.first_seed)
    everything = [*named["timing"], *named["quality"]]
    kept = Kept(OUT / "diagnose-units.jsonl")
    asked = everything if options.parts == "all" else named[options.parts]
    open_ = [name for name in asked if name not in kept.results and options.only in name]
    end = time.perf_counter() + 60 * options.minutes
    with progress("diagnose", max(1, len(open_))) as tick:
        _work([n for n in open_ if n in named["timing"]], 1, end, kept, tick)
        _work([n for n in open_ if n not in named["timing"]], options.jobs, end, kept, tick)
    missing = [name for name in everything if name not in kept.results]
    if missing and not options.only:
        print(f"diagnose: {len(everything) - len(missing)} of {len(everything)} pipelines done; call again to go on.")
    _finish(options, kept, everything, len(missing))


def _work(names: Sequence[str], jobs: int, end: float, kept: Kept, tick: Callable[[str], None]) -> None:
    if jobs == 1:
        for name in names:
            if time.perf_counter() > end:
                return
            tick(name)
            found = limited(name)
            if found is not None:
                kept.add(name, found)
        return
    with ProcessPoolExecutor(jobs) as pool:
        waiting = {pool.submit(limited, name): name for name in names}
        for done in as_completed(waiting):
            tick(waiting[done])
            found = done.result()
            if found is not None:
                kept.add(waiting[done], found)
            if time.perf_counter() > end:
                pool.shutdown(cancel_futures=True)
                return


def _sum(tallies: Iterable[Tally]) -> Tally:
    total = Tally()
    for one in tallies:
        total.add(one)
    return total


def _finish(options: Any, kept: Kept, names: Sequence[str], missing: int) -> None:
    cases = {k: kept.tallies("main", k, names) for k in KINDS}
    first = {k: kept.tallies("first", k, names).get("whence", {}).get(FIRST, Tally()) for k in KINDS}
    if not all(cases.values()):
        return
    rows = [row for kind in KINDS for row in _rows(kind, cases[kind])]
    figures: dict[str, float] = {}

    def say(name: str, value: str, **numbers: float) -> None:
        rows.append([name, *[""] * (len(MARKS) - 1), value])
        figures.update({k: round(v, 4) for k, v in numbers.items()})

    for mark, wanted in TARGETS.items():
        figures |= {f"f_{kind}_{mark}": round(cases[kind]["whence"][mark].f, 4) for kind in wanted}
    for kind, t in first.items():
        numbers = {f"first_precision_{kind}": t.precision, f"first_recall_{kind}": t.mild_recall}
        words = f"{t.precision:.2f} / {t.mild_recall:.2f} / {median(t.runs or [0]):.0f}"
        say(f"first cause, {NAMES[kind]}: precision / recall / runs", words, **numbers)
    dp = kept.tallies("polygamy", "all", names).get("whence", {})
    if dp:
        words = " / ".join(f"{dp[m].f:.2f}" for m in (50, 100, 200))
        say("Data Polygamy: 50 / 100 / 200 runs", words, polygamy=dp[200].f, polygamy_50=dp[50].f)
    for section, title in (("thirty", "30 parameters, 300 runs"), ("flaky", "5% flaky, 300 runs")):
        each = {k: kept.tallies(section, k, names).get("whence", {}).get(300, Tally()) for k in KINDS}
        total = _sum(each.values())
        words = f"{total.f:.2f} ({' '.join(f'{t.f:.2f}' for t in each.values())})"
        say(f"{title}: all kinds (each)", words, **{section: total.f, f"{section}_precision": total.precision})
        figures |= {f"{section}_{k}": round(t.f, 4) for k, t in each.items()}
        figures[f"{section}_confirmed_precision"] = round(total.sure, 4)
    for section, title in (
        ("constraints", "disj. of conj. with constraints"),
        ("one", "disj. of conj., one failing run given"),
        ("none", "disj. of conj., no history"),
    ):
        found = kept.tallies(section, "dnf", names).get("whence", {})
        if found:
            words = f"{found[50].f:.2f} / {found[200].f:.2f}"
            say(f"{title}: 50 / 200 runs", words, **{f"{section}_50": found[50].f, section: found[200].f})
    sections = ("main", "first", "polygamy", "thirty", "constraints", "one", "none")
    sure = _sum(
        t
        for section in sections
        for kind in (*KINDS, "all")
        for t in kept.tallies(section, kind, names).get("whence", {}).values()
    )
    say("precision of confirmed causes", f"{sure.sure:.4f} of {sure.confirmed}", confirmed_precision=sure.sure)
    times = [t for n in names if n.startswith("thinking/") for t in kept.results.get(n, ())]
    if times:
        low, mid, high = median(times) * 1000, mean(times) * 1000, float(np.percentile(times, 95)) * 1000
        words = f"{low:.0f} / {mid:.0f} / {high:.0f}"
        say(
            "thinking, 15 x 40: median / mean / 95% ms",
            words,
            think_ms_median=low,
            think_ms_mean=mid,
            think_ms_p95=high,
        )
    speed = _speeds(kept)
    if speed:
        words = " / ".join(f"{speed[count]:.2f}" for count in WORKERS if count > 1)
        say(f"speed-up, {' / '.join(str(c) for c in WORKERS[1:])} workers", words, speed_up_2=speed[2])
    pipelines = cases["single"]["whence"][MARKS[0]].pipelines
    line = "diagnose: F with 200 runs " + " ".join(f"{figures[f'f_{k}_200']:.2f}" for k in KINDS)
    line += " (single, disjunction, conjunction, disjunction of conjunctions), with 50 runs "
    line += " ".join(f"{figures[f'f_{k}_50']:.2f}" for k in KINDS)
    for key, words in LINE.items():
        if key in figures:
            line += f"; {words.format(figures[key])}"
    draw_figures(cases, first, speed)
    notes = [
        f"{pipelines} pipelines of each kind; a cause counts when it is equal, over the whole space, to a true minimal "
        "cause, and all true causes count. The history has one failing run of each cause and three succeeding ones; "
        "it counts among the runs.",
        "Rows without a word behind the method are F; whence stops by itself when every cause is confirmed, so its "
        "number of runs (median) stays below the budget.",
        "Data Polygamy: Diff < 0 fails whatever the percentage is (below 0 by R.1), so by definition 5 the minimal "
        "cause of R.3 is Diff < 0 alone; likewise R.4.",
        "Without a history a conjunction of two values out of 40 each fails one run in 1,600: none can be looked for.",
    ]
    if missing:
        notes.append(f"Not complete: {missing} pipelines are still to be run.")
    result = Result(
        "diagnose",
        "Causes found (F over all true causes) by number of runs",
        line,
        ["pipelines and method", *(f"{m} runs" for m in MARKS)],
        rows,
        figures,
        notes=notes,
        raw={k: _kept(v) for k, v in cases.items()},
    )
    bars = Bars([NAMES[k] for k in KINDS], {f"{m} runs": [cases[k]["whence"][m].f for k in KINDS] for m in MARKS}, "F")
    target = finish(result, bars)
    if options.docs:
        write_docs(target)


LINE = {
    "polygamy": "Data Polygamy {:.2f}",
    "thirty": "30 parameters {:.2f}",
    "flaky": "5% flaky {:.2f}",
    "constraints": "constraints {:.2f}",
    "confirmed_precision": "confirmed right {:.4f}",
    "think_ms_median": "thinks {:.0f} ms",
    "think_ms_p95": "95% within {:.0f} ms",
    "speed_up_2": "2 workers {:.2f}x",
}


def _rows(kind: str, cases: dict[str, dict[int, Tally]]) -> Iterable[list[str]]:
    for method, found in cases.items():
        yield [f"{NAMES[kind]}: {method}", *(f"{found[m].f:.2f}" for m in MARKS)]
        if method == "whence":
            for word, value in (
                ("precision", lambda t: f"{t.precision:.2f}"),
                ("recall", lambda t: f"{t.recall:.2f}"),
                ("runs", lambda t: f"{median(t.runs):.0f}"),
            ):
                yield [f"{NAMES[kind]}: whence, {word}", *(value(found[m]) for m in MARKS)]


def _speeds(kept: Kept) -> dict[int, float]:
    took: dict[int, list[float]] = {}
    for name, seconds in kept.results.items():
        if name.startswith("workers/"):
            took.setdefault(int(name.split("/")[1]), []).append(seconds)
    return {count: median(took[1]) / median(seconds) for count, seconds in sorted(took.items())} if 1 in took else {}


def draw_figures(
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
        panel.text(0, 0.05, f"{median(t.runs or [0]):.0f} runs", fontsize=8, color="white")
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
                panel.plot(MARKS, [getattr(found[m], value) for m in MARKS], marker="o", ms=3, lw=wide, label=method)
            panel.set_xscale("log")
            panel.set_xticks(list(MARKS), [str(m) for m in MARKS])
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
