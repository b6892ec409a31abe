"""Rows of sources without an order are told by what they hold: whatever differs is told apart, whatever its type."""

from __future__ import annotations

from collections import defaultdict
from functools import reduce

import pytest
from pyspark.ml.linalg import Vectors
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import whence
from releases import RELEASE, case, since
from whence.sql import Catalyst

# Values of one type, all of which are different.
DIFFERENT = {
    "an array": "array(1); array(1, null); array(null, 1); array(null); array(); null",
    "arrays in arrays": "array(array(1), array(2)); array(array(1, 2)); array(array(1, 2), array()); "
    "array(array(), array(1, 2)); array(null, array(1, 2))",
    "a struct": "named_struct('a', null, 'b', 1); named_struct('a', 1, 'b', null); "
    "named_struct('a', null, 'b', null); null",
    "structs in an array": "array(named_struct('a', null, 'b', 1)); array(named_struct('a', 1, 'b', null)); "
    "array(null, named_struct('a', 1, 'b', null))",
    "a text": "''; null; ' '; 'null'",
    "texts in an array": "array('a', 'b'); array('ab'); array('ab', ''); array('', 'ab'); array('a, b')",
    "a map": "map('a', null); map(); map('a', 1); map('b', 1); map('a', 1, 'b', 2); map('a', 2, 'b', 1); null",
    "maps in a map": "map(1, map('a', null)); map(1, map()); map(1, null); map()",
    "a variant": "parse_json('1'); parse_json('\"1\"'); parse_json('{\"a\": null}'); parse_json('{}'); "
    "parse_json('[1]'); parse_json('[1, null]'); parse_json('null'); null; to_variant_object(array(date'2020-01-01')); "
    "parse_json('[\"2020-01-01\"]')",
    "variants in an array": "array(parse_json('1')); array(parse_json('1'), null); "
    "array(parse_json('1'), parse_json('null'))",
    "bytes": "X''; X'00'; X'0000'; null",
    "a number with a point": "double('NaN'); 0.0D; -0.0D; null; double('Infinity'); 1.5D",
    "numbers with a point in an array": "array(0.0F); array(-0.0F); array(float('NaN'))",
    "a text with a collation": "'a' collate UTF8_LCASE; 'A' collate UTF8_LCASE; null",
    "texts with a collation in a struct": "named_struct('x', 'a' collate UNICODE_CI); "
    "named_struct('x', 'A' collate UNICODE_CI)",
    "months and years": "interval '1' month; interval '2' month; null",
    "days": "interval '1' day; interval '2' day; null",
    "a calendar interval": "make_interval(0, 1); make_interval(0, 0, 0, 30); null",
    "a huge decimal": "cast('99999999999999999999999999999999999999' as decimal(38, 0)); "
    "cast('99999999999999999999999999999999999998' as decimal(38, 0)); cast(0 as decimal(38, 0)); null",
    "a date": "make_date(12000, 1, 1); make_date(-1, 1, 1); date'2020-01-01'; null",
}
if RELEASE < (4, 0):  # which has neither variants nor collations
    DIFFERENT = {n: v for n, v in DIFFERENT.items() if "parse_json" not in v and "collate" not in v}
# Of each pair, how often Spark's GROUP BY counts them: once or twice.
GROUPED = {
    "zeros": ("0.0D; -0.0D", 1),
    "texts": ("'a' collate UTF8_LCASE; 'A' collate UTF8_LCASE", 1),
    "texts in an array": ("array('a' collate UTF8_LCASE); array('A' collate UTF8_LCASE)", 1),
    "arrays": ("array(1); array(1, null)", 2),
}


if RELEASE < (4, 0):
    GROUPED = {name: (values, count) for name, (values, count) in GROUPED.items() if "collate" not in values}


def values_of(spark: SparkSession, values: str) -> DataFrame:
    return reduce(DataFrame.unionAll, [spark.sql(f"select {value} as v") for value in values.split("; ")])


def without_order(df: DataFrame) -> DataFrame:
    """The same rows after a shuffle and a checkpoint: Spark promises no order of them."""
    return df.repartition(2).localCheckpoint()


def test_what_differs_is_told_apart(tiny: SparkSession) -> None:
    c = Catalyst(tiny)
    hashed = []
    for name, values in DIFFERENT.items():
        plan = c.plan_of(values_of(tiny, values))
        hashes = [c.alias(h, f"h{i}") for i, h in enumerate(c.content_hashes(c.output(plan)))]
        hashed.append(c.frame(c.project(hashes, plan)).withColumn("name", F.lit(name)))
    found = defaultdict(list)
    for row in reduce(DataFrame.unionAll, hashed).collect():
        found[row.name].append((row.h0, row.h1))
    for name, values in DIFFERENT.items():
        assert len(found[name]) == len(values.split("; ")), name
        assert len(set(found[name])) == len(found[name]), name


def test_groups_are_told_as_spark_groups(tiny: SparkSession) -> None:
    c = Catalyst(tiny)
    for values, groups in GROUPED.values():
        df = values_of(tiny, values)
        plan = c.plan_of(df)
        hashes = [c.alias(h, f"h{i}") for i, h in enumerate(c.group_hashes(c.output(plan)))]
        assert df.groupBy("v").count().count() == groups
        assert c.frame(c.project(hashes, plan)).distinct().count() == groups


def test_the_order_of_a_maps_entries_does_not_count(tiny: SparkSession) -> None:
    c = Catalyst(tiny)
    plan = c.plan_of(values_of(tiny, "map('a', 1, 'b', 2); map('b', 2, 'a', 1)"))
    hashes = [c.alias(h, f"h{i}") for i, h in enumerate(c.content_hashes(c.output(plan)))]
    assert c.frame(c.project(hashes, plan)).distinct().count() == 1


@pytest.mark.parametrize(
    ("values", "one"),
    [
        ("array(1); array(1, null); array(null, 1)", "size(v) = 1"),
        ("map('a', 1); map('a', null); map()", "v['a'] = 1"),
        case("4.0", "variants", "parse_json('1'); parse_json('\"1\"')", "schema_of_variant(v) = 'BIGINT'"),
    ],
)
def test_one_row_of_a_source_without_order(tiny: SparkSession, w: whence.Session, values: str, one: str) -> None:
    rows = without_order(values_of(tiny, values))
    t = w.backward(rows.where(one))
    assert t.exact
    assert t["dataframe"].count() == 1
    assert t.exclude(rows).count() == rows.count() - 1
    assert t.exclude(rows).where(one).count() == 0


def test_user_defined_types(tiny: SparkSession, w: whence.Session) -> None:
    rows = without_order(tiny.createDataFrame([(Vectors.dense(1.0, 2.0),), (Vectors.sparse(2, [0], [1.0]),)], ["v"]))
    t = w.backward(rows)
    assert t.associations().select("record").distinct().count() == 2
    assert t["dataframe"].count() == 2


def test_a_type_that_cannot_be_told_is_refused_by_name(tiny: SparkSession, w: whence.Session) -> None:
    if not tiny.catalog.functionExists("st_geomfromwkb"):
        pytest.skip(f"Spark {tiny.version} has no type that whence cannot compare")
    tiny.conf.set("spark.sql.geospatial.enabled", "true")  # 4.1 has it switched off
    try:
        rows = without_order(tiny.sql("select st_geomfromwkb(X'0101000000000000000000F03F0000000000000040') as place"))
        with pytest.raises(whence.WhenceError, match="geometry"):
            w.backward(rows)
    finally:
        tiny.conf.unset("spark.sql.geospatial.enabled")


@since("4.0", "SQL scripts")
def test_the_result_of_a_script(tiny: SparkSession, w: whence.Session) -> None:
    """Spark runs it at once and gives rows; which query they are of is not in them."""
    pandas = pytest.importorskip("pandas")
    tiny.conf.set("spark.sql.scripting.enabled", "true")
    script = "BEGIN DECLARE least INT; SET least = 2; SELECT id FROM range(4) WHERE id >= least; END"
    trace = w.backward(tiny.sql(script).where("id = 3"))
    assert [tuple(row) for row in trace["dataframe"].collect()] == [(3,)]
    (note,) = trace.ended
    assert note.startswith("the trace ends at dataframe: its rows were computed when Spark made it")
    # Rows that the user gave are a source like any other.
    arrow = "spark.sql.execution.arrow.pyspark.enabled"
    tiny.conf.set(arrow, "true")
    for given in (
        tiny.createDataFrame(pandas.DataFrame({"id": [3]})),
        tiny.createDataFrame([(3,)], "id int"),
        tiny.sql("SELECT * FROM VALUES (3), (4) AS given(id)").where("id = 3"),
    ):
        assert w.backward(given).notes == ()
    tiny.conf.unset(arrow)
