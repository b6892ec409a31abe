"""What one association costs as they become more: `python -m bench.growth` (word count over 1, 10 and 100 million).

Each size is run plainly and under capture in one process on the same two cores. Then, on what capture left: its bytes,
and how long a trace of one word takes. The word is the one that comes nearest to a thousand lines, so that the traces
find equally much and only what they pass by grows. The plot goes into docs/images/growth.svg.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from bench.harness import DOCS, Result, arguments, finish, progress, spark_session, timed, write_docs
from bench.rdd import Job, associations, captured_anew, zipf_text

WITNESSES = 1000
PICTURE = DOCS.parent / "images" / "growth.svg"


@dataclass(frozen=True)
class Measured:
    megabytes: int
    associations: int
    plain: float
    captured: float
    bytes: int
    cold: float
    warm: float
    witnesses: int

    @property
    def microseconds(self) -> float:
        """Of the captured job, whole, for each association."""
        return 1e6 * self.captured / self.associations


def word_count(megabytes: int) -> Job:
    text = str(zipf_text(megabytes))

    def make(c: Any) -> Any:
        words = c.textFile(text).flatMap(lambda line: line.split(" ")).map(lambda word: (word, 1))
        return words.reduceByKey(lambda a, b: a + b)

    return Job("word count", make, lambda rdd: rdd.collect(), os.path.getsize(text))


def measure(megabytes: int, spark: Any, rounds: int) -> Measured:
    job, sc = word_count(megabytes), spark.sparkContext
    home = tempfile.mkdtemp(prefix="growth-")
    kept: dict[str, Any] = {}
    captured = captured_anew(job, sc, kept, home)
    plain = [timed(lambda: job.act(job.make(sc))) for _ in range(rounds)]
    took = [timed(captured) for _ in range(rounds)]
    lc, rdd = kept["lc"], kept["rdd"]
    lc.book.take_commits()
    size = sum(next(reversed(found.values()))[0] for found in lc.book.committed.values())
    total = associations(lc)
    cold, warm, witnesses = tracing(lc, rdd)
    shutil.rmtree(home, ignore_errors=True)
    return Measured(megabytes, total, median(plain), median(took), size, cold, warm, witnesses)


def tracing(lc: Any, rdd: Any) -> tuple[float, float, int]:
    """Seconds of a trace with tables opened anew, and again, from one word to its lines, which are read."""
    from whence.rdd.capture import captured
    from whence.rdd.records import records_at
    from whence.rdd.walk import Place, Tables

    counts = rdd.glom().map(lambda some: [n for _, n in some]).collect()
    best = min((abs(n - WITNESSES), part, at) for part, some in enumerate(counts) for at, n in enumerate(some))
    (key,) = [key for key in captured(rdd) if key[1] == best[1]]
    elsewhere, large = lc.book.tables.elsewhere, lc.book.tables.large
    lc.book.tables = Tables(lc.book.directory)
    lc.book.tables.elsewhere, lc.book.tables.large = elsewhere, large
    found: list[int] = []

    def trace() -> None:
        start = {Place(*key, lc.book.tables[key].last): np.array([best[2]])}
        state = lc.book.tables.back_all(start, lambda _: None)
        found.append(sum(len(records_at(lc, place, positions)) for place, positions in state.items()))

    cold = timed(trace)
    return cold, median(timed(trace) for _ in range(5)), found[-1]


def main() -> None:
    parser = arguments(__doc__.splitlines()[0], rounds=1)
    parser.add_argument("--sizes", type=int, nargs="+", default=[8, 75, 750], help="megabytes")
    asked = parser.parse_args()
    spark = spark_session("bench-growth", memory="3g")
    found = []
    with progress("growth", len(asked.sizes) + 1) as tick:
        tick("warming up")
        for _ in range(asked.warmup):
            measure(asked.sizes[0], spark, 1)
        for megabytes in asked.sizes:
            tick(f"{megabytes} MB")
            found.append(measure(megabytes, spark, asked.rounds))
    spark.stop()
    result = Result(
        name="growth",
        title="What an association costs as they become more",
        line="word count, two cores: "
        + ", ".join(
            f"{m.associations / 1e6:.0f} million {m.microseconds:.2f} us and {m.bytes / m.associations:.2f} bytes "
            f"each, a trace of {m.witnesses:,} lines {1000 * m.warm:.0f} ms"
            for m in found
        ),
        columns=(
            *("MB", "associations", "plain s", "captured s", "ratio", "us each", "bytes each"),
            *("lines traced", "cold s", "warm s", "warm us a line"),
        ),
        rows=[
            (
                f"{m.megabytes}",
                f"{m.associations:,}",
                f"{m.plain:.2f}",
                f"{m.captured:.2f}",
                f"{m.captured / m.plain:.2f}",
                f"{m.microseconds:.3f}",
                f"{m.bytes / m.associations:.2f}",
                f"{m.witnesses:,}",
                f"{m.cold:.3f}",
                f"{m.warm:.3f}",
                f"{1e6 * m.warm / m.witnesses:.0f}",
            )
            for m in found
        ],
        figures={
            f"{m.megabytes} {name}": getattr(m, name)
            for m in found
            for name in ("microseconds", "bytes", "warm", "cold")
        },
        notes=(
            f"rounds: {asked.rounds} after {asked.warmup} of the smallest; us each: the captured job, whole, over its "
            "associations.",
            "the word that is traced is the one nearest to a thousand lines, whose lines are read; cold: tables opened "
            "anew.",
        ),
    )
    target = finish(result)
    draw(found, PICTURE)
    if asked.docs:
        write_docs(target)


def draw(found: list[Measured], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    pyplot.rcParams["svg.hashsalt"] = "growth"
    figure, (times, sizes, traces) = pyplot.subplots(1, 3, figsize=(10, 3))
    millions = [m.associations / 1e6 for m in found]
    times.plot(millions, [1e6 * m.plain / m.associations for m in found], "o--", label="plain")
    times.plot(millions, [m.microseconds for m in found], "o-", label="captured")
    times.set_title("the job, us an association", loc="left", fontsize=9)
    sizes.plot(millions, [m.bytes / m.associations for m in found], "o-", label="tables")
    sizes.set_title("the store, bytes an association", loc="left", fontsize=9)
    traces.plot(millions, [1e6 * m.cold / m.witnesses for m in found], "o--", label="cold")
    traces.plot(millions, [1e6 * m.warm / m.witnesses for m in found], "o-", label="warm")
    traces.set_title("a trace, us a line found", loc="left", fontsize=9)
    for axes in (times, sizes, traces):
        axes.set_xscale("log")
        axes.set_ylim(bottom=0)
        axes.set_xlabel("million associations", fontsize=8)
        axes.legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


if __name__ == "__main__":
    sys.exit(main())
