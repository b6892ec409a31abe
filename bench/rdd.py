"""RDD lineage against plain PySpark: `python -m bench.rdd` (sizes 70 and 500 MB; `--sizes 70` for less).

Word count and grep on Zipf text (8,000 terms) and PigMix L2, L3, L6, L7 and L11 re-expressed on generated data. Each
job is run plainly and under capture in one process, in turn. Then, on what the last captured run left: the size of the
lineage, tracing one record back (cold: tables opened anew; warm), reading the traced lines, replaying them.
"""

from __future__ import annotations

import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from bench.harness import DATA, Bars, Result, arguments, finish, interleaved, progress, spark_session, write_docs

# Titian-D in the paper (figures 13 and 14, table 2): times plain Spark at the sizes nearest to ours
TITIAN = {"word count": 1.18, "grep": 1.27, "L2": 1.26, "L3": 1.26, "L6": 1.2, "L7": 1.26, "L11": 1.26}
LIMIT = 1.05


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


def peak_memory(records: Any) -> list[int]:
    import resource

    for _ in records:
        pass
    return [resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024]


def measure(job: Job, spark: Any, rounds: int, warmup: int, tick: Callable[[str], None]) -> dict[str, float]:
    from whence.rdd import LineageContext

    sc = spark.sparkContext
    home = tempfile.mkdtemp(prefix="rdd-bench-")
    kept: dict[str, Any] = {}

    def plain() -> None:
        job.act(job.make(sc))

    def captured() -> None:
        if "lc" in kept:
            shutil.rmtree(kept["lc"]._directory, ignore_errors=True)
        kept["lc"] = LineageContext(sc, home)
        kept["rdd"] = job.make(kept["lc"])
        job.act(kept["rdd"])

    took = interleaved({"plain": plain, "captured": captured}, rounds, warmup, lambda w: tick(f"{job.name}, {w}"))
    lc, rdd = kept["lc"], kept["rdd"]
    lc._take_commits()
    size = sum(next(reversed(found.values()))[0] for found in lc._tables.values())
    found = {
        "plain": took["plain"].median,
        "captured": took["captured"].median,
        "ratio": took["captured"].over(took["plain"]),
        "lineage": size / job.input_bytes,
        "associations": associations(lc),
    }
    found.update(tracing(lc, rdd, job))
    tick(f"{job.name}, memory")
    plain_peak = max(sc.runJob(job.make(sc), peak_memory))
    captured_peak = max(sc.runJob(rdd._captured_view(), peak_memory))
    found["memory"] = captured_peak / plain_peak
    shutil.rmtree(home, ignore_errors=True)
    return found


def associations(lc: Any) -> int:
    total = 0
    for (stage, part), attempts in lc._tables.items():
        table = lc._open[stage, part, next(reversed(attempts))]
        links = [link for link in table.links if link["kind"] in ("groups", "counts", "columns")]
        total += sum(int(link.get("n", table.n_out)) for link in links) or table.n_out
    return total


def tracing(lc: Any, rdd: Any, job: Job) -> dict[str, float]:
    """Back from one record, chosen in the middle of a partition, by its position: look-ups and lines read."""
    from whence.rdd.capture import captured
    from whence.rdd.records import records_at
    from whence.rdd.walk import Place, Tables

    key = max(captured(rdd), key=lambda k: lc._open[k].n_out)
    table = lc._open[key]
    at = np.array([table.n_out // 2])

    def trace() -> Any:
        return lc._open.back_all({Place(*key, lc._open[key].last): at}, lambda _: None)

    lc._open = Tables(lc._directory)
    start = time.perf_counter()
    state = trace()
    for place, positions in state.items():
        records_at(lc, place, positions[:1000])
    cold = time.perf_counter() - start
    warm = []
    for _ in range(5):
        start = time.perf_counter()
        state = trace()
        for place, positions in state.items():
            records_at(lc, place, positions[:1000])
        warm.append(time.perf_counter() - start)
    witnesses = sum(map(len, state.values()))
    start = time.perf_counter()
    lines = [r for place, positions in state.items() for r in records_at(lc, place, positions)]
    fetched = time.perf_counter() - start
    replay = time.perf_counter()
    sources = [lc._sources[p.stage] for p in state]
    if len({s.node.id for s in sources}) == 1:
        small = _Again(lc.spark, lines)
        job.act(job.make(small))
    replayed = time.perf_counter() - replay
    return {
        "cold": cold,
        "warm": median(warm),
        "witnesses": witnesses,
        "fetch": fetched,
        "replay": fetched + replayed,
    }


class _Again:
    """A context whose text files are the traced lines: the job again, on them alone."""

    def __init__(self, sc: Any, lines: list[str]) -> None:
        self._sc, self._lines = sc, lines

    def textFile(self, path: str) -> Any:
        return self._sc.parallelize(self._lines, 1)


def main() -> None:
    parser = arguments(__doc__.splitlines()[0], rounds=7)
    parser.add_argument("--sizes", type=int, nargs="+", default=[70, 500], help="megabytes")
    parser.add_argument("--jobs", nargs="+", default=None, help="some of the jobs, by name")
    given = parser.parse_args()
    spark = spark_session("bench-rdd", memory="3g")
    rows, figures, ratios, labels = [], {}, [], []
    for megabytes in given.sizes:
        chosen = [j for j in jobs(megabytes) if given.jobs is None or j.name in given.jobs]
        with progress(f"rdd {megabytes} MB", len(chosen) * (2 * (given.rounds + given.warmup) + 1)) as tick:
            for job in chosen:
                found = measure(job, spark, given.rounds, given.warmup, tick)
                labels.append(f"{job.name} {megabytes}")
                ratios.append(found["ratio"])
                figures.update({f"{job.name} {megabytes} {k}": round(v, 4) for k, v in found.items()})
                rows.append(
                    [
                        f"{job.name}, {megabytes} MB",
                        f"{found['plain']:.2f}",
                        f"{found['captured']:.2f}",
                        f"{found['ratio']:.2f}",
                        f"{TITIAN[job.name]:.2f}",
                        f"{100 * found['lineage']:.1f}%",
                        f"{found['associations'] / 1e6:.1f}",
                        f"{found['witnesses']:.0f}",
                        f"{found['cold']:.3f}",
                        f"{found['warm']:.3f}",
                        f"{found['replay']:.2f}",
                        f"{found['memory']:.2f}",
                    ]
                )
    spark.stop()
    worst = max(ratios)
    result = Result(
        name="rdd",
        title="RDD lineage: capture, size, tracing",
        line=f"rdd: capture {median(ratios):.2f}x plain, worst {worst:.2f}x, limit {LIMIT}x; {len(ratios)} jobs",
        columns=[
            "job",
            "plain, s",
            "captured, s",
            "ratio",
            "Titian's",
            "lineage / input",
            "associations, M",
            "witnesses",
            "trace cold, s",
            "warm, s",
            "replay, s",
            "memory",
        ],
        rows=rows,
        figures=figures,
        notes=[
            "ratio: median of the rounds' ratios; Titian's: its paper's figures 13 and 14, on Spark 1.2 in Scala.",
            "trace: from one output record to its input lines, of which up to 1,000 are read (figures 15 to 18).",
            "replay: reading all traced lines and running the job again on them. memory: peak of a Python worker.",
        ],
    )
    target = finish(
        result,
        Bars(
            labels,
            {"whence": ratios, "Titian": [TITIAN[x.rsplit(" ", 1)[0]] for x in labels]},
            "times plain",
            limit=LIMIT,
        ),
    )
    if given.docs:
        write_docs(target)


if __name__ == "__main__":
    sys.exit(main())
