"""RDD lineage against plain PySpark: `python -m bench.rdd` (70 and 500 MB; `--sizes 70 --pairs 7` for less).

Word count and grep on Zipf text (8,000 terms) and PigMix L2, L3, L6, L7 and L11 re-expressed on generated data. Each
job is run plainly and under capture in one process, in turn. Then, on what the last captured run left: the size of the
lineage, tracing one record back (cold: tables opened anew; warm), reading the traced lines, replaying them.

`--memory` measures the workers' peak memory instead, which needs no quiet machine, and puts it into the last table and
the next one.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from bench.harness import DATA, OUT, Result, arguments, finish, interleaved, progress, spark_session, timed, write_docs
from bench.rdd_plots import CAPTURE, draw

LIMIT = 1.05
Found = dict[tuple[str, int], dict[str, float]]
MEMORY = OUT / "rdd-memory.json"


def zipf_text(megabytes: int) -> Path:
    path = DATA / f"zipf{megabytes}.txt"
    if path.exists():
        return path
    rng = np.random.default_rng(7)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    drawn = dict.fromkeys("".join(rng.choice(letters, n)) for n in rng.integers(3, 11, 12_000).tolist())
    words = np.array(list(drawn)[:8000], dtype=object)
    chance = 1 / np.arange(1, len(words) + 1)
    chance /= chance.sum()
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path.with_suffix(".tmp"), "w") as out:
        while out.tell() < megabytes * 1_000_000:
            chosen = words[rng.choice(len(words), 100_000, p=chance)]
            out.write("\n".join(" ".join(chosen[i : i + 10]) for i in range(0, 100_000, 10)) + "\n")
    path.with_suffix(".tmp").rename(path)
    return path


def page_views(megabytes: int) -> tuple[Path, Path]:
    """PigMix's page_views (user, action, timespent, query, ip, timestamp, revenue) and users (name, phone, city)."""
    views, users = DATA / f"views{megabytes}.tsv", DATA / f"users{megabytes}.tsv"
    if views.exists() and users.exists():
        return views, users
    rng = random.Random(11)
    people = max(1000, megabytes * 40)
    views.parent.mkdir(parents=True, exist_ok=True)
    with open(users, "w") as out:
        for n in range(people):
            out.write(f"user{n}\t{rng.randrange(10**9)}\tcity{n % 300}\n")
    with open(views.with_suffix(".tmp"), "w") as out:
        while out.tell() < megabytes * 1_000_000:
            lines = []
            for _ in range(10_000):
                user = int(people * rng.random() ** 3)
                lines.append(
                    f"user{user}\t{rng.randrange(1, 3)}\t{rng.randrange(100)}\tquery{rng.randrange(10**5)}\t"
                    f"{rng.randrange(256)}.{rng.randrange(256)}.0.1\t{rng.randrange(86400)}\t"
                    f"{rng.randrange(1000) / 100}\n"
                )
            out.writelines(lines)
    views.with_suffix(".tmp").rename(views)
    return views, users


def fields(line: str) -> list[str]:
    return line.split("\t")


@dataclass(frozen=True)
class Job:
    """`make` gives the result's RDD; `keys` a record to trace, chosen among the results."""

    name: str
    make: Callable[[Any], Any]
    act: Callable[[Any], Any]
    input_bytes: int


def jobs(megabytes: int) -> list[Job]:
    text = str(zipf_text(megabytes))
    views, users = (str(p) for p in page_views(megabytes))
    size = os.path.getsize(text)
    size_views = os.path.getsize(views)

    def word_count(c: Any) -> Any:
        return (
            c.textFile(text).flatMap(lambda line: line.split(" ")).map(lambda w: (w, 1)).reduceByKey(lambda a, b: a + b)
        )

    def grep(c: Any) -> Any:
        return c.textFile(text).filter(lambda line: "qx" in line)

    def l2(c: Any) -> Any:
        power = c.textFile(users).map(fields).filter(lambda u: u[2] < "city11").map(lambda u: (u[0], u[1]))
        return c.textFile(views).map(fields).map(lambda v: (v[0], float(v[6]))).join(power)

    def l3(c: Any) -> Any:
        known = c.textFile(users).map(fields).map(lambda u: (u[0], 1))
        met = c.textFile(views).map(fields).map(lambda v: (v[0], float(v[6]))).join(known)
        return met.mapValues(lambda vw: vw[0]).reduceByKey(lambda a, b: a + b)

    def l6(c: Any) -> Any:
        pairs = c.textFile(views).map(fields).map(lambda v: ((v[0], v[1], v[5][:2], v[4]), int(v[2])))
        return pairs.reduceByKey(lambda a, b: a + b)

    def l7(c: Any) -> Any:
        def halves(seen: Any) -> tuple[int, int]:
            seen = list(seen)
            return sum(1 for t in seen if t < 43200), sum(1 for t in seen if t >= 43200)

        return c.textFile(views).map(fields).map(lambda v: (v[0], int(v[5]))).groupByKey().mapValues(halves)

    def l11(c: Any) -> Any:
        seen = c.textFile(views).map(lambda line: fields(line)[0]).distinct()
        return seen.union(c.textFile(users).map(lambda line: fields(line)[0])).distinct()

    def count(r: Any) -> Any:
        return r.count()

    return [
        Job("word count", word_count, count, size),
        Job("grep", grep, count, size),
        *(Job(n, f, count, size_views) for n, f in [("L2", l2), ("L3", l3), ("L6", l6), ("L7", l7), ("L11", l11)]),
    ]


def peak_memory(sc: Any, run: Callable[[], None]) -> int:
    """The most that one Python worker held, in KiB. Workers are not used twice meanwhile, so the peak is this job's."""
    conf = sc._jsc.sc().conf()
    conf.set("spark.python.worker.reuse", "false")
    peak = 0
    done = threading.Event()
    jvm = int(getattr(sc._jvm, "java.lang.ProcessHandle").current().pid())
    before = set(_workers(jvm))

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.02):
            for pid, held in _workers(jvm).items():
                if pid not in before:
                    peak = max(peak, held)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        run()
    finally:
        done.set()
        watcher.join()
        conf.set("spark.python.worker.reuse", "true")
    return peak


def _workers(jvm: int) -> dict[int, int]:
    """The Python workers of a JVM (children of its daemon), each with the most it has held, in KiB."""
    parents, held = {}, {}
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            text = status.read_text()
        except OSError:
            continue
        parent, peak = re.search(r"PPid:\s*(\d+)", text), re.search(r"VmHWM:\s*(\d+)", text)
        if parent and peak:
            parents[int(status.parent.name)], held[int(status.parent.name)] = int(parent[1]), int(peak[1])
    return {pid: held[pid] for pid, parent in parents.items() if parents.get(parent) == jvm}


def captured_anew(job: Job, sc: Any, kept: dict[str, Any], home: str, strategy: str = "stored") -> Callable[[], None]:
    """Runs the job under capture in a context of its own, which takes the place of the one before."""
    from whence.rdd import LineageContext

    def run() -> None:
        if "lc" in kept:
            shutil.rmtree(kept["lc"]._directory, ignore_errors=True)
        kept["lc"] = LineageContext(sc, home)
        kept["lc"].strategy = strategy
        kept["rdd"] = job.make(kept["lc"])
        job.act(kept["rdd"])

    return run


def measure(job: Job, spark: Any, rounds: int, warmup: int, tick: Callable[[str], None]) -> dict[str, float]:
    sc = spark.sparkContext
    home = tempfile.mkdtemp(prefix="rdd-bench-")
    kept: dict[str, Any] = {}
    captured = captured_anew(job, sc, kept, home)

    def plain() -> None:
        job.act(job.make(sc))

    took = interleaved({"plain": plain, "captured": captured}, rounds, warmup, lambda w: tick(f"{job.name}, {w}"))
    lc, rdd = kept["lc"], kept["rdd"]
    lc.book.take_commits()
    size = sum(next(reversed(found.values()))[0] for found in lc.book.committed.values())
    found = {
        "plain": took["plain"].median,
        "captured": took["captured"].median,
        "ratio": took["captured"].over(took["plain"]),
        "lineage": size / job.input_bytes,
        "associations": associations(lc),
        "pairs": rounds,
    }
    tick(f"{job.name}, tracing")
    found.update(tracing(lc, rdd, job))
    if job.name in ("word count", "grep") and warmup:  # the paper's Titian-P, once: it is not what we recommend
        tick(f"{job.name}, propagated")
        found["propagated"] = timed(captured_anew(job, sc, kept, home, "propagated")) / took["plain"].median
    shutil.rmtree(home, ignore_errors=True)
    return found


def memory(job: Job, spark: Any) -> float:
    """A Python worker's peak under capture, as a multiple of what it is without."""
    home = tempfile.mkdtemp(prefix="rdd-bench-")
    captured = captured_anew(job, spark.sparkContext, {}, home)
    ours = peak_memory(spark.sparkContext, captured)
    plain = peak_memory(spark.sparkContext, lambda: job.act(job.make(spark.sparkContext)))
    shutil.rmtree(home, ignore_errors=True)
    return ours / plain


def associations(lc: Any) -> int:
    total = 0
    for (stage, part), attempts in lc.book.committed.items():
        table = lc.book.tables[stage, part, next(reversed(attempts))]
        links = [link for link in table.links if link["kind"] in ("groups", "counts", "columns")]
        total += sum(int(link.get("n", table.n_out)) for link in links) or table.n_out
    return total


def tracing(lc: Any, rdd: Any, job: Job) -> dict[str, float]:
    """Back from one record, in the middle of the largest partition: to its input lines, and the job again on them."""
    from whence.rdd.capture import captured
    from whence.rdd.records import records_at
    from whence.rdd.walk import Place, Tables

    key = max(captured(rdd), key=lambda k: lc.book.tables[k].n_out)
    at = np.array([lc.book.tables[key].n_out // 2])

    def walk() -> Any:
        return lc.book.tables.back_all({Place(*key, lc.book.tables[key].last): at}, lambda _: None)

    def trace() -> Any:
        state = walk()
        for place, positions in state.items():
            records_at(lc, place, positions[:1000])
        return state

    def anew() -> None:
        elsewhere, large = lc.book.tables.elsewhere, lc.book.tables.large
        lc.book.tables = Tables(lc.book.directory)
        lc.book.tables.elsewhere, lc.book.tables.large = elsewhere, large

    def naive() -> None:
        """What a join of whole tables would read."""
        for (stage, part), attempts in lc.book.committed.items():
            table = lc.book.tables[stage, part, next(reversed(attempts))]
            for space in range(table.last, 0, -1):
                table.back_listed(space, np.arange(table.size_of(space)))

    anew()
    cold = timed(trace)
    warm = median(timed(trace) for _ in range(5))
    state = trace()
    witnesses = sum(map(len, state.values()))
    place = next(iter(state))
    retrieve = median(timed(lambda: records_at(lc, place, state[place][:1])) for _ in range(5))
    found = {"cold": cold, "warm": warm, "witnesses": witnesses, "retrieve": retrieve}
    if job.name == "word count":
        lc.large = 0
        found["job"] = timed(trace)
        lc.large = 200_000
        anew()
        found["naive"] = timed(naive)
        anew()
        found["hot"], found["hot witnesses"] = hottest(lc, rdd)
    lines: dict[str, list[Any]] = {}

    def again() -> None:
        for p, positions in walk().items():
            lines.setdefault(lc.book.readings[p.stage].load()[p.part].local, []).extend(records_at(lc, p, positions))
        job.act(job.make(_Again(lc.spark, lines)))

    found["replay"] = timed(again)
    return found


def hottest(lc: Any, rdd: Any) -> tuple[float, int]:
    """The record with the most witnesses: too many for the driver, so Spark jobs find and read the lines."""
    (word, _), *_ = rdd.top(1, key=lambda kv: kv[1])
    start = time.perf_counter()
    n = rdd.filter(lambda kv: kv[0] == word).getLineage().goBackAll().map(len).count()
    return time.perf_counter() - start, n


class _Again:
    """A context whose text files are the traced lines: the job again, on them alone."""

    def __init__(self, sc: Any, lines: dict[str, list[Any]]) -> None:
        self._sc, self._lines = sc, lines

    def textFile(self, path: str) -> Any:
        return self._sc.parallelize(self._lines.get(path, []), 1)


COLUMNS = {
    "plain, s": lambda f: f"{f['plain']:.2f}",
    "captured, s": lambda f: f"{f['captured']:.2f}",
    "ratio": lambda f: f"{f['ratio']:.2f}",
    "pairs": lambda f: f"{f['pairs']:.0f}",
    "lineage / input": lambda f: f"{100 * f['lineage']:.1f}%",
    "associations, M": lambda f: f"{f['associations'] / 1e6:.1f}",
    "witnesses": lambda f: f"{f['witnesses']:.0f}",
    "trace cold, s": lambda f: f"{f['cold']:.3f}",
    "warm, s": lambda f: f"{f['warm']:.3f}",
    "replay, s": lambda f: f"{f['replay']:.2f}",
    "memory": lambda f: f"{f['memory']:.2f}" if "memory" in f else "-",
}


def chosen_jobs(megabytes: int, names: list[str] | None) -> list[Job]:
    return [j for j in jobs(megabytes) if names is None or j.name in names]


def remember_memory(sizes: list[int], names: list[str] | None, spark: Any) -> None:
    known = json.loads(MEMORY.read_text()) if MEMORY.exists() else {}
    for megabytes in sizes:
        chosen = chosen_jobs(megabytes, names)
        with progress(f"rdd memory {megabytes} MB", len(chosen)) as tick:
            for job in chosen:
                tick(job.name)
                known[f"{job.name} {megabytes}"] = round(memory(job, spark), 3)
                MEMORY.parent.mkdir(parents=True, exist_ok=True)
                MEMORY.write_text(json.dumps(known, indent=1) + "\n")
    print("rdd memory:", ", ".join(f"{k} MB {v:.2f}x" for k, v in known.items()))


def main() -> None:
    parser = arguments(__doc__.splitlines()[0], rounds=7)
    parser.add_argument("--sizes", type=int, nargs="+", default=[70, 500], help="megabytes")
    parser.add_argument("--pairs", type=int, nargs="+", default=None, help="counted rounds, for each of the sizes")
    parser.add_argument(
        "--jobs", nargs="+", default=None, help="only these jobs, by name; the table keeps what it has of others"
    )
    parser.add_argument("--budget", type=float, default=None, help="seconds for all; fewer pairs are run to keep to it")
    parser.add_argument("--memory", action="store_true", help="measure the workers' memory, nothing else")
    given = parser.parse_args()
    spark = spark_session("bench-rdd", memory="3g")
    if given.memory:
        remember_memory(given.sizes, given.jobs, spark)
        spark.stop()
        if (OUT / "rdd.json").exists():
            tell(measured_before(OUT / "rdd.json"), given.docs)
        return
    ends = None if given.budget is None else time.perf_counter() + given.budget
    pairs = given.pairs or [given.rounds] * len(given.sizes)
    before = OUT / "rdd.json"
    found: Found = measured_before(before) if given.jobs and before.exists() else {}
    for number, (megabytes, rounds) in enumerate(zip(given.sizes, pairs, strict=True)):
        chosen = chosen_jobs(megabytes, given.jobs)
        warmup = 0 if number else given.warmup  # the first size has warmed the JVM; files are read once below
        for path in {zipf_text(megabytes), *page_views(megabytes)}:
            path.read_bytes()
        with progress(f"rdd {megabytes} MB", len(chosen) * (2 * (rounds + warmup) + 1) + 2) as tick:
            for at, job in enumerate(chosen):
                some = affordable(rounds, megabytes, chosen[at:], found, ends)
                found[job.name, megabytes] = measure(job, spark, some, warmup, tick)
    spark.stop()
    tell(found, given.docs)


def measured_before(path: Path) -> Found:
    """What a table that was written earlier was made from."""
    found: Found = {}
    for key, value in json.loads(path.read_text())["figures"].items():
        job, size, name = re.fullmatch(r"(.+?) (\d+) (.+)", key).groups()  # type: ignore[union-attr]
        found.setdefault((job, int(size)), {})[name] = value
    return found


def tell(found: Found, docs: bool) -> None:
    peaks = json.loads(MEMORY.read_text()) if MEMORY.exists() else {}
    for (job, size), figures in found.items():
        if f"{job} {size}" in peaks:
            figures["memory"] = peaks[f"{job} {size}"]
    target = finish(result_of(found))
    draw(found, LIMIT, target.with_suffix(".png"))
    if docs:
        write_docs(target)


def affordable(rounds: int, megabytes: int, left: list[Job], found: Found, ends: float | None) -> int:
    """How many pairs of the first job fit, if the others left get as many: by what smaller sizes took."""
    if ends is None or not all(any(name == job.name for name, _ in found) for job in left):
        return rounds

    def pair(job: Job) -> float:
        size, took = max(
            ((s, f) for (name, s), f in found.items() if name == job.name and s < megabytes), key=lambda x: x[0]
        )
        return (took["plain"] + took["captured"]) * megabytes / size * 1.1

    fit = (ends - time.perf_counter()) / sum(map(pair, left))
    return max(1, min(rounds, int(fit)))


def result_of(found: Found) -> Result:
    largest = max(size for _, size in found)
    ratios = [f["ratio"] for (_, size), f in found.items() if size == largest]
    cold, warm = (max(f[kind] for f in found.values()) for kind in ("cold", "warm"))
    hot = [
        f"{f['hot witnesses']:,.0f} lines in {f['hot']:.1f} s at {s} MB" for (_, s), f in found.items() if "hot" in f
    ]
    titian = ", ".join(f"{name} {known['Titian-D']}" for name, known in CAPTURE.items() if (name, largest) in found)
    propagated = [f"{n} {f['propagated']:.2f}x at {s} MB" for (n, s), f in found.items() if "propagated" in f]
    return Result(
        name="rdd",
        title="RDD lineage: capture, size, tracing",
        line=(
            f"rdd: at {largest} MB capture {median(ratios):.2f}x plain, worst {max(ratios):.2f}x, limit {LIMIT}x; "
            f"trace at most {warm:.3f} s warm, {cold:.3f} s cold; {len(found)} jobs"
        ),
        columns=["job", *COLUMNS],
        rows=[[f"{n}, {size} MB", *(show(f) for show in COLUMNS.values())] for (n, size), f in found.items()],
        figures={f"{n} {size} {k}": round(v, 4) for (n, size), f in found.items() for k, v in f.items()},
        notes=[
            f"ratio: median of the pairs' ratios. Titian's own, at most (its figures 13 and 14, table 2): {titian}.",
            "trace: from one output record to its input lines, up to 1,000 of them read; cold: tables opened anew.",
            "replay: tracing, reading all traced lines and running the job again on them, both sources of a join.",
            "memory: peak of a Python worker as a multiple of plain, measured in runs of their own.",
            *([f"the record with most witnesses, by Spark jobs: {'; '.join(hot)}."] if hot else []),
            *([f"strategy propagated, one run: {'; '.join(propagated)}."] if propagated else []),
        ],
    )


if __name__ == "__main__":
    sys.exit(main())
