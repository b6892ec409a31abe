"""Forward from rows that a condition picks: the condition itself goes to the scan; the rows need not be found first."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import whence
from whence.sql import forward

pytestmark = pytest.mark.usefixtures("tiny")

ITEMS = [(i, i % 7, None if i % 11 == 0 else i % 5) for i in range(40)]
THINGS = [(k, "abc"[k % 3]) for k in range(7)]

# Of queries: whether a row of the result, as a tuple, comes from an item of these ids.
TARGETS = {
    "rows": ("select id, g from items where k > 1", lambda row, ids: row[0] in ids),
    "groups": (
        "select g, count(*) as n from items where k is not null group by g",
        lambda row, ids: any(g == row[0] and k is not None for i, g, k in ITEMS if i in ids),
    ),
    "all": (
        "select count(*) as n from items where k > 2",
        lambda row, ids: any(k is not None and k > 2 for i, _, k in ITEMS if i in ids),
    ),
    "preserved": ("select id, name from items left join things using (k)", lambda row, ids: row[0] in ids),
    "may miss": (
        "select name, id from things left join items on things.k = items.k and items.g = 3",
        lambda row, ids: row[1] in ids,
    ),
    "full": ("select id, name from items full join things using (k)", lambda row, ids: row[0] in ids),
    "twice": (
        "select a.id as x, b.id as y from items a join items b on a.id + 7 = b.id",
        lambda row, ids: row[0] in ids or row[1] in ids,
    ),
    "both branches": (
        "select id, 'l' as side from items where k > 1 union all select id, 'r' from items where k < 3",
        lambda row, ids: row[0] in ids,
    ),
    "kept by others": (
        "select id from items l where exists (select 1 from items r where r.g = l.g and r.id > l.id)",
        lambda row, ids: row[0] in ids or any(g == ITEMS[row[0]][1] and i > row[0] for i, g, _ in ITEMS if i in ids),
    ),
    "the first": ("select id, g from items order by id desc limit 5", lambda row, ids: row[0] in ids),
}
SEEDS = {
    "one": ("id = 38", {38}),
    "some": ("g = 3 and id > 9", {i for i, g, _ in ITEMS if g == 3 and i > 9}),
    "none": ("id = 7 and g = 1", set()),
    "of no column alone": ("id % 10 = 8", {8, 18, 28, 38}),
}


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("picked")
    for name, rows, schema in (("items", ITEMS, "id int, g int, k int"), ("things", THINGS, "k int, name string")):
        spark.createDataFrame(rows, schema).repartition(2).write.parquet(str(home / name))
    return home


@pytest.fixture
def items(spark: SparkSession, tables: Path) -> DataFrame:
    for name in ("items", "things"):
        spark.read.parquet(str(tables / name)).createOrReplaceTempView(name)
    return spark.table("items")


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The times that seeds were found before what they touch."""
    times: list[object] = []
    few_rows = forward._few_rows

    def noting(*args: object) -> object:
        times.append(args)
        return few_rows(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(forward, "_few_rows", noting)
    return times


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("seeds", SEEDS)
def test_what_a_condition_picks_touches_what_its_rows_touch(
    w: whence.Session, items: DataFrame, spark: SparkSession, found: list[object], target: str, seeds: str
) -> None:
    text, touches = TARGETS[target]
    condition, ids = SEEDS[seeds]
    rows = [tuple(row) for row in w.forward(items.where(condition), to=spark.sql(text)).rows.collect()]
    assert sorted(map(str, rows)) == sorted(str(tuple(row)) for row in spark.sql(text).collect() if touches(row, ids))
    needed = target in ("twice", "both branches", "kept by others") or seeds == "of no column alone"
    if target != "the first":  # where a LIMIT comes in between, rows are told by their identities
        assert bool(found) == needed


def test_rows_of_other_files_are_no_seeds(
    w: whence.Session, items: DataFrame, tables: Path, spark: SparkSession
) -> None:
    """The condition would pick rows of all the files that the result reads."""
    part = str(sorted((tables / "items").glob("*.parquet"))[0])
    here = {row.id for row in spark.read.parquet(part).where("g = 3").collect()}
    assert {i for i, g, _ in ITEMS if g == 3} > here
    seeds = spark.read.option("basePath", str(tables / "items")).parquet(part).where("g = 3")
    touched = w.forward(seeds, to=spark.sql("select id, g from items")).rows.collect()
    assert {row.id for row in touched} == here


def test_what_was_touched_is_traced_back(w: whence.Session, items: DataFrame, spark: SparkSession) -> None:
    trace = w.forward(items.where("id = 9"), to=spark.sql("select g, count(*) as n from items group by g"))
    assert {row.id for row in trace["items"].collect()} == {i for i, g, _ in ITEMS if g == 2}
    assert trace.verify()
