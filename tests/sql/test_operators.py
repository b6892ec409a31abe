"""Queries and the witnesses of each of their rows, side by side. All read the table `t`; rows are told by `rid`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import reduce

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import whence
from releases import case

T = "select * from values (0,1,10),(1,1,20),(2,1,20),(3,2,5),(4,2,null),(5,null,7),(6,2,9),(7,1,30) as t(rid,k,v)"
PARTITION = {
    0: {0, 1, 2, 7},
    1: {0, 1, 2, 7},
    2: {0, 1, 2, 7},
    7: {0, 1, 2, 7},
    3: {3, 4, 6},
    4: {3, 4, 6},
    6: {3, 4, 6},
    5: {5},
}

# query -> for each output row, named by its first column: the witnesses of the one reading, or of each reading
BY_FIRST_COLUMN: dict[str, dict[object, set[int] | tuple[set[int], ...]]] = {
    "select rid, sum(v) over (partition by k) from t": dict(PARTITION),
    "select rid, ntile(2) over (partition by k order by rid) from t": dict(PARTITION),
    "select rid, percent_rank() over (partition by k order by v) from t": dict(PARTITION),
    "select rid, sum(v) over (partition by k order by v) from t": {
        **{0: {0}, 1: {0, 1, 2}, 2: {0, 1, 2}, 7: {0, 1, 2, 7}},
        **{4: {4}, 3: {3, 4}, 6: {3, 4, 6}, 5: {5}},
    },
    "select rid, sum(v) over (partition by k order by v range between 5 preceding and 10 following) from t": {
        **{0: {0, 1, 2}, 1: {1, 2, 7}, 2: {1, 2, 7}, 7: {7}},
        **{4: {4}, 3: {3, 6}, 6: {3, 6}, 5: {5}},
    },
    "select rid, sum(v) over (partition by k order by date_add(date'2026-01-01', v) "
    "range between interval 5 days preceding and interval 10 days following) from t": {
        **{0: {0, 1, 2}, 1: {1, 2, 7}, 2: {1, 2, 7}, 7: {7}},
        **{4: {4}, 3: {3, 6}, 6: {3, 6}, 5: {5}},
    },
    "select rid, sum(v) over (order by timestamp_seconds(v * 60) desc "
    "range between interval 5 minutes preceding and interval '10' minute following) from t": {
        **{7: {1, 2, 7}, 1: {0, 1, 2}, 2: {0, 1, 2}, 4: {4}},
        **{0: {0, 3, 5, 6}, 6: {0, 3, 5, 6}, 5: {0, 3, 5, 6}, 3: {0, 3, 5, 6}},
    },
    "select rid, sum(v) over (order by v desc range between 5 preceding and 10 following) from t": {
        **{7: {1, 2, 7}, 1: {0, 1, 2}, 2: {0, 1, 2}, 4: {4}},
        **{0: {0, 3, 5, 6}, 6: {0, 3, 5, 6}, 5: {0, 3, 5, 6}, 3: {0, 3, 5, 6}},
    },
    "select rid, sum(v) over (partition by k order by rid rows between 1 preceding and current row) from t": {
        **{0: {0}, 1: {0, 1}, 2: {1, 2}, 7: {2, 7}},
        **{3: {3}, 4: {3, 4}, 6: {4, 6}, 5: {5}},
    },
    "select rid, sum(v) over (order by rid rows between 2 following and 3 following) from t where rid < 5": {
        **{0: {0, 2, 3}, 1: {1, 3, 4}, 2: {2, 4}, 3: {3}, 4: {4}},
    },
    "select rid, lag(v, 2) over (partition by k order by rid), lead(v) over (partition by k order by rid) from t": {
        **{0: {0, 1}, 1: {1, 2}, 2: {0, 2, 7}, 7: {1, 7}},
        **{3: {3, 4}, 4: {4, 6}, 6: {3, 6}, 5: {5}},
    },
    "select rid, rank() over (partition by k order by v) from t": {
        **{0: {0}, 1: {0, 1}, 2: {0, 2}, 7: {0, 1, 2, 7}},
        **{4: {4}, 3: {3, 4}, 6: {3, 4, 6}, 5: {5}},
    },
    "select * from (select rid, row_number() over (partition by k order by rid desc) n from t) where n <= 1": {
        **{7: {7}, 6: {6}, 5: {5}},
    },
    "select e from t lateral view explode(array(rid, rid + 100)) x as e where rid < 2": {
        **{0: {0}, 100: {0}, 1: {1}, 101: {1}},
    },
    "select rid, p, e from t lateral view outer posexplode(if(rid = 1, array(), array(v))) x as p, e where rid < 2": {
        **{0: {0}, 1: {1}},
    },
    "select a + 100 from (select inline(array(struct(rid as a, k as b))) from t where rid < 2)": {100: {0}, 101: {1}},
    "select s from (select stack(2, rid, rid + 10) as s from t where rid < 2)": {0: {0}, 10: {0}, 1: {1}, 11: {1}},
    "select rid from t order by rid limit 2 offset 3": {3: {3}, 4: {4}},
    "select rid from t order by rid offset 6": {6: {6}, 7: {7}},
    "select `1`, `2` from (select k, v from t) pivot (sum(v) for k in (1, 2))": {80: {0, 1, 2, 3, 4, 5, 6, 7}},
    "select rid, col, val from (select rid, k, v from t where rid = 0) unpivot (val for col in (k))": {0: {0}},
    "select rid, (select max(v) from t b where b.k = a.k) from t a where rid in (0, 3)": {
        0: ({0}, {0, 1, 2, 7}),
        3: ({3}, {3, 4, 6}),
    },
    "select rid from t where v > (select avg(v) + 10 from t where k = 1)": {},
    "select rid from t where v > (select avg(v) from t where k = 1)": {7: ({7}, {0, 1, 2, 7})},
    "select a.rid, x.m from t a, lateral (select max(v) m from t b where b.k = a.k) x where a.rid in (0, 3)": {
        0: ({0}, {0, 1, 2, 7}),
        3: ({3}, {3, 4, 6}),
    },
    "select rid, (select count(*) from t where k in (select k from t where rid = 3)) from t where rid = 0": {
        0: ({0}, {3, 4, 6}, {3}),
    },
    "select rid from t where k in (select k from t where rid = 3) or v = 30": {
        **{3: ({3}, {3}), 4: ({4}, {3}), 6: ({6}, {3}), 7: ({7}, set())},
    },
    "select rid from t where k not in (select k from t where rid = 3)": {
        **{0: ({0}, set()), 1: ({1}, set()), 2: ({2}, set()), 7: ({7}, set())},
    },
    "select rid from t a where not exists (select 1 from t b where b.k = a.k and b.rid > a.rid)": {
        **{7: ({7}, set()), 6: ({6}, set()), 5: ({5}, set())},
    },
    "select rid from t a where exists (select * from (select * from t b where exists "
    "(select * from t c where c.rid < 2 and b.rid = 3)) d where a.rid = 5)": {5: ({5}, {3}, {0, 1})},
    "select rid from t a where rid < 2 and not exists (select * from (select * from t b where exists "
    "(select * from t c where b.k = 1)) d where d.k <=> d.k and a.k <> a.k)": {
        **{0: ({0}, set(), set()), 1: ({1}, set(), set())},
    },
    "with c as (select k, max(v) m from t group by k) select a.k, b.m from c a join c b on a.k = b.k where a.k = 2": {
        2: ({3, 4, 6}, {3, 4, 6}),
    },
    "select k, percentile(v, 0.5), mode(v), collect_list(v), count(distinct v), sum(v) filter (where v > 9) "
    "from t where k = 1 group by k": {1: {0, 1, 2, 7}},
    "select size(transform(collect_list(struct(v, rid)), x -> x.rid)) from t where k = 2": {3: {3, 4, 6}},
    "select max(n) from (select k, count(*) n from t group by k)": {4: {0, 1, 2, 3, 4, 5, 6, 7}},
    "select rid, map('a', v)['a'], case when v > 10 then 'x' else 'y' end from t where rid = 1": {1: {1}},
    "select 7": {7: ()},
    "select id from range(10, 13) where id > 11": {},
}

AS_BAGS = {
    "select k from t intersect select k from t where rid in (1, 3, 6)": [
        (1, {0, 1, 2, 7}, {1}),
        (2, {3, 4, 6}, {3, 6}),
    ],
    "select k from t except select k from t where rid in (1, 3, 6)": [(None, {5}, set())],
    "select k from t intersect all select k from t where rid in (1, 3, 6)": [
        (1, {0}, {1}),
        (2, {3}, {3}),
        (2, {4}, {6}),
    ],
    "select k from t except all select k from t where rid in (1, 3, 6)": [
        *[(1, {1}, set()), (1, {2}, set()), (1, {7}, set())],
        *[(2, {6}, set()), (None, {5}, set())],
    ],
    "select k, (select count(*) from t b where b.v = a.v) from t a where v < 10 except all select 1, rid from t": [
        *[(2, {3}, {3}, set()), (2, {6}, {6}, set()), (None, {5}, {5}, set())],
    ],
    "select k, v, count(*) from t where k = 2 group by rollup(k, v)": [
        *[(2, {3}), (2, {4}), (2, {6}), (2, {3, 4, 6}), (None, {3, 4, 6})],
    ],
    "select k, v from t where k = 2 group by grouping sets ((k), (v))": [
        *[(2, {3, 4, 6}), (None, {3}), (None, {4}), (None, {6})],
    ],
}


@pytest.fixture(scope="module")
def session(tiny: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[whence.Session]:
    tiny.sql(T).createOrReplaceTempView("t")
    with whence.attach(tiny, store=tmp_path_factory.mktemp("store")) as w:
        yield w


def traced(w: whence.Session, query: str) -> tuple[whence.Trace, list[tuple[object, ...]]]:
    trace = w.backward(w.spark.sql(query))
    found: dict[tuple[int, int], set[int]] = {}
    frames = list(trace.witnesses_per_output())
    readings = [reading for reading, _ in frames]
    told = [frame.select("output", F.lit(reading), "rid") for reading, frame in frames if "rid" in frame.columns]
    for output, reading, rid in reduce(DataFrame.unionAll, told).collect() if told else ():
        found.setdefault((output, reading), set()).add(rid)
    return trace, [
        (row[1], *[frozenset(found.get((row.output, reading), set())) for reading in readings])
        for row in trace.outputs().collect()
    ]


@pytest.mark.parametrize(
    "query",
    [case("4.0", "ranges of days", query) if "date_add" in query else query for query in BY_FIRST_COLUMN],
)
def test_witnesses_of_each_row(session: whence.Session, query: str) -> None:
    trace, rows = traced(session, query)
    if "range(" not in query:
        expected = BY_FIRST_COLUMN[query]
        sets = {k: tuple(map(frozenset, v if isinstance(v, tuple) else (v,))) for k, v in expected.items()}
        assert {row[0]: row[1:] for row in rows} == sets
    assert trace.exact
    assert trace.verify().ok


@pytest.mark.parametrize("query", AS_BAGS)
def test_witnesses_where_rows_are_equal(session: whence.Session, query: str) -> None:
    trace, rows = traced(session, query)
    assert Counter(rows) == Counter((value, *map(frozenset, sets)) for value, *sets in AS_BAGS[query])
    assert trace.verify().ok


@pytest.mark.parametrize(
    "query",
    [
        "select a.rid, b.n from t a left join (select count(v) + 7 n from t) b on a.v = b.n where a.rid < 3",
        "select rid, exists (select * from (select sum(v) s from t) where s is null) from t a where rid < 2",
        "select rid from t where rid not in (select count(*) - 1 from t) and rid < 3",
        "select rid from t a where not exists (select 1 where (select count(*) from t) = 0) and rid < 2",
        "select rid from t where rid < 2 except all select count(*) from t",
        "select * from (select v - 10 n from t union all select count(*) from t) where n = 0",
        "select count(*) from t having count(*) = 0",
    ],
)
def test_what_an_aggregate_gives_of_nothing_does_not_refute_a_trace(session: whence.Session, query: str) -> None:
    """On the witnesses alone an aggregate that is not on the way would count no rows, and that row meets others."""
    trace = session.backward(session.spark.sql(query))
    assert trace.exact
    assert trace.verify().ok


@pytest.mark.parametrize(
    "function",
    [
        "lag(v, 2) over (order by rid)",
        "lead(v, 3) over (order by rid)",
        "sum(v) over (order by rid rows between 3 preceding and 2 preceding)",
        "sum(v) over (order by rid rows between 2 following and unbounded following)",
    ],
)
def test_rows_that_a_window_passes_over_are_no_witnesses_and_refute_nothing(
    session: whence.Session, function: str
) -> None:
    """On the witnesses alone a distance of two rows would lead elsewhere."""
    df = session.spark.sql(f"select rid, {function} x from t")
    trace = session.backward(df.where("rid = 4"))
    assert trace.exact
    assert trace.verify().ok
    without = [
        row for row in session.spark.table("t").collect() if row.rid not in {r.rid for r in trace["t"].collect()}
    ]
    session.spark.createDataFrame(without, session.spark.table("t").schema).createOrReplaceTempView("t_without")
    again = session.spark.sql(f"select rid, {function} x from t_without")
    assert sorted(trace.exclude().collect()) == sorted(again.where("rid = 4").collect())
    assert sorted(trace.exclude(df).collect()) == sorted(again.collect())


CUTS = {
    "a limit, then an offset": (lambda df: df.limit(6).offset(2), [2, 3, 4, 5]),
    "an offset, then a limit": (lambda df: df.offset(2).limit(3), [2, 3, 4]),
    "two limits": (lambda df: df.limit(5).limit(3), [0, 1, 2]),
    "a larger limit last": (lambda df: df.limit(3).limit(5), [0, 1, 2]),
    "two offsets": (lambda df: df.offset(2).offset(3), [5, 6, 7]),
    "a limit, an offset, a limit": (lambda df: df.limit(6).offset(2).limit(3), [2, 3, 4]),
    "an offset past the limit": (lambda df: df.limit(2).offset(3), []),
}


@pytest.mark.parametrize(("cut", "kept"), CUTS.values(), ids=CUTS.keys())
def test_limits_and_offsets_on_top_of_each_other(
    session: whence.Session, cut: Callable[[DataFrame], DataFrame], kept: list[int]
) -> None:
    t = session.spark.table("t")
    df = cut(t.orderBy("rid"))
    assert [row.rid for row in df.collect()] == kept
    trace = session.backward(df)
    assert trace.exact
    assert sorted(row.rid for row in trace["t"].collect()) == kept
    assert trace.verify().ok
    touched = session.forward(t.where("rid in (1, 3, 7)"), to=df)
    assert sorted(row.rid for row in touched.rows.collect()) == [rid for rid in kept if rid in (1, 3, 7)]
    left = [rid for rid in range(8) if rid not in kept]
    assert sorted(row.rid for row in trace.exclude(t).collect()) == left


def test_limits_over_rows_in_no_order_keep_all_or_are_refused(session: whence.Session) -> None:
    t = session.spark.table("t")
    assert session.backward(t.limit(9).limit(8)).witness_counts == {"t": 8}
    assert session.backward(t.limit(8).offset(8)).witness_counts == {"t": 0}
    with pytest.raises(whence.NonDeterministic, match="LIMIT 3 without ORDER BY"):
        _ = session.backward(t.limit(5).limit(3)).witness_counts


def test_sample_is_traced_to_the_rows_it_drew(session: whence.Session) -> None:
    df = session.spark.sql("select rid from t tablesample (50 percent) repeatable (3)")
    drawn = {row.rid for row in df.collect()}
    trace = session.backward(df)
    assert {row.rid for row in trace["t"].collect()} == drawn
    assert 0 < len(drawn) < 8
    assert trace.verify().ok


@pytest.mark.parametrize(
    ("query", "what"),
    [
        ("select rand() from t", "rand"),
        ("select uuid() from t", "uuid"),
        ("select k, first(rid) f from t group by k having f > 1", "first"),
        ("select rid from t limit 3", "LIMIT 3 without ORDER BY"),
        case("4.0", "samples without a seed", "select rid from t tablesample (50 percent)", "without a seed"),
        ("select rid, row_number() over (partition by k order by v) from t", "tied"),
        ("select rid from (select rid from t order by v) tablesample (50 percent) repeatable (3)", "Sort"),
    ],
)
def test_what_may_come_out_otherwise_is_refused(session: whence.Session, query: str, what: str) -> None:
    with pytest.raises(whence.NonDeterministic, match=what):
        print(session.backward(session.spark.sql(query)))


def test_limit_that_drops_nothing_needs_no_order(session: whence.Session) -> None:
    trace = session.backward(session.spark.sql("select rid from t where k = 2 limit 3"))
    assert {row.rid for row in trace["t"].collect()} == {3, 4, 6}


def test_limit_that_spark_leaves_out(session: whence.Session) -> None:
    """It knows that there are fewer rows; of the sort's partitions only the first one's were witnesses."""
    partitions = "spark.sql.shuffle.partitions"
    before = session.spark.conf.get(partitions)
    session.spark.conf.set(partitions, "4")
    try:
        kept = session.spark.range(8).orderBy("id").limit(20)
        assert kept.rdd.getNumPartitions() > 1, "Spark sorts into several partitions, and limits nothing"
        trace = session.backward(kept)
        assert sorted(row.id for row in trace["range"].collect()) == list(range(8))
        assert trace.exact
        assert trace.verify().ok
        ties = session.backward(session.spark.range(8).selectExpr("id", "id % 3 AS k").orderBy("k").limit(4))
        assert sorted(row.id for row in ties["range"].collect()) == [0, 1, 3, 4, 6, 7]
        assert not ties.exact
    finally:
        session.spark.conf.set(partitions, before)


def test_rows_tied_at_a_cut_are_all_counted_in(session: whence.Session) -> None:
    trace = session.backward(session.spark.sql("select v from t where k = 1 order by v limit 2"))
    assert {row.rid for row in trace["t"].collect()} == {0, 1, 2}
    assert not trace.exact
    assert "tie" in trace.notes[0]


def test_sessions_that_spark_merges_are_refused(session: whence.Session) -> None:
    """A row's own window is no group: Spark merges those that touch when it plans the query."""
    spark = session.spark
    keys = F.session_window(F.timestamp_seconds("v"), "6 seconds").alias("s")
    df = spark.table("t").where("v is not null").groupBy(keys).agg(F.count("*").alias("n"))
    assert sorted(row.n for row in df.collect()) == [1, 2, 4]
    for ask in (
        lambda: session.backward(df).witness_counts,
        lambda: session.forward(spark.table("t").where("rid = 0"), to=df).rows.collect(),
        lambda: str(session.why_not(spark.table("t").where("rid = 0"), to=df)),
    ):
        with pytest.raises(whence.UnsupportedOperator, match="sessions are merged"):
            ask()
    gaps = df.select("s.start").groupBy("start").count()  # groups of what was merged are none of these
    with pytest.raises(whence.UnsupportedOperator, match="sessions are merged"):
        _ = session.backward(gaps).witness_counts
