"""The table of docs/crossing.md: every pair of front ends, every question, in the session that made it and in one that
knows no more than the store does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from operator import add
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import whence
from whence.actors import Location

LINES = ("ada,20,x", "bob,35,y", "ada,-900,z", "eve,15,x", "bob,-60,y")
SCHEMA = "name string, price int, kind string"
TABLES = ("crossing_ctas", "crossing_inserted", "crossing_once", "crossing_from_once")
DOCS = Path(__file__).resolve().parents[2] / "docs" / "crossing.md"


@dataclass
class Made:
    """What was made from the same five lines in every way that there is. `w`: the session that is asked."""

    w: whence.Session
    home: Path
    frames: dict[str, DataFrame] = field(default_factory=dict)

    @property
    def spark(self) -> SparkSession:
        return self.w.spark

    def source(self) -> DataFrame:
        return self.spark.read.schema(SCHEMA).csv(str(self.home / "source.csv"))

    def arrived(self) -> DataFrame:
        return self.spark.read.schema(SCHEMA).csv(str(self.home / "arriving"))

    def totals(self, path: str) -> DataFrame:
        return self.spark.read.schema("name string, total int").csv(str(self.home / path))

    def parquet(self, path: str) -> DataFrame:
        return self.spark.read.parquet(str(self.home / path))

    def lines(self, path: str) -> DataFrame:
        """Read by an RDD, which becomes a DataFrame."""
        return self.w.context.textFile(str(self.home / path), 2).map(_pair).toDF(["name", "total"])


def _pair(line: str) -> tuple[str, int]:
    name, price, *_ = line.split(",")
    return name, int(price)


def _summed(frame: DataFrame) -> DataFrame:
    return frame.groupBy("name").agg(F.sum("price").cast("int").alias("total"))


def _actors(w: whence.Session, read: Path, written: Path) -> None:
    reads, sums = w.register("reads", kind="map"), w.register("sums", kind="reduce")
    w.flow_link(reads, sums)
    totals: dict[str, int] = {}
    at = 0
    for line in read.read_text().splitlines(keepends=True):
        name, price = _pair(line)
        reads.capture(Location(str(read), at, len(line)), at)
        sums.add_input(at, tag=name)
        totals[name] = totals.get(name, 0) + price
        at += len(line)
    with written.open("w") as out:
        for name, total in totals.items():
            line = f"{name},{total}\n"
            sums.add_output(Location(str(written), out.tell(), len(line)), tag=name)
            out.write(line)
    reads.commit()
    sums.commit()


def _doubling(actor: Any) -> Callable[[Iterator[pd.DataFrame]], Iterator[pd.DataFrame]]:
    def run(batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for batch in batches:
            for row in batch.itertuples():
                actor.capture(row.price, row.price)
            yield pd.DataFrame({"name": batch["name"], "total": batch["price"]})

    return run


@pytest.fixture(scope="module")
def made(tiny: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
    home, spark = tmp_path_factory.mktemp("table"), tiny
    (home / "source.csv").write_text("".join(f"{line}\n" for line in LINES))
    (home / "arriving").mkdir()
    for number, some in enumerate((LINES[:2], LINES[2:]), 1):
        (home / "arriving" / f"{number}.csv").write_text("".join(f"{line}\n" for line in some))
    for table in TABLES:
        spark.sql(f"DROP TABLE IF EXISTS {table}")
    with whence.attach(spark, store=home / "store") as w:
        found = Made(w, home)
        _make(found)
        yield found
    for table in TABLES:
        spark.sql(f"DROP TABLE IF EXISTS {table}")


def _make(made: Made) -> None:
    w, spark, home, lc = made.w, made.spark, made.home, made.w.context
    source = str(home / "source.csv")
    made.frames["there and back"] = (
        lc.of(made.source()).map(lambda r: (r.name, r.price)).reduceByKey(add, 2).toDF(["name", "total"])
    )
    sums = lc.textFile(source, 2).map(_pair).reduceByKey(add, 2)
    sums.map(lambda kv: f"{kv[0]},{kv[1]}").saveAsTextFile(str(home / "saved"))
    _actors(w, home / "source.csv", home / "owed.csv")
    made.source().createOrReplaceTempView("crossing_lines")
    grouped = "SELECT name, CAST(sum(price) AS INT) AS total FROM crossing_lines GROUP BY name"
    with w.capture():
        _summed(made.source()).write.csv(str(home / "written"))
        made.frames["there and back"].write.parquet(str(home / "kept"))
        spark.sql(f"CREATE TABLE crossing_ctas USING parquet AS {grouped}")
        spark.sql("CREATE TABLE crossing_inserted (name STRING, total INT) USING parquet")
        spark.sql(f"INSERT INTO crossing_inserted {grouped}")
        _summed(spark.table("crossing_lines")).write.parquet(str(home / "viewed"))
        spark.table("crossing_lines").write.saveAsTable("crossing_once")
        _summed(spark.table("crossing_once")).write.saveAsTable("crossing_from_once")
        _stream(made)
    spark.createDataFrame([("zed", 1, "q")], SCHEMA).write.mode("overwrite").saveAsTable("crossing_once")


def _stream(made: Made) -> None:
    arriving = made.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).csv(str(made.home / "arriving"))
    writer = arriving.selectExpr("name", "price AS total").writeStream.option("path", str(made.home / "sink"))
    query = writer.option("checkpointLocation", str(made.home / "check")).trigger(availableNow=True).start()
    assert query.awaitTermination(300)


@dataclass(frozen=True)
class Pair:
    """What is asked, and what comes of it. `verify`, `exclude`, `explain`: what is said where the answer is no."""

    frame: Callable[[Made], DataFrame]
    source: Callable[[Made], DataFrame] = Made.source
    witnesses: tuple[str, ...] = (LINES[0], LINES[2])
    touched: tuple[str, int] = ("ada", -880)
    next: tuple[str, int] = ("bob", -25)
    verify: tuple[str, str] = ("proven", "proven")
    exclude: tuple[str | None, str | None] = (None, None)
    here_only: str | None = None


LIVES_NOT = "its program is not here"
PAIRS: dict[str, Pair] = {
    "query, RDDs, query": Pair(lambda m: m.frames["there and back"], here_only="the RDD is of the session"),
    "query, RDDs, query that writes": Pair(lambda m: m.parquet("kept"), here_only="elsewhere it ends with a note"),
    "files that RDDs saved, query": Pair(
        lambda m: m.totals("saved"), verify=("proven", "stored, intact"), exclude=(None, LIVES_NOT)
    ),
    "files that RDDs saved, RDDs": Pair(
        lambda m: m.lines("saved"), verify=("proven", "stored, intact"), exclude=(None, LIVES_NOT)
    ),
    "files that a query wrote, RDDs": Pair(
        lambda m: m.lines("written"), exclude=("is read as lines", "is read as lines")
    ),
    "files of actors, query": Pair(
        lambda m: m.totals("owed.csv"),
        verify=("stored, intact", "stored, intact"),
        exclude=("cannot be run again from here", "cannot be run again from here"),
    ),
    "files of actors, RDDs": Pair(
        lambda m: m.lines("owed.csv"),
        verify=("stored, intact", "stored, intact"),
        exclude=("cannot be run again from here", "cannot be run again from here"),
    ),
    "a stream's files": Pair(
        lambda m: m.parquet("sink"), Made.arrived, witnesses=(LINES[2],), touched=("ada", -900), next=("bob", -60)
    ),
    "CTAS over a view": Pair(lambda m: m.spark.table("crossing_ctas")),
    "INSERT over a view": Pair(lambda m: m.spark.table("crossing_inserted")),
    "df.write over a view": Pair(lambda m: m.parquet("viewed")),
    "a table that was overwritten since": Pair(lambda m: m.spark.table("crossing_from_once")),
}


def told(rows: list[Any]) -> list[str]:
    """Witnesses as the lines that they were, whoever read them."""
    found = []
    for row in rows:
        known = row.asDict()
        found.append(known["value"] if "value" in known else ",".join(map(str, (row.name, row.price, row.kind))))
    return sorted(found)


def ask(made: Made, pair: Pair, elsewhere: bool) -> None:
    w, frame = made.w, pair.frame(made)
    trace = w.backward(frame.orderBy("total").limit(1))
    (witnesses,) = trace.sources.values()
    assert told(witnesses.collect()) == sorted(pair.witnesses)
    assert (trace.exact, trace.notes) == (True, ())

    seeds = pair.source(made).where("price = -900")
    assert [tuple(row) for row in w.forward(seeds, to=frame).rows.collect()] == [pair.touched]

    verdict = trace.verify()
    outcome = pair.verify[elsewhere]
    assert {proof.outcome for proof in verdict.proofs} <= {outcome, "proven"}, str(verdict)
    assert outcome in {proof.outcome for proof in verdict.proofs}, str(verdict)
    assert (verdict.ok, verdict.refuted) == (outcome == "proven", False)

    refusal = pair.exclude[elsewhere]
    if refusal is None:
        assert [tuple(row) for row in trace.exclude().collect()] == [pair.next]
    else:
        with pytest.raises(whence.WhenceError, match=refusal):
            trace.exclude()

    if elsewhere:  # these two ask what was asked above, by the same ways
        return
    found = trace.explain(with_keys=True)
    assert (found.bad_rows, found.good_rows) == (len(pair.witnesses), len(LINES) - len(pair.witnesses))

    dropped = w.why_not(pair.source(made).where("name = 'eve'"), to=frame.where("total < 0"))
    assert [one.operator for one in dropped] == ["Filter"]


@pytest.mark.parametrize("name", PAIRS)
def test_in_the_session_that_made_it(made: Made, name: str) -> None:
    ask(made, PAIRS[name], elsewhere=False)


@pytest.mark.parametrize("name", [name for name, pair in PAIRS.items() if pair.here_only is None])
def test_in_a_session_that_knows_the_store(made: Made, name: str) -> None:
    with whence.attach(made.spark, store=made.home / "store") as other:
        ask(Made(other, made.home), PAIRS[name], elsewhere=True)


def test_what_only_a_process_had_ends_elsewhere(made: Made) -> None:
    with whence.attach(made.spark, store=made.home / "store") as other:
        trace = other.backward(made.parquet("kept").where("total < -100"))
        assert list(trace.sources) == ["kept"]
        assert any("only its own process had" in note for note in trace.ended)


WORDS = {"proven": "proven", "stored, intact": "stored"}
SENTENCES = {None: "yes", LIVES_NOT: "no (1)", "is read as lines": "no (2)", "cannot be run again from here": "no (3)"}


def test_the_page_says_what_came_out() -> None:
    lines = DOCS.read_text(encoding="utf-8").splitlines()
    rows = [line.strip("| ").split(" | ") for line in lines if line.startswith("|")]
    told = {name: rest for name, *rest in rows if name in PAIRS}
    assert list(told) == list(PAIRS)
    for name, pair in PAIRS.items():
        verify = " / ".join(dict.fromkeys(WORDS[outcome] for outcome in pair.verify))
        exclude = " / ".join(dict.fromkeys(SENTENCES[sentence] for sentence in pair.exclude))
        assert told[name] == ["yes", verify, exclude, "yes"], name
