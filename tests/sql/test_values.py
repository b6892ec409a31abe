"""Values, moments and rows that are awkward to compare, to carry through Python or to compute twice."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import whence
from releases import case, since
from whence.sql.verify import compare

ORDERS = "select * from values (1, 'a', 10), (2, 'b', 20), (3, 'a', 30) t(id, k, x)"


# --- LIMIT


@pytest.mark.parametrize(
    ("values", "why"),
    [
        case("4.0", "collations", "'a' collate UTF8_LCASE; 'A' collate UTF8_LCASE; 'b' collate UTF8_LCASE", "texts"),
        ("array(0.0D); array(-0.0D); array(1.0D)", "zeros"),
        ("named_struct('d', interval '1' year); named_struct('d', interval '12' month)", "intervals"),
    ],
    ids=lambda value: value if " " not in value else "",
)
def test_a_limit_cuts_a_tie_as_spark_compares(tiny: SparkSession, w: whence.Session, values: str, why: str) -> None:
    rows = ", ".join(f"({i}, {value})" for i, value in enumerate(values.split("; ")))
    t = w.backward(tiny.sql(f"select * from values {rows} t(id, v) order by v limit 1"))
    assert not t.exact
    assert "rows tie at row 1" in t.notes[0]
    assert {row.id for row in t["t"].select("id").collect()} == {0, 1}


def test_no_order_is_needed_to_keep_all_rows_or_none(tiny: SparkSession, w: whence.Session) -> None:
    orders = tiny.sql(ORDERS)
    for none in (orders.limit(0), orders.offset(3), orders.offset(5).limit(2), orders.offset(1).limit(0)):
        t = w.backward(none)
        assert (t.exact, t["t"].count()) == (True, 0)
    assert w.backward(orders.offset(0))["t"].count() == 3
    for some in (orders.offset(2), orders.limit(2), orders.offset(1).limit(1)):
        with pytest.raises(whence.NonDeterministic, match="without ORDER BY"):
            _ = w.backward(some)["t"]


def test_rows_behind_an_offset_may_hold_maps(tiny: SparkSession, w: whence.Session) -> None:
    maps = tiny.sql("select id, map('a', id) as m from range(4)")
    t = w.backward(maps.orderBy("id").offset(2))
    assert {row.id for row in t["range"].collect()} == {2, 3}


# --- keys that Python has no values for


@pytest.mark.parametrize(
    ("keys", "one"),
    [
        ("make_date(12000, 1, 1); make_date(-5, 1, 1); date'2020-01-01'", "make_date(12000, 1, 1)"),
        ("timestamp'+12000-01-01'; timestamp'2020-01-01'", "timestamp'+12000-01-01'"),
        ("interval '1' year; interval '2' year", "interval '1' year"),
        case("4.0", "groups by maps", "map('a', 1); map('b', 1)", "map('a', 1)"),
    ],
    ids=["dates", "timestamps", "years", "maps"],
)
def test_groups_by_such_keys(tiny: SparkSession, w: whence.Session, keys: str, one: str) -> None:
    rows = ", ".join(f"({i}, {key})" for i, key in enumerate([*keys.split("; "), one]))
    tiny.sql(f"select * from values {rows} t(id, d)").createOrReplaceTempView("dated")
    groups = tiny.sql("select d, count(*) as n from dated group by d")
    t = w.backward(groups.where("n = 2"))
    last = len(keys.split("; "))
    assert t.exact
    assert {row.id for row in t["t"].select("id").collect()} == {0, last}
    assert t.verify().ok
    assert "t: 2 witnesses\nid  d" in str(t)
    touched = w.forward(tiny.table("dated").where("id = 0"), to=groups)
    assert [row.n for row in touched.rows.select("n").collect()] == [2]


# --- the moment


def test_now_is_taken_once_and_said(tiny: SparkSession, w: whence.Session) -> None:
    tiny.sql("select 1 as id, current_timestamp() - interval '1' hour as ts").createOrReplaceTempView("events")
    late = tiny.sql("select id, now() as at from events where ts < current_timestamp() order by ts limit 2")
    t = w.backward(late)
    assert not t.exact
    assert {note.split(" was taken")[0] for note in t.notes} == {"Project: now()", "Filter: current_timestamp()"}
    assert t.rows.collect() == t.rows.collect()
    assert t.verify().ok
    assert not w.backward(tiny.sql("select * from events where date(ts) <= date('today')")).exact
    assert w.backward(tiny.sql("select current_user(), id from events")).exact


def test_what_a_limit_kept_is_of_its_moment(tiny: SparkSession, w: whence.Session) -> None:
    def moment() -> object:
        first = tiny.sql("select id, now() as at from values (1), (2) t(id) order by id limit 1")
        return w.backward(first).at(0).collect()[0].at

    assert moment() != moment()


@since("4.0", "session variables in SQL")
def test_what_a_limit_kept_is_of_its_settings(tiny: SparkSession, w: whence.Session) -> None:
    tiny.sql("declare or replace variable most int default 1")
    top = "select id from range(9) where id <= session.most order by id desc limit 1"
    assert [r.id for r in w.backward(tiny.sql(top))["range"].collect()] == [1]
    tiny.sql("set variable most = 2")
    assert [r.id for r in w.backward(tiny.sql(top))["range"].collect()] == [2]


def test_captured_moments_are_those_of_the_result(tiny: SparkSession, w: whence.Session) -> None:
    tiny.sql("select 1 as id, current_timestamp() - interval '1' hour as ts").createOrReplaceTempView("events")
    stamped = tiny.sql("select id, current_timestamp() as at from events")
    with w.capture():
        result = stamped.collect()
    t = w.backward(stamped)
    assert t.exact
    assert t.rows.collect() == result
    # What comes on top of it has a moment of its own.
    later = w.backward(stamped.where("at <= current_timestamp()"))
    assert [note.split(" was taken")[0] for note in later.notes] == ["Filter: current_timestamp()"]
    assert later.rows.collect() == result


def test_the_notes_of_the_rows_a_forward_trace_starts_from(tiny: SparkSession, w: whence.Session) -> None:
    orders = tiny.sql(ORDERS)
    seeds = orders.orderBy("k").limit(1)  # two rows tie
    t = w.forward(seeds, to=orders.groupBy("k").agg(F.sum("x").alias("s")))
    assert not t.exact
    assert "rows tie" in t.notes[0]


# --- functions of the user's


def test_functions_that_are_run_again_are_named(tiny: SparkSession, w: whence.Session) -> None:
    calls = tiny.sparkContext.accumulator(0)

    @F.udf("int")
    def charge(x):  # type: ignore[no-untyped-def]
        calls.add(1)
        return x + 1

    def keep(frames):  # type: ignore[no-untyped-def]
        yield from frames

    orders = tiny.sql(ORDERS)
    t = w.backward(orders.withColumn("y", charge("x")).where("y > 11"))
    assert t.reruns == ("charge",)
    assert calls.value == 0
    assert "run again for this answer, with whatever they do besides: charge" in str(t)
    assert t.exact
    assert t["t"].count() == 2
    assert calls.value == 3  # once for each row, however much is asked of the trace
    assert w.backward(orders.mapInPandas(keep, orders.schema)).reruns == ("keep",)
    assert w.backward(orders.where("x > 11")).reruns == ()


# --- rows that a trace gave


def sources(spark: SparkSession, folder: Path) -> dict[str, DataFrame]:
    orders = spark.sql(ORDERS).coalesce(1)
    orders.write.csv(str(folder / "csv"), header=True)
    orders.write.json(str(folder / "json"))
    orders.write.orc(str(folder / "orc"))
    orders.write.parquet(str(folder / "parquet"))
    orders.select(F.concat_ws(" ", "id", "k", "x").alias("value")).write.text(str(folder / "text"))
    return {
        "csv": spark.read.csv(str(folder / "csv"), header=True, schema=orders.schema),
        "json": spark.read.schema(orders.schema).json(str(folder / "json")),
        "orc": spark.read.orc(str(folder / "orc")),
        "parquet": spark.read.parquet(str(folder / "parquet")),
        "text": spark.read.text(str(folder / "text")),
        "dataframe": spark.createDataFrame(orders.rdd.map(tuple), orders.schema),
    }


def test_rows_of_a_trace_can_be_asked_again(tiny: SparkSession, w: whence.Session, tmp_path: Path) -> None:
    for name, rows in sources(tiny, tmp_path).items():
        orders = rows if name != "text" else rows.select(F.split("value", " ")[1].alias("k"), F.lit(1).alias("x"))
        totals = orders.groupBy("k").agg(F.sum("x").alias("s"))
        t = w.backward(totals.where("k = 'a'"))
        again = w.backward(t[name])
        assert (again.exact, list(again.sources)) == (True, [name])
        assert again[name].columns == rows.columns
        assert sorted(str(row[0])[0] for row in again[name].collect()) == ["1", "3"]
        touched = w.forward(w.forward(t[name], to=totals).rows, to=totals)
        assert [row.k for row in touched.rows.collect()] == ["a"]


def test_rows_at_every_step_can_be_asked_again(tiny: SparkSession, w: whence.Session, tmp_path: Path) -> None:
    orders = sources(tiny, tmp_path)["csv"]
    orders.createOrReplaceTempView("orders")
    best = tiny.sql(
        "select k, x, avg(x) over (partition by k) as mean from orders where k in (select k from orders where x > 25) "
        "order by x limit 2"
    )
    t = w.backward(best.where("x = 10"))
    for step in t.steps:
        again = w.backward(t.at(step))
        assert again.exact, step
        assert [set(frame.columns) for frame in again.sources.values()] == [{"id", "k", "x"}], step
        assert again.verify().ok, step
    own = t["orders"]
    assert w.backward(own.alias("a").join(own.alias("b"), "id").where("id = 1"))["orders"].count() == 1


def test_other_queries_over_rows_of_a_trace_are_refused(tiny: SparkSession, w: whence.Session) -> None:
    t = w.backward(tiny.sql(ORDERS).where("k = 'a'"))
    with pytest.raises(whence.WhenceError, match="made of rows that a trace gave"):
        t.exclude(t["t"].where("id = 1"))


def test_rows_at_a_captured_step_can_be_asked_again(tiny: SparkSession, w: whence.Session) -> None:
    drawn = tiny.range(6).withColumn("r", F.rand())
    with w.capture():
        rows = {row.id: row for row in drawn.collect()}
    t = w.backward(drawn.where("id = 3"))
    for step in t.steps:
        again = w.backward(t.at(step))
        assert (again.exact, again.witness_counts) == (True, {"range": 1}), step
    assert t.at(1).collect() == [rows[3]]


def test_columns_of_a_joins_sides_keep_their_names(tiny: SparkSession, w: whence.Session) -> None:
    tiny.sql(ORDERS).createOrReplaceTempView("orders")
    t = w.backward(tiny.sql("select a.id from orders a join orders b on a.k = b.k where a.id < b.id"))
    join = next(step for step in t.steps if step.operator == "Join")
    assert [tuple(row) for row in t.at(join).select("a.id", "b.id").collect()] == [(1, 3)]


# --- the proof


def test_rows_that_differ_in_a_microsecond_are_no_proof(tiny: SparkSession) -> None:
    one, other = (
        tiny.sql(
            f"select timestamp'2020-01-01 00:00:00.00000{i}' as t, timestamp_ntz'2020-01-01 00:00:00.00000{i}' as n"
        )
        for i in (1, 2)
    )
    for column in ("t", "n"):
        assert compare(one.select(column), one.select(column)).ok
        assert not compare(one.select(column), other.select(column)).ok


def test_rows_of_any_type_are_verified(w: whence.Session) -> None:
    """Maps cannot be compared, and Python has no year 10000."""
    query = "select map('a', id) m, make_ym_interval(1, id) i, date '+12024-01-01' d, array(id) a from range(2)"
    assert w.verify(w.spark.sql(query), rows=2).ok
