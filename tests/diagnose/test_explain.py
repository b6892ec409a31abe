"""w.explain: conditions on columns that set bad rows apart, found in a sample and counted over all rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import whence
from whence.debug.diagnose import DiagnoseError
from whence.debug.explain.explain import Explanation
from whence.debug.explain.search import Coded, rules

pytestmark = pytest.mark.usefixtures("tiny")

AGENTS = "element_at(array('Firefox', 'Chrome', 'Safari', 'badAgent'), 1 + int(pmod(hash(id, 1), 4)))"


@pytest.fixture(scope="module")
def log(spark: SparkSession) -> DataFrame:
    rows = spark.range(30_000).select(
        "id",
        F.expr(AGENTS).alias("agent"),
        F.expr("int(pmod(hash(id, 2), 24))").alias("hour"),
        F.expr("pmod(hash(id, 3), 100000) / 100.0d").alias("bytes"),
        F.expr("if(pmod(hash(id, 4), 10) = 0, null, concat('h', pmod(hash(id, 5), 7)))").alias("host"),
        F.expr("pmod(hash(id, 6), 2) = 0").alias("cached"),
        F.expr("timestamp_seconds(1700000000 + pmod(hash(id, 7), 1000000))").alias("at"),
    )
    return rows.cache()


def asked(w: whence.Session, log: DataFrame, condition: str, **options: object) -> Explanation:
    columns = [c for c in log.columns if c != "id"]
    rows = log.select(columns)
    bad = F.expr(condition)
    return w.explain(rows.where(bad), rows.where(~F.coalesce(bad, F.lit(False))), **options)


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        ("agent = 'badAgent' and hour >= 22", {"agent = 'badAgent' and hour >= 22"}),
        ("bytes < 12.5", {"bytes <= {most}"}),
        ("host is null", {"host is null"}),
        ("agent != 'Chrome' and cached and hour <= 3", {"agent != 'Chrome' and hour <= 3 and cached = true"}),
        ("(agent = 'Safari' and bytes > 990) or host = 'h3'", {"agent = 'Safari' and bytes >= {least}", "host = 'h3'"}),
        ("hour(at) = 5", {"hour(at) = 5"}),
    ],
)
def test_planted_conditions_come_back(w: whence.Session, log: DataFrame, condition: str, found: set[str]) -> None:
    answer = asked(w, log, condition)
    # A threshold is named by the last bad row, wherever between it and the next good row the true one lies.
    ends = "max(if(bytes < 12.5, bytes, null)) most", "min(if(agent = 'Safari' and bytes > 990, bytes, null)) least"
    most, least, total = log.selectExpr(*ends, f"count_if({condition}) total").first()  # type: ignore[misc]
    assert {c.sql for c in answer.causes} == {
        f.replace("{most}", str(most)).replace("{least}", str(least)) for f in found
    }
    assert answer.exact
    assert answer.bad_rows == answer.covered == total
    assert log.where(answer.sql).count() == total, "the answer can be used as a filter"
    assert all(c.error_rate == 1.0 for c in answer.causes)


def test_noise_gives_an_error_rate(w: whence.Session, log: DataFrame) -> None:
    noisy = log.withColumn(
        "bad", F.expr("if(agent = 'badAgent' and hour >= 20, pmod(hash(id, 9), 10) < 7, pmod(hash(id, 9), 1000) < 3)")
    )
    columns = ["agent", "hour", "bytes", "host", "cached"]
    answer = w.explain(noisy.where("bad").select(columns), noisy.where("not bad").select(columns), enough=0.8)
    best = answer.causes[0]
    assert best.sql == "agent = 'badAgent' and hour >= 20"
    exact = noisy.where("bad and agent = 'badAgent' and hour >= 20").count()
    assert best.support == exact
    assert best.error_rate == pytest.approx(0.7, abs=0.03)
    assert "error rate" in str(answer)


def test_a_threshold_among_noisy_rows(w: whence.Session, log: DataFrame) -> None:
    noisy = log.withColumn(
        "bad", F.expr("if(bytes < 120 and host != 'h3', pmod(hash(id, 9), 10) < 8, pmod(hash(id, 9), 1000) < 5)")
    ).select("bytes", "host", "hour", "agent", "bad")
    answer = w.explain(noisy.where("bad").drop("bad"), noisy.where("not bad").drop("bad"))
    (best,) = answer.causes
    limits = {c.parameter: (c.op, c.value) for c in best.conditions}
    assert limits["host"] == ("!=", "h3")
    assert limits["bytes"][0] == "<="
    assert limits["bytes"][1] == pytest.approx(120, abs=1.5)
    assert len(limits) == len(best.conditions) == 2
    assert best.error_rate == pytest.approx(0.8, abs=0.03)


def test_a_thin_sample_is_made_closer_where_good_rows_get_in(
    w: whence.Session, log: DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the good rows with agent and hour, which only the host tells from the bad ones, the first sample has hardly
    any: the answer must still be right for all rows."""
    monkeypatch.setattr("whence.debug.explain.explain._SAMPLE", 400)
    condition = "agent = 'badAgent' and hour >= 22 and host != 'h3'"
    answer = asked(w, log, condition, columns=["agent", "hour", "host", "cached"])
    assert [c.sql for c in answer.causes] == [condition]
    assert answer.exact


@pytest.mark.parametrize("condition", ["x < 0", "x >= 41 and y < 30000"])
def test_an_exact_threshold_among_many_values(w: whence.Session, spark: SparkSession, condition: str) -> None:
    """More values than the sample has rows, so that the bins' borders are never the threshold itself."""
    rows = spark.range(-100_000, 100_000).selectExpr("id as x", "id * 7919 % 100003 as y", "pmod(hash(id), 5) as z")
    answer = w.explain(rows.where(condition), rows.where(f"not ({condition})"))
    assert answer.exact
    ((cause),) = answer.causes
    assert len(cause.conditions) == condition.count("and") + 1


def test_nothing_sets_random_rows_apart(w: whence.Session, log: DataFrame) -> None:
    even, odd = (log.where(f"id % 2 = {r}").select("agent", "cached") for r in (0, 1))
    answer = w.explain(even, odd)
    assert answer.causes == ()
    assert answer.sql == "false"


def test_bad_questions(w: whence.Session, log: DataFrame) -> None:
    with pytest.raises(DiagnoseError, match="no bad rows"):
        w.explain(log.where("hour > 99"), log)
    with pytest.raises(DiagnoseError, match="no good rows"):
        w.explain(log, log.where("hour > 99"))
    with pytest.raises(DiagnoseError, match="'nope' is not in both"):
        w.explain(log, log, columns=["nope"])
    with pytest.raises(DiagnoseError, match="share no column"):
        w.explain(log.select(F.array("id").alias("a")), log.select(F.array("id").alias("a")))


def test_names_and_values_that_need_quotes(w: whence.Session, spark: SparkSession) -> None:
    rows = spark.createDataFrame([("it's", i) if i % 3 == 0 else ("fine", i) for i in range(300)], ["user name", "n"])
    answer = w.explain(rows.where("`user name` != 'fine'"), rows.where("`user name` = 'fine'"))
    assert answer.exact
    assert rows.where(answer.sql).count() == 100


def test_rules_drop_conditions_that_others_make_needless() -> None:
    rng = np.random.default_rng(0)
    codes = rng.integers(1, 6, size=(3000, 5)).astype(np.uint8)
    bad = (codes[:, 0] == 2) & (codes[:, 1] >= 4)
    data = Coded(codes, bad, (6,) * 5, (True,) * 5, tuple(np.arange(6) > 0 for _ in range(5)))
    (rule,) = rules(data, 3, 5, 0.99)
    assert [c for c, _ in rule.conditions] == [0, 1]
    assert (rule.mask(codes) == bad).all()


def test_the_witnesses_of_a_trace_are_explained(w: whence.Session, log: DataFrame, tmp_path: Path) -> None:
    log.drop("at").write.parquet(str(tmp_path / "log"))
    rows = w.spark.read.parquet(str(tmp_path / "log"))
    totals = rows.where("agent = 'badAgent' and hour >= 22").groupBy("agent").agg(F.sum("bytes").alias("total"))
    trace = w.backward(totals)
    answer = trace.explain(with_keys=True)
    assert answer.sql == "agent = 'badAgent' and hour >= 22"
    assert answer.bad_rows == rows.where(answer.sql).count()
    unasked = trace.explain()
    assert not {"agent", "hour"} & set(unasked.columns), "what the query itself says explains nothing"
    assert unasked.causes == (), "and the other columns are noise"
    assert trace.explain(columns=["hour", "bytes"]).causes[0].sql == "hour >= 22"


def test_keys_are_known_behind_renames_joins_and_windows(w: whence.Session, spark: SparkSession) -> None:
    """Of the bad group, what sets it apart beside its key is told."""
    shops = [(n, f"city {n % 4}") for n in range(12)]
    sales = [(n, n % 12, n % 5 if n % 12 != 7 else 60 + n % 5, n * 7919 % 101) for n in range(600)]
    spark.createDataFrame(shops, "shop int, city string").createOrReplaceTempView("explain_shops")
    spark.createDataFrame(sales, "id int, at int, amount int, noise int").createOrReplaceTempView("explain_sales")
    totals = spark.sql(
        """SELECT place, total FROM (
             SELECT s AS place, sum(amount) AS total
             FROM (SELECT at AS s, amount FROM explain_sales) JOIN explain_shops ON shop = s GROUP BY s
           ) WHERE total > 1000"""
    )
    answer = w.backward(totals).explain("explain_sales")
    assert answer.columns == ("id", "amount", "noise")
    assert [cause.sql for cause in answer.causes] == ["amount >= 60"]
    assert w.backward(totals).explain("explain_shops").columns == ("city",), "the join makes its key the group's"
    ranked = spark.sql("SELECT id, sum(amount) OVER (PARTITION BY at) t FROM explain_sales").where("t > 1000")
    assert w.backward(ranked).explain().columns == ("id", "amount", "noise")
    alone = spark.sql("SELECT city, shop, count(*) FROM explain_shops GROUP BY ALL").where("shop = 3")
    with pytest.raises(whence.WhenceError, match=r"every column of explain_shops \(shop, city\)"):
        w.backward(alone).explain()
