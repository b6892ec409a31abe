"""Recursive queries against an oracle that walks the graph; operators that only pass rows on."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pyspark
import pytest
from pyspark.sql import Observation, SparkSession
from pyspark.sql import functions as F

import whence
from whence.sql.recursion import MOST_ROUNDS

pytestmark = pytest.mark.usefixtures("tiny")

RELEASE = tuple(int(part) for part in pyspark.__version__.split(".")[:2])
recursive = pytest.mark.skipif(RELEASE < (4, 1), reason="WITH RECURSIVE came with Spark 4.1")

NODES = 7
REACHED = """
with recursive r(n, hops) as (
  select dst, 1 from rec_edge where src = 0
  union all
  select e.dst, hops + 1 from rec_edge e join r on e.src = r.n
) select n, hops from r"""


@pytest.fixture(scope="module")
def edges() -> list[tuple[int, int, int]]:
    some = random.Random(5)
    pairs = [(0, 1), *[(a, b) for a in range(NODES) for b in range(a + 1, NODES) if some.random() < 0.4]]
    pairs.append(pairs[1])  # equal rows are two ways
    return [(i, *pair) for i, pair in enumerate(pairs)]


@pytest.fixture(scope="module")
def session(
    spark: SparkSession, edges: list[tuple[int, int, int]], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[whence.Session]:
    home = tmp_path_factory.mktemp("recursion")
    spark.createDataFrame(edges, "id int, src int, dst int").coalesce(1).write.parquet(str(home / "edge"))
    spark.read.parquet(str(home / "edge")).createOrReplaceTempView("rec_edge")
    with whence.attach(spark, store=home / "store") as w:
        yield w


def walks(edges: list[tuple[int, int, int]], at: int = 0) -> Iterator[tuple[tuple[int, int, int], ...]]:
    """Every way from a node on, edge by edge, as the recursion goes."""
    for edge in edges:
        if edge[1] == at:
            yield (edge,)
            yield from ((edge, *rest) for rest in walks(edges, edge[2]))


@recursive
def test_a_recursion_that_counts_up_ends(session: whence.Session, edges: list[tuple[int, int, int]]) -> None:
    """Its rounds were counted on the first one's rows, and never ended."""
    counted = session.spark.sql(
        "with recursive r(n) as (select min(src) from rec_edge union all select n + 1 from r where n < 3) "
        "select n from r"
    )
    trace = session.backward(counted.where("n = 2"))
    assert trace["rec_edge"].count() == len(edges)
    assert trace.exact
    assert [row.n for row in trace.replay().collect()] == [2]


@recursive
def test_every_row_of_a_recursion_comes_from_the_ways_to_it(
    session: whence.Session, edges: list[tuple[int, int, int]]
) -> None:
    reached = session.spark.sql(REACHED)
    ways = list(walks(edges))
    assert sorted(map(tuple, reached.collect())) == sorted((way[-1][2], len(way)) for way in ways)
    trace = session.backward(reached)
    rows = {row[0]: (row.n, row.hops) for row in trace.outputs().collect()}
    found: dict[int, set[int]] = {}
    for _, frame in trace.witnesses_per_output():
        for row in frame.select("output", "id").collect():
            found.setdefault(row.output, set()).add(row.id)
    wanted = sorted((way[-1][2], len(way), sorted(edge[0] for edge in way)) for way in ways)
    assert sorted((*rows[output], sorted(ids)) for output, ids in found.items()) == wanted
    assert trace.exact
    assert trace.verify().ok


@recursive
def test_forward_and_without_its_witnesses(session: whence.Session, edges: list[tuple[int, int, int]]) -> None:
    reached = session.spark.sql(REACHED)
    ways = list(walks(edges))
    one = next(edge for edge in edges if edge[1] == 1)
    assert any(one in way for way in ways)
    touched = session.forward(session.spark.table("rec_edge").where(f"id = {one[0]}"), to=reached).rows
    assert sorted(map(tuple, touched.collect())) == sorted((way[-1][2], len(way)) for way in ways if one in way)
    asked = max((way for way in ways), key=len)
    trace = session.backward(reached.where(f"n = {asked[-1][2]} and hops = {len(asked)}"))
    gone = {edge for way in ways if (way[-1][2], len(way)) == (asked[-1][2], len(asked)) for edge in way}
    left = [edge for edge in edges if edge not in gone]
    assert sorted(map(tuple, trace.exclude(reached).collect())) == sorted((w[-1][2], len(w)) for w in walks(left))


@recursive
def test_a_recursion_that_reads_nothing_only_counts(session: whence.Session) -> None:
    series = "with recursive r(n) as (select 1 union all select n + 1 from r where n < 40)"
    trace = session.backward(session.spark.sql(f"{series} select id from rec_edge join r on id = n where id = 2"))
    assert [row.id for row in trace["rec_edge"].collect()] == [2]
    assert set(trace.sources) == {"rec_edge"}
    assert trace.verify().ok


@recursive
def test_too_many_rounds_are_refused(session: whence.Session) -> None:
    start = "select src - src from rec_edge where id = 0"
    long = f"with recursive r(n) as ({start} union all select n + 1 from r where n < 30) select n from r"
    with pytest.raises(whence.WhenceError, match=f"more than {MOST_ROUNDS} rounds"):
        session.backward(session.spark.sql(long))


@pytest.mark.skipif(RELEASE < (4, 0), reason="pipes came with Spark 4.0")
def test_pipes(session: whence.Session, edges: list[tuple[int, int, int]]) -> None:
    piped = "from rec_edge |> where dst > 2 |> aggregate count(*) as c group by src |> where src = 1"
    trace = session.backward(session.spark.sql(piped))
    assert {row.id for row in trace["rec_edge"].collect()} == {i for i, a, b in edges if b > 2 and a == 1}
    assert trace.verify().ok
    assert "PipeOperator" not in str(trace)


@pytest.mark.skipif(RELEASE < (4, 0), reason="functions written in SQL came with Spark 4.0")
def test_functions_written_in_sql(session: whence.Session, edges: list[tuple[int, int, int]]) -> None:
    spark = session.spark
    spark.sql("create or replace temporary function rec_twice(x int) returns int return 2 * x")
    inside = "select id, src from rec_edge where dst > least"
    spark.sql(
        f"create or replace temporary function rec_over(least int) returns table (id int, src int) return {inside}"
    )
    try:
        trace = session.backward(
            spark.sql("select src, count(*) c from rec_over(2) where rec_twice(src) = 2 group by src")
        )
        assert {row.id for row in trace["rec_edge"].collect()} == {i for i, a, b in edges if b > 2 and a == 1}
        assert trace.verify().ok
        assert "SQLFunctionNode" not in str(trace)
    finally:
        spark.sql("drop temporary function rec_twice")
        spark.sql("drop temporary function rec_over")


def test_a_question_reports_nothing_to_an_observation(
    session: whence.Session, edges: list[tuple[int, int, int]]
) -> None:
    seen = Observation("rows")
    observed = session.spark.table("rec_edge").observe(seen, F.count(F.lit(1)).alias("n"))
    trace = session.backward(observed.where("id = 2"))
    assert [row.id for row in trace["rec_edge"].collect()] == [2]
    assert trace.verify().ok
    assert "CollectMetrics" not in str(trace)
    assert not seen._jo.future().isCompleted(), "a question was the first run that reported"
    assert observed.where("id >= 0").count() == len(edges)
    assert seen.get == {"n": len(edges)}


def test_numbered_rows_are_known_where_they_were_captured(
    session: whence.Session, edges: list[tuple[int, int, int]]
) -> None:
    """The default index of pandas on Spark, as `zipWithIndex`, depends on the order in which rows arrive."""
    spread = session.spark.table("rec_edge").repartition(3)
    if not hasattr(spread, "zipWithIndex"):
        pytest.skip("this release of Spark has no zipWithIndex for DataFrames")
    numbered = spread.zipWithIndex()
    with pytest.raises(whence.NonDeterministic, match="in the order in which they arrive"):
        session.backward(numbered.where("index = 1"))
    with session.capture():
        rows = numbered.collect()
    some = rows[len(rows) // 2]
    trace = session.backward(numbered.where(f"index = {some['index']}"))
    assert [row.id for row in trace["rec_edge"].collect()] == [some.id]
    assert trace.exact
    assert trace.verify().ok
