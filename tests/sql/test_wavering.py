"""Values that the same rows may give another time: shown they are harmless, but nothing may go by them unseen."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import whence
from releases import since

pytestmark = pytest.mark.usefixtures("interpreted")

# Groups of several rows in several files, so that rows come in another order when fewer of them are read.
FILES = 4
ROWS = [(i, i % 5, (i * 7) % 11, (i % 5) * 3) for i in range(40)]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("wavering") / "t"
    home.mkdir()
    for part in range(FILES):
        rows = [row for row in reversed(ROWS) if row[0] % FILES == part]
        columns = dict(zip(("id", "k", "v", "z"), map(list, zip(*rows, strict=True)), strict=True))
        pq.write_table(pa.table(columns), home / f"part{part}.parquet")
    return home


@pytest.fixture(scope="module")
def t(spark: SparkSession, home: Path) -> DataFrame:
    """`z` follows from `k`, `v` does not; and what reports are made of."""
    spark.read.parquet(str(home)).createOrReplaceTempView("t")
    t = spark.table("t")
    t.dropDuplicates(["k"]).createOrReplaceTempView("one")
    t.groupBy("k").agg(F.collect_list("v").alias("l")).createOrReplaceTempView("lists")
    return t


def seen(w: whence.Session, query: DataFrame) -> tuple[set[int], set[int]]:
    """The groups that a result shows and those of its witnesses, for a trace that is exact and proven."""
    shown = {row.k for row in query.collect()}
    trace = w.backward(query)
    assert (trace.exact, trace.notes) == (True, ())
    found = {row.id for row in trace["t"].collect()}
    assert found == {i for i, k, *_ in ROWS if k in shown}
    assert trace.verify().ok, trace.verify()
    return shown, found


REFUSED = {
    "dropDuplicates and a filter": "select * from one where v > 3",
    "dropDuplicates and a join": "select one.k from one join t on one.v = t.id",
    "dropDuplicates and a grouping": "select v, count(*) from one group by v",
    "dropDuplicates and DISTINCT": "select distinct v from one",
    "dropDuplicates and IN": "select * from t where v in (select v from one)",
    "dropDuplicates and NOT IN": "select * from t where v not in (select v from one)",
    "dropDuplicates and a scalar": "select * from t where v > (select max(v) from one)",
    "dropDuplicates and UNION": "select v from one union select 1",
    "dropDuplicates and a window": "select k, sum(id) over (partition by v) from one",
    "dropDuplicates and LIMIT": "select * from one order by v, id limit 2",
    "first": "select k, first(v) f from t group by k having f > 3",
    "first below": "select * from (select k, first(v) + 1 f from t group by k) where f > 3",
    "first of some": "select k, first(v) filter (where id < 20) f from t group by k having f > 3",
    "any_value": "select * from (select k, any_value(v) f from t group by k) where f > 3",
    "max_by of rows that tie": "select k, max_by(v, k) f from t group by k having f > 3",
    "min_by of rows that tie": "select k, min_by(v, k) f from t group by k having f > 3",
    "an element of a list": "select * from lists where l[0] > 5",
    "a list as text": "select * from (select k, concat_ws(',', collect_list(v)) l from t group by k) where l like '1%'",
    "a list as key": "select l, count(*) from (select k, collect_set(v) l from t group by k) group by l",
    "places in a list": "select k from lists lateral view posexplode(l) as p, e where p = 0",
    "mode": "select k, mode(v) m from t group by k having m > 3",
    "a histogram": "select k, histogram_numeric(v, 2) h from t group by k having h[0].y > 1",
    "a rough percentile": "select k, approx_percentile(v, 0.5, 10) p from t group by k having p > 3",
    "first over a window": "select * from (select k, first(v) over (partition by k) f from t) where f > 3",
    "first over ties": "select * from (select k, first(v) over (partition by k order by z) f from t) where f > 3",
}


@pytest.mark.parametrize("query", REFUSED.values(), ids=REFUSED.keys())
def test_rows_that_may_be_others_the_next_time_are_refused(w: whence.Session, t: DataFrame, query: str) -> None:
    with pytest.raises(whence.NonDeterministic, match="capture"):
        _ = w.backward(w.spark.sql(query)).witness_counts


@since("4.0", "LISTAGG")
def test_a_list_without_an_order_is_refused(w: whence.Session, t: DataFrame) -> None:
    listed = "select k, listagg(cast(v as string), ',') {} l from t group by k having l like '1%'"
    with pytest.raises(whence.NonDeterministic, match="goes by it"):
        _ = w.backward(w.spark.sql(listed.format(""))).witness_counts
    seen(w, w.spark.sql(listed.format("within group (order by cast(v as string))")))


@since("4.0", "LISTAGG")
def test_a_list_in_an_order_that_leaves_ties_is_refused(w: whence.Session, t: DataFrame) -> None:
    listed = "select k, listagg(cast({} as string), ',') within group (order by {}) l from t group by k having l <> ''"
    with pytest.raises(whence.NonDeterministic, match="goes by it"):
        _ = w.backward(w.spark.sql(listed.format("v", "z"))).witness_counts
    for value, order in (("v", "id"), ("v", "z desc, v"), ("z", "k")):  # no ties, or of rows that agree
        seen(w, w.spark.sql(listed.format(value, order)))


@since("4.3", "max_by of several")
def test_the_largest_of_several_that_tie_are_refused(w: whence.Session, t: DataFrame) -> None:
    with pytest.raises(whence.NonDeterministic, match="goes by it"):
        _ = w.backward(w.spark.sql("select k, max_by(v, k, 2) m from t group by k having m[0] > 3")).witness_counts


def test_what_is_found_roughly_refutes_nothing(w: whence.Session, t: DataFrame) -> None:
    """Which items are frequent, as `freqItems` counts, goes by the order in which they come."""
    verdict = w.backward(t.repartition(3).freqItems(["k"], 0.3)).verify()
    assert not verdict.refuted, verdict


TRACED = {
    "dropDuplicates": "select * from one",
    "dropDuplicates and a filter of its key": "select * from one where k > 2",
    "dropDuplicates of rows that agree": "select * from one where z > 3",
    "first": "select k, first(v) f, sum(v) s from t group by k having s > 30",
    "first in order": "select k, first(v) f from t group by k order by f",
    "first of rows that agree": "select k, first(z) f from t group by k having f > 3",
    "first beside a LIMIT": "select k, first(v) f, sum(v) s from t group by k order by s, k limit 2",
    "a percentile of few": "select k, approx_percentile(v, 0.5) p from t group by k having p > 3",
    "max_by": "select k, max_by(v, id) f from t group by k having f > 3",
    "min_by": "select k, min_by(v, id) f from t group by k having f > 3",
    "max_by of ties that agree": "select k, max_by(z, v) f from t group by k having f > 3",
    "a list": "select k, collect_list(v) l from t group by k having count(*) > 3",
    "what a list holds": "select * from lists where size(l) > 2 and array_contains(array_distinct(l), 4)",
    "a sorted list": "select * from (select k, sort_array(collect_list(v)) l from t group by k) where l[0] > 0",
    "a list in rows": "select k, e from lists lateral view explode(l) as e where e = 4",
    "first over an order": "select * from (select k, first(v) over (partition by k order by id) f from t) where f > 3",
}


@pytest.mark.parametrize("query", TRACED.values(), ids=TRACED.keys())
def test_a_value_that_decides_nothing_or_leaves_no_choice_is_traced(
    w: whence.Session, t: DataFrame, query: str
) -> None:
    shown, found = seen(w, w.spark.sql(query))
    assert shown
    assert found


def test_captured_rows_are_those_that_were_shown(w: whence.Session, t: DataFrame) -> None:
    queries = [
        t.dropDuplicates(["k"]).where("v > 3"),
        w.spark.sql("select * from (select k, collect_list(v) l from t group by k) where l[0] > 3"),
        w.spark.sql("select k, max_by(v, k) f from t group by k having f > 3"),
        w.spark.sql("select * from (select k, first(v) over (partition by k) f from t) where f > 3"),
    ]
    for query in queries:
        with w.capture():
            shown = {row.k for row in query.collect()}
        trace = w.backward(query)
        assert {row.id for row in trace["t"].collect()} == {i for i, k, *_ in ROWS if k in shown}
        assert trace.exact


def test_a_proof_says_what_it_did_not_compare(w: whence.Session, t: DataFrame) -> None:
    """On the witnesses alone, in files that are read in another order, another row of each group comes first."""
    query = w.spark.sql("select /*+ REPARTITION(7, v) */ * from t").dropDuplicates(["k"]).where("k < 3")
    verdict = w.backward(query).verify()
    assert verdict.ok
    assert all("not compared" in note for note in verdict.notes)
    assert w.verify(t.dropDuplicates(["k"]), rows=3).ok
    assert w.verify(t.dropDuplicates(["k"]).select("v"), rows=3).ok


def test_how_much_a_row_moved_a_value_of_any_row_is_not_told(w: whence.Session, t: DataFrame) -> None:
    trace = w.backward(w.spark.sql("select k, first(v) f, sum(v) s from t group by k").where("k = 1"))
    with pytest.raises(whence.NonDeterministic, match="whichever row"):
        trace.influence("f")
    assert trace.influence("s").count() == 8


# Spark moves the SELECT below the LIMIT, makes a join of its subquery there, and drops the ORDER BY below the join.
_X = "(select * from t order by v, id limit 3) x"
_OWN = "(select max(v) from u where u.id = x.id) n"
NO_ORDER = {
    "a scalar": f"select id, (select count(*) from u where u.id = x.id) n from {_X}",
    "IN": f"select id, id in (select v from u) n from {_X}",
    "EXISTS": f"select id, exists (select * from u where u.v = x.id) n from {_X}",
    "LIMIT and OFFSET": f"select id, {_OWN} from (select * from t order by v, id limit 3 offset 2) x",
    "OFFSET": f"select id, {_OWN} from (select * from t order by v, id offset 30) x",
    "below more": f"select max(n) from (select id, {_OWN} from {_X}) where n >= 0",
    "within a subquery": f"select * from t where id in (select n from (select {_OWN} from {_X}))",
}
IN_ORDER = {
    "a scalar of its own": f"select id, (select max(v) from u) n from {_X}",
    "EXISTS of its own": f"select id, exists (select * from u) n from {_X}",
    "a scalar of one row": f"select id, (select x.id + 1) n from {_X}",
    "no row is left out": f"select id, {_OWN} from (select * from t order by v limit 40) x",
    "the subquery below": f"select id, {_OWN} from t x order by v, id limit 3",
    "a filter between": f"select id, {_OWN} from {_X} where id >= 0",
    "no SELECT": f"select id from {_X} where exists (select * from u where u.id = x.id)",
    "a LIMIT within": "select id, (select max(v) from (select * from u order by v, id limit 3)) n from t where id < 3",
}


@pytest.fixture(scope="module")
def u(spark: SparkSession, home: Path, t: DataFrame) -> DataFrame:
    """The same rows in another file."""
    other = str(home.parent / "u")
    t.coalesce(1).write.parquet(other)
    spark.read.parquet(other).createOrReplaceTempView("u")
    return spark.table("u")


@pytest.mark.parametrize("query", NO_ORDER.values(), ids=NO_ORDER.keys())
def test_a_limit_whose_order_spark_loses_is_refused(w: whence.Session, u: DataFrame, query: str) -> None:
    df = w.spark.sql(query)
    with pytest.raises(whence.NonDeterministic, match=r"in no order.*capture\(\)") as refused:
        _ = w.backward(df).witness_counts
    said = re.search(r'spark.conf.set\("(.*)", "(.*)"\)', str(refused.value))
    assert said
    setting, rule = said.groups()
    with pytest.raises(whence.NonDeterministic, match="in no order"):
        _ = w.forward(w.spark.table("t").where("id = 0"), to=df).rows.count()
    w.spark.conf.set(setting, rule)
    try:
        kept = w.backward(w.spark.sql(query))
        assert kept.exact
        assert kept.verify().ok
    finally:
        w.spark.conf.unset(setting)


@pytest.mark.parametrize("query", IN_ORDER.values(), ids=IN_ORDER.keys())
def test_a_limit_whose_order_spark_keeps_is_traced(w: whence.Session, u: DataFrame, query: str) -> None:
    df = w.spark.sql(query)
    shown = {row.id for row in df.collect()}
    trace = w.backward(df)
    assert trace.exact
    assert {row.id for row in trace["t"].collect()} == shown
    assert trace.verify().ok


def test_spark_itself_cuts_rows_in_no_order(w: whence.Session, u: DataFrame) -> None:
    """Should a later Spark keep the order, `LOST_ORDER` may go. What was captured is traced as it was shown."""
    df = w.spark.sql(NO_ORDER["a scalar"])
    assert "Sort" not in w.spark.sql(f"explain extended {NO_ORDER['a scalar']}").first()[0].split("Optimized")[1]
    assert df.count() == 3
    with w.capture():
        shown = {row.id for row in df.collect()}
    trace = w.backward(df)
    assert trace.exact
    assert {row.id for row in trace["t"].collect()} == shown
    assert trace.verify().ok
