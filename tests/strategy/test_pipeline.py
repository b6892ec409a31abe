"""One plan over SQL queries, written tables and programs of RDDs, and who follows it."""

from __future__ import annotations

import sqlite3
from operator import add
from pathlib import Path

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession

import whence
from whence.arrays import Mode, Operator, Workflow, from_frame, ops
from whence.model import WhenceError


@pytest.fixture
def orders(spark: SparkSession, tmp_path: Path) -> DataFrame:
    rows = [(n, f"c{n % 7}", n * 3 % 100) for n in range(1000)]
    spark.createDataFrame(rows, "id int, customer string, amount int").coalesce(1).write.parquet(f"{tmp_path}/orders")
    return spark.read.parquet(f"{tmp_path}/orders")


def test_a_query_that_is_asked_keeps_its_groups_and_one_that_is_not_keeps_nothing(
    w: whence.Session, orders: DataFrame
) -> None:
    report = orders.groupBy("customer").sum("amount").toDF("customer", "total")
    other = orders.groupBy("amount").count()
    plan = w.strategy(workload=[("backward", report, "orders"), ("backward", other, "orders", 0)])
    assert plan[report] == ("groups",)
    assert plan[other] == ("rerun",)
    assert plan[orders.groupBy("customer").sum("amount").toDF("customer", "total")] == ("groups",)  # says the same
    assert w.strategy(limit_disk=0, workload=[("backward", report, "orders")])[report] == ("rerun",)
    with w.capture(plan=plan):
        report.collect()
        other.collect()
    assert w.backward(report.where("customer = 'c1'")).strategy.value == "stored"
    assert w.backward(other.where("amount = 3")).strategy.value == "rerun"


def test_what_may_come_out_otherwise_has_to_be_written_down(w: whence.Session, orders: DataFrame) -> None:
    some = orders.limit(3)
    assert w.strategy(workload=[("backward", some, "orders")])[some] == ("facts",)
    with pytest.raises(ValueError, match="cannot keep 'rerun'; it can keep facts"):
        w.strategy(workload=[("backward", some, "orders")], force={some: "rerun"})


def test_tables_are_steps_by_their_names_and_a_plan_decides_what_their_writes_keep(
    w: whence.Session, spark: SparkSession, orders: DataFrame, tmp_path: Path
) -> None:
    def nightly() -> None:
        totals = orders.groupBy("customer").sum("amount").toDF("customer", "total")
        totals.write.mode("overwrite").parquet(f"{tmp_path}/totals")
        spark.read.parquet(f"{tmp_path}/totals").where("total > 10").write.mode("overwrite").parquet(f"{tmp_path}/big")

    nightly()
    w.catalog.runs()  # all of them are written down
    with sqlite3.connect(tmp_path / "store" / "catalog.db") as catalog:
        catalog.execute("UPDATE runs SET ended = started + 1")  # what plans go by is not what this machine took
    plan = w.strategy(limit_disk=41_000, workload=[("backward", "totals", "orders")])
    assert plan["totals"] == ("write",)
    assert "big" not in plan
    free = w.strategy(workload=[("backward", "big", "orders"), ("forward", "orders", "totals")])
    assert free["totals"] == ("groups",)
    assert set(free) == {"totals", "big"}
    forced = w.strategy(workload=[("backward", "totals", "orders")], force={"big": "write"})
    assert forced["big"] == ("write",)
    with pytest.raises(WhenceError, match="limit on disk of 10 bytes: the least possible is 40 kB"):
        w.strategy(limit_disk=10, workload=[("backward", "totals", "orders")])

    with w.capture(plan=free):
        nightly()
    big = spark.read.parquet(f"{tmp_path}/big")
    assert list(w.backward(big).sources) == ["orders"]

    nothing = w.strategy(workload=[("backward", "big", "totals")], force={"totals": "nothing"})
    with w.capture(plan=nothing):
        nightly()
    trace = w.backward(spark.read.parquet(f"{tmp_path}/big"))
    assert list(trace.sources) == ["totals"]
    assert "the plan that its capture followed keeps nothing" in " ".join(trace.notes)


def test_results_of_rdds_follow_a_plan(w: whence.Session, tmp_path: Path) -> None:
    (tmp_path / "log.txt").write_text("a b a\nb c\n" * 50)
    lc = w.context

    def words():  # type: ignore[no-untyped-def]
        lines = lc.textFile(str(tmp_path / "log.txt"))
        return lines.flatMap(str.split).map(lambda word: (word, 1)).reduceByKey(add)

    counts, others = words(), words()
    assert dict(counts.collect()) == {"a": 100, "b": 100, "c": 50}
    plan = w.strategy(
        limit_runtime=0,
        workload=[("backward", counts, "log.txt"), ("backward", others, "log.txt")],
        force={others: "rerun"},
    )
    assert plan[counts] == ("stored",)
    assert plan.costs[counts]["stored"].disk > 0
    lc.strategy = plan
    assert lc.strategy is plan
    before = len(lc.book.committed)
    assert dict(others.collect()) == {"a": 100, "b": 100, "c": 50}
    lc.book.take_commits()
    assert len(lc.book.committed) == before  # the plan says that nothing is kept
    kept = w.strategy(workload=[("backward", others, "log.txt")], force={others: "propagated"})
    lc.strategy = kept
    others.collect()
    assert list(Path(lc.book.directory).rglob("*.full"))
    assert others.filter(lambda kv: kv[0] == "c").getLineage().goBackAll().count() == 50
    with pytest.raises(WhenceError, match="'magic' for RDDs: choose one of stored, propagated, rerun, or give a plan"):
        lc.strategy = "magic"


class Doubled(Operator):
    def supported_modes(self) -> set[Mode]:
        return {Mode.FULL}

    def run(self, x: np.ndarray, cur_modes: frozenset[Mode]) -> np.ndarray:
        cells = np.argwhere(np.ones(x.shape, bool))
        self.lwrite_many(cells, cells)
        return 2 * x


def test_one_plan_goes_over_a_query_an_array_workflow_and_the_table_behind_it(
    w: whence.Session, spark: SparkSession, tmp_path: Path
) -> None:
    rows = [(r, c, float(r * c)) for r in range(5) for c in range(4)]
    spark.createDataFrame(rows, "r int, c int, b double").coalesce(1).write.parquet(f"{tmp_path}/pixels")
    wf = Workflow()
    turned = wf.add(ops.Transpose(), wf.input("image"), name="turned")
    doubled = wf.add(Doubled(), turned, name="doubled")
    pixels = spark.read.parquet(f"{tmp_path}/pixels")
    run = w.execute(wf, {"image": from_frame(pixels, ["r", "c"], "b")})
    high = run.frame(doubled).where("value > 10")
    plan = w.strategy(workload=[("backward", high, "image"), ("forward", turned, high)])
    assert plan[high] == ("rerun",)
    assert plan[turned] == ("Map",)
    assert set(plan[doubled]) <= set(plan.costs[doubled])
    assert set(plan) == {"query 1", "turned", "doubled"}
    assert set(w.strategy(workload=[("backward", high, "pixels")])) >= {"query 1", "turned", "doubled"}


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda w, df: w.strategy(workload=[("sideways", df, "orders")]), ValueError, "the direction 'backward' or 'f"),
        (lambda w, df: w.strategy(workload=[("backward", df)]), ValueError, "list of .direction, start, to"),
        (lambda w, df: w.strategy(workload=[("backward", df, "orders", "often")]), TypeError, "weight of a question"),
        (lambda w, df: w.strategy(workload=[("backward", df, "moon")]), LookupError, "no step 'moon'"),
        (lambda w, df: w.strategy(workload=[("backward", 7, df)]), TypeError, "7 names no step"),
        (lambda w, df: w.strategy(limit_disk=-1), ValueError, "limit_disk is a number of bytes, zero or more"),
        (lambda w, df: w.strategy(), ValueError, "nothing to choose for"),
    ],
)
def test_bad_input_is_a_sentence(w: whence.Session, orders: DataFrame, call, error, says) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(error, match=says):
        call(w, orders)
