"""What one question has computed serves the next, and rows that IN and EXISTS keep are looked for from their own keys.

The answers are the same as without, which a plain computation in Python tells."""

from __future__ import annotations

import os
import shutil
from itertools import cycle
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import whence
from whence.spark.catalyst import Catalyst as Plans
from whence.sql import computed_before, evaluation, left_first

pytestmark = pytest.mark.usefixtures("tiny")
ITEMS = [(i, i % 7, None if i % 11 == 0 else i % 5) for i in range(60)]
THINGS = [(k, "abc"[k % 3]) for k in range(5)]
REPORT = "select name, k, count(*) as n from items join things using (k) group by name, k"


SCHEMAS = {"items": "id int, g int, k int", "things": "k int, name string"}


@pytest.fixture(scope="module")
def written(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("written")
    write(spark, home / "items", ITEMS, SCHEMAS["items"])
    write(spark, home / "things", THINGS, SCHEMAS["things"])
    return home


@pytest.fixture
def tables(spark: SparkSession, written: Path, tmp_path: Path) -> Path:
    """Files of its own for each test: some change them."""
    for name, schema in SCHEMAS.items():
        shutil.copytree(written / name, tmp_path / name)
        spark.read.schema(schema).parquet(str(tmp_path / name)).createOrReplaceTempView(name)
    return tmp_path


def write(spark: SparkSession, path: Path, rows: list[tuple[object, ...]], schema: str) -> None:
    spark.createDataFrame(rows, schema).coalesce(1).write.mode("overwrite").parquet(str(path))
    spark.read.parquet(str(path)).createOrReplaceTempView(path.name)


def ids(trace: whence.Trace, source: str = "items") -> set[int]:
    return {row.id for row in trace[source].collect()}


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What questions compute, one entry for each time."""
    made: list[object] = []
    keep = Plans.keep

    def noting(self: Plans, plan: object, *, many: bool = False) -> object:
        kept = keep(self, plan, many=many)
        made.append(plan)
        return kept

    def noting_first(self: Plans, plan: object, most: int) -> object:
        before = len(made)
        kept = first(self, plan, most)
        if len(made) == before:  # it was not for `keep` to compute
            made.append(plan)
        return kept

    first = Plans.first
    monkeypatch.setattr(Plans, "keep", noting)
    monkeypatch.setattr(Plans, "first", noting_first)
    return made


def of(name: str, items: list[tuple[int, int, int | None]] = ITEMS) -> set[int]:
    names = dict(THINGS)
    return {i for i, _, k in items if k is not None and names[k] == name}


def test_of_a_source_that_is_gone_nothing_is_told_though_its_rows_are_known(
    w: whence.Session, spark: SparkSession, tables: Path
) -> None:
    assert ids(w.backward(spark.sql(REPORT).where("name = 'a'"))) == of("a")
    asked = spark.sql(REPORT).where("name = 'b'")
    (file,) = (tables / "items").glob("*.parquet")
    file.unlink()
    with pytest.raises(whence.SourceChanged, match="gone"):
        w.backward(asked)


def test_the_files_that_a_query_reads_are_told_at_once(w: whence.Session, spark: SparkSession, tables: Path) -> None:
    c = w._plans()

    def listed(df: DataFrame) -> list[object] | None:
        found = c.listed_below(c.plan_of(df))
        assert found is None or found == [c.files_of(leaf) for leaf in c.file_leaves(c.plan_of(df))]
        return found

    assert len(listed(spark.sql("select * from items where k in (select k from things) union all select 1, 2, 3"))) == 2
    write(spark, tables / "more" / "items", [(60, 1, 1)], SCHEMAS["items"])
    spark.table("items").write.mode("append").parquet(str(tables / "more" / "items"))
    (files,) = listed(spark.read.parquet(str(tables / "more" / "items")))
    assert len(files) == 2
    assert listed(spark.range(3)) is None
    rows = spark.createDataFrame(spark.sparkContext.parallelize([(1, 2, 3)]), SCHEMAS["items"])
    assert listed(spark.read.parquet(str(tables / "items")).union(rows)) is None


@pytest.mark.parametrize("name", ["b", "c", "no such"])
def test_another_group_is_taken_from_what_is_known(
    w: whence.Session, spark: SparkSession, tables: Path, computed: list[object], name: str
) -> None:
    assert w.backward(spark.sql(REPORT).where("name = 'a'")).witness_counts["items"] == len(of("a"))
    before = len(computed)
    trace = w.backward(spark.sql(REPORT).where(f"name = '{name}'"))
    assert trace.witness_counts["items"] == len(of(name))
    assert ids(trace) == of(name)
    assert trace.verify()
    wide = next(one for one in w._plans().memory.recent if one.rows is not None)
    assert not any(wide.query.sameResult(plan) for plan in computed[before:])


def test_files_that_were_exchanged_are_read_again(w: whence.Session, spark: SparkSession, tables: Path) -> None:
    """Also by files of the same length and time."""

    def files() -> list[Path]:
        return sorted((tables / "items").glob("*.parquet"))

    (old,) = files()
    time = os.stat(old).st_mtime_ns
    assert ids(w.backward(spark.sql(REPORT).where("name = 'a'"))) == of("a")
    other = [(i, g, None if k is None else (k + 1) % 5) for i, g, k in ITEMS]
    write(spark, tables / "other", other, "id int, g int, k int")
    (new,) = sorted((tables / "other").glob("*.parquet"))
    old.unlink()
    for checksum in (tables / "items").glob(".*.crc"):
        checksum.unlink()
    os.rename(new, old)
    os.utime(old, ns=(time, time))
    spark.read.parquet(str(tables / "items")).createOrReplaceTempView("items")
    for name in "ab":
        assert ids(w.backward(spark.sql(REPORT).where(f"name = '{name}'"))) == of(name, other)


def test_rows_of_other_groups_on_which_an_expression_fails_do_no_harm(
    w: whence.Session, spark: SparkSession, tables: Path
) -> None:
    named = "select name, id, 60 div (id - 1) as x from items join things using (k)"  # fails on the row 1, of b
    df = spark.sql(f"select name, x, count(*) as n from ({named}) group by name, x").where("name = 'a'")
    assert sum(row.n for row in df.collect()) == len(of("a"))
    assert 1 in of("b")
    assert ids(w.backward(df)) == of("a")


def test_too_many_rows_are_not_computed_for_all_groups(
    w: whence.Session, spark: SparkSession, tables: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(computed_before, "WIDE_ROWS", 20)
    for name in "ab":
        trace = w.backward(spark.sql(REPORT).where(f"name = '{name}'"))
        assert ids(trace) == of(name)
        assert trace.verify()
    assert any(one.rows is None for one in w._plans().memory.recent)


def test_rows_that_spark_has_lost_are_computed_again(w: whence.Session, spark: SparkSession, tmp_path: Path) -> None:
    """As with an executor."""
    spark.range(4000).selectExpr("id", "id % 2 as g").write.parquet(str(tmp_path / "many"))
    many = spark.read.parquet(str(tmp_path / "many"))
    report = many.alias("a").join(many.alias("b"), "id").groupBy("a.g").count()
    assert w.backward(report.where("g = 0")).witness_counts == {"many": 2000}
    (wide,) = [one for one in w._plans().memory.recent if one.rows is not None and one.rows.total == 4000]
    assert wide.rows is not None
    assert not wide.rows.local
    wide.rows.plan.rdd().unpersist(True)
    assert w.backward(report.where("g = 1")).witness_counts == {"many": 2000}
    assert wide not in w._plans().memory.recent


def test_what_is_remembered_is_bounded(
    w: whence.Session, spark: SparkSession, tables: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(computed_before, "MOST_ROWS", 100)
    for number in range(5):
        df = spark.sql(REPORT.replace("join things", f"join (select *, {number} from things)"))
        assert ids(w.backward(df.where("name = 'a'"))) == of("a")
    assert 1 <= sum(one.rows.total for one in w._plans().memory.recent if one.rows is not None) <= 100


def test_a_subquery_that_every_row_compares_with_is_looked_through_once(
    w: whence.Session, spark: SparkSession, tables: Path, computed: list[object]
) -> None:
    query = "select g, count(*) as n from items where id > (select avg(id) from items where k = 1) group by g"
    average = sum(i for i, _, k in ITEMS if k == 1) / len([i for i, _, k in ITEMS if k == 1])
    inside = {i for i, _, k in ITEMS if k == 1}
    for g in (1, 2):
        trace = w.backward(spark.sql(query).where(f"g = {g}"))
        assert ids(trace) == inside | {i for i, at, _ in ITEMS if at == g and i > average}
    times = [sum(one.sameResult(other) for other in computed) for one in computed]
    assert max(times) == 1


# --- IN and EXISTS from the left side's keys

KEPT = {
    "in": ("id in (select id from items where k > 1)", lambda i, k: k is not None and k > 1),
    "exists": ("exists (select 1 from things t where t.k = l.k and t.name = 'b')", lambda i, k: k in (1, 4)),
    "not exists": (
        "not exists (select 1 from things t where t.k = l.k and t.name = 'b')",
        lambda i, k: k not in (1, 4),
    ),
    "not in": ("id not in (select id from items where k > 1)", lambda i, k: k is None or k <= 1),
    "not in with nulls": ("k not in (select k from items where id < 12)", lambda i, k: False),
    "another than itself": (
        "exists (select 1 from items o where o.k = l.k and o.id <> l.id and o.id < 9)",
        lambda i, k: any(other == k and k is not None and o != i and o < 9 for o, _, other in ITEMS),
    ),
    "both": (
        "id in (select id from items where k > 1) and "
        "not exists (select 1 from things t where t.k = l.k and t.name = 'b')",
        lambda i, k: k in (2, 3),
    ),
}


@pytest.fixture
def left(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What was found from the left side."""
    found: list[object] = []

    def noting(*args: object) -> object:
        plan = left_first.left_first(*args)  # type: ignore[arg-type]
        found.append(plan)
        return plan

    monkeypatch.setattr(evaluation, "left_first", noting)
    return found


@pytest.mark.parametrize(("kept", "g"), [*zip(KEPT, cycle((3, 5, 0))), ("not in", 5), ("another than itself", 5)])
def test_rows_that_others_keep_are_found_from_their_own_keys(
    w: whence.Session, spark: SparkSession, tables: Path, left: list[object], kept: str, g: int
) -> None:
    text, test = KEPT[kept]
    df = spark.sql(f"select l.id, l.g, l.k from items l where {text}").where(f"g = {g}")
    trace = w.backward(df)
    expected = {i for i, at, k in ITEMS if at == g and test(i, k)}
    assert {row.id for row in df.collect()} == expected
    own = {row.id for row in first_reading(trace).collect()}
    assert own == expected
    assert [one for one in left if one is not None] or not expected
    assert trace.verify()


def first_reading(trace: whence.Trace) -> DataFrame:
    return min((one for one in trace.readings if one.source == "items"), key=lambda one: one.number).rows


@pytest.mark.parametrize("kept", KEPT)
def test_groups_of_rows_that_others_keep(w: whence.Session, spark: SparkSession, tables: Path, kept: str) -> None:
    """The rows of a group that a LIMIT has kept are looked up by its key."""
    text, test = KEPT[kept]
    query = (
        f"select l.g, count(*) as n, max(l.id) as top from items l where {text} group by l.g order by top desc limit 3"
    )
    for row in spark.sql(query).collect()[::2]:
        trace = w.backward(spark.sql(query).where(F.col("g") == row.g))
        own = {row.id for row in first_reading(trace).collect()}
        assert own == {i for i, at, k in ITEMS if at == row.g and test(i, k)}
        assert trace.verify()


def test_many_rows_on_the_left_side_are_not_computed_first(
    w: whence.Session, spark: SparkSession, tables: Path, left: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(left_first, "_ROWS", 2)
    trace = w.backward(
        spark.sql("select id, g from items where id in (select id from items where k > 1)").where("g = 3")
    )
    assert {row.id for row in first_reading(trace).collect()} == {i for i, g, k in ITEMS if g == 3 and (k or 0) > 1}
    assert left == [None]


@pytest.mark.parametrize("kept", ["in", "not in"])
def test_rows_that_others_keep_and_a_window_numbers(
    w: whence.Session, spark: SparkSession, tables: Path, left: list[object], kept: str
) -> None:
    """They are numbered among all that are kept, so that none of them are computed first."""
    text, test = KEPT[kept]
    rows = f"select l.id, l.g, l.k from items l where {text}"
    frame = "partition by g order by id rows between 1 preceding and current row"
    query = f"select g, id, count(*) over ({frame}) n from ({rows})"
    kept_ids = sorted(i for i, g, k in ITEMS if g == 3 and test(i, k))
    assert len(kept_ids) > 1
    trace = w.backward(spark.sql(query).where(f"g = 3 and id = {kept_ids[-1]}"))
    assert {row.id for row in first_reading(trace).collect()} == set(kept_ids[-2:])
    assert trace.verify()
    assert not [one for one in left if one is not None]


@pytest.mark.parametrize("kept", ["in", "exists", "another than itself"])
def test_what_the_rows_find_on_the_right_side_is_computed_once(
    w: whence.Session, spark: SparkSession, tables: Path, computed: list[object], kept: str
) -> None:
    """It decides whether they are kept, and they come from it."""
    text, test = KEPT[kept]
    trace = w.backward(spark.sql(f"select l.id, l.g, l.k from items l where {text}").where("g = 5"))
    expected = {i for i, at, k in ITEMS if at == 5 and test(i, k)}
    assert {row.id for row in first_reading(trace).collect()} == expected
    assert sum(trace.witness_counts.values()) >= len(expected)
    scans = [one for one in computed if "Relation" in one.toString() and "parquet" in one.toString()]  # type: ignore[attr-defined]
    assert len(scans) == 2  # the left side, and what it finds


# --- reports that a LIMIT cuts

TOP = "select name, k, count(*) as n, sum(id) as ids from items join things using (k) group by name, k"
FIRST = f"{TOP} order by ids desc, k limit 3"


def sums() -> dict[int, int]:
    return {k: sum(i for i, _, of in ITEMS if of == k) for k, _ in THINGS}


def first_three() -> list[int]:
    return sorted(sums(), key=lambda k: (-sums()[k], k))[:3]


@pytest.mark.parametrize("rows", [computed_before.WIDE_ROWS, 1])
def test_the_groups_that_a_limit_keeps_are_made_of_rows_that_are_kept_for_the_question(
    w: whence.Session,
    spark: SparkSession,
    tables: Path,
    computed: list[object],
    monkeypatch: pytest.MonkeyPatch,
    rows: int,
) -> None:
    """Also where they are too many to be kept."""
    monkeypatch.setattr(computed_before, "WIDE_ROWS", rows)
    numbers = []
    for k in first_three()[: 3 if rows > 1 else 1]:
        trace = w.backward(spark.sql(FIRST).where(f"k = {k}"))
        assert ids(trace) == {i for i, _, of in ITEMS if of == k}
        assert {row.k for row in trace["things"].collect()} == {k}
        assert trace.exact
        assert trace.verify()
        read = [one for one in computed if "parquet" in one.toString()]  # type: ignore[attr-defined]
        numbers.append(len(read))
    others = {k for k, _ in THINGS} - set(first_three())
    for k in others:
        assert sum(w.backward(spark.sql(FIRST).where(f"k = {k}")).witness_counts.values()) == 0
    if rows > 1:
        assert numbers == [1, 1, 1]  # the join was computed once, for all three


def test_rows_touch_what_a_limit_keeps(w: whence.Session, spark: SparkSession, tables: Path) -> None:
    for i, _, k in ITEMS[:6]:
        touched = w.forward(spark.table("items").where(f"id = {i}"), to=spark.sql(FIRST)).rows.collect()
        assert [row.k for row in touched] == ([k] if k in first_three() else [])


def test_a_limit_over_a_having_and_a_union_of_reports(w: whence.Session, spark: SparkSession, tables: Path) -> None:
    """Each branch has rows of its own that are kept; a condition on the groups changes none of that."""
    query = (
        f"select * from ({TOP} having count(*) > 9 union all {TOP.replace('sum(id)', '-sum(id)')}) "
        "order by ids desc, k limit 4"
    )
    for row in spark.sql(query).collect()[::3]:
        trace = w.backward(spark.sql(query).where(f"k = {row.k} and ids = {row.ids}"))
        assert ids(trace) == {i for i, _, of in ITEMS if of == row.k}
        assert trace.verify()


@pytest.mark.parametrize("outer", [False, True])
@pytest.mark.parametrize("many", [False, True])
def test_rows_that_others_keep_are_touched_by_what_they_find(
    w: whence.Session, spark: SparkSession, tables: Path, outer: bool, many: bool
) -> None:
    """Also on the side of an outer join that may be missing, where rows must not come in that found nothing."""
    kept = "select l.id, l.g, l.k from items l where exists (select 1 from things t where t.k = l.k and t.name <> 'c')"
    query = f"select o.id, i.g from (select id from items) o left join ({kept}) i on o.id = i.id" if outer else kept
    seeds = "name in ('a', 'c')" if many else "k = 1"
    touched = w.forward(spark.table("things").where(seeds), to=spark.sql(query))
    assert {row.id for row in touched.rows.collect()} == {i for i, _, k in ITEMS if k in ((0, 3) if many else (1,))}
    assert touched.verify()


def test_a_report_of_one_row_is_computed_once_for_all_that_touches_it(
    w: whence.Session, spark: SparkSession, tables: Path, computed: list[object]
) -> None:
    query = "select sum(id) + 1 as x from items where g < 3"
    expected = sum(i for i, g, _ in ITEMS if g < 3) + 1
    for i, g, _ in ITEMS[:4]:
        touched = w.forward(spark.table("items").where(f"id = {i}"), to=spark.sql(query)).rows
        assert [row.x for row in touched.collect()] == ([expected] if g < 3 else [])
    sums = [one for one in computed if "sum(" in one.toString() and "false" not in one.toString()]  # type: ignore[attr-defined]
    assert len(sums) == 1
    write(spark, tables / "items", [(i + 1, g, k) for i, g, k in ITEMS], "id int, g int, k int")
    (row,) = w.forward(spark.table("items").where("id = 1"), to=spark.sql(query)).rows.collect()
    assert row.x == expected + len([g for _, g, _ in ITEMS if g < 3])


def test_nothing_is_computed_before_the_touched_rows_are_asked_for(
    w: whence.Session, spark: SparkSession, tables: Path, computed: list[object]
) -> None:
    trace = w.forward(spark.table("items").where("id = 1"), to=spark.sql("select sum(id) as x, 1 as y from items"))
    assert trace.exact
    assert not [one for one in computed if "sum(" in one.toString()]  # type: ignore[attr-defined]
    assert [tuple(row) for row in trace.rows.collect()] == [(sum(i for i, _, _ in ITEMS), 1)]


def test_the_rows_that_a_question_starts_from_are_looked_for_once(
    w: whence.Session, spark: SparkSession, tables: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    looked_for = computed_before._Reads

    def noting(*args: object) -> object:
        asked.append(len(w._plans().memory.few))
        return looked_for(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(computed_before, "_Reads", noting)
    k = first_three()[0]
    seed = f"id = {next(i for i, _, of in ITEMS if of == k)}"
    for _ in range(3):
        touched = w.forward(spark.table("items").where(seed), to=spark.sql(FIRST)).rows.collect()
        assert [row.k for row in touched] == [k]
    assert asked
    assert len(w._plans().memory.few) == 1
    write(spark, tables / "items", [(i, g, None) for i, g, _ in ITEMS], "id int, g int, k int")
    assert w.forward(spark.table("items").where(seed), to=spark.sql(FIRST)).rows.collect() == []


@pytest.mark.parametrize(
    "text", ["select sum(id) as x from many where g < 3", "select k, sum(id) as x from many group by k"]
)
def test_what_a_proof_runs_again_is_read_once(w: whence.Session, spark: SparkSession, tables: Path, text: str) -> None:
    """Witnesses that are a choice among the rows of one source, more than the driver keeps: Spark sees that both sides
    read the same."""
    write(spark, tables / "many", [(i, i % 7, i % 2) for i in range(5000)], "id int, g int, k int")
    query = spark.sql(text)
    asked = query if "k" not in query.columns else query.where("k = 1")
    trace = w.backward(asked)
    assert trace.verify()
    both = asked.unionAll(trace.replay())
    rows = both.collect()
    assert len(rows) == 2
    assert rows[0] == rows[1]
    assert "Reused" in both._jdf.queryExecution().executedPlan().toString()
