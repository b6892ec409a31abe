# ruff: noqa: E501 - rows of data read best as rows
"""Column lineage with OpenLineage's transformation types: the query, and the edges that must follow, side by side."""

from __future__ import annotations

import pytest
from cases import clean, short

import whence
from releases import case, has

SETUP = [
    "CREATE TABLE t1 (id INT, name STRING, amount DOUBLE, s STRUCT<a: INT, b: STRING>, tags ARRAY<STRING>) USING parquet",
    "CREATE TABLE t2 (id INT, city STRING) USING parquet",
]

# query: {target column: {source column: subtypes}}; "*" reaches every column
CASES: dict[str, tuple[str, dict[str, dict[str, str]]]] = {
    "identity and star": ("SELECT * FROM t2", {"id": {"t2.id": "IDENTITY"}, "city": {"t2.city": "IDENTITY"}}),
    "transformation": (
        "SELECT id + 1 AS next, upper(name) AS name FROM t1",
        {"next": {"t1.id": "TRANSFORMATION"}, "name": {"t1.name": "TRANSFORMATION"}},
    ),
    "aggregation and group by": (
        "SELECT name, sum(amount) AS total FROM t1 GROUP BY name",
        {"name": {"t1.name": "IDENTITY"}, "total": {"t1.amount": "AGGREGATION"}, "*": {"t1.name": "GROUP_BY"}},
    ),
    "count masks": (
        "SELECT count(name) AS n FROM t1",
        {"n": {"t1.name": "AGGREGATION masked"}},
    ),
    "filter reaches every column": (
        "SELECT id, city FROM t2 WHERE city LIKE 'B%'",
        {"id": {"t2.id": "IDENTITY"}, "city": {"t2.city": "IDENTITY"}, "*": {"t2.city": "FILTER"}},
    ),
    "join": (
        "SELECT t1.name, t2.city FROM t1 JOIN t2 ON t1.id = t2.id",
        {
            "name": {"t1.name": "IDENTITY"},
            "city": {"t2.city": "IDENTITY"},
            "*": {"t1.id": "JOIN", "t2.id": "JOIN"},
        },
    ),
    "sort": (
        "SELECT city FROM t2 ORDER BY id",
        {"city": {"t2.city": "IDENTITY"}, "*": {"t2.id": "SORT"}},
    ),
    "distinct is a group by": (
        "SELECT DISTINCT city FROM t2",
        {"city": {"t2.city": "IDENTITY"}, "*": {"t2.city": "GROUP_BY"}},
    ),
    "case": (
        "SELECT CASE WHEN id > 1 THEN name ELSE 'x' END AS c FROM t1",
        {"c": {"t1.id": "CONDITIONAL", "t1.name": "TRANSFORMATION"}},
    ),
    "if": (
        "SELECT if(amount > 0, name, NULL) AS c FROM t1",
        {"c": {"t1.amount": "CONDITIONAL", "t1.name": "TRANSFORMATION"}},
    ),
    "coalesce": (
        "SELECT coalesce(name, s.b) AS c FROM t1",
        {"c": {"t1.name": "CONDITIONAL TRANSFORMATION", "t1.s.b": "TRANSFORMATION"}},
    ),
    "nullif": (
        "SELECT nullif(name, s.b) AS c FROM t1",
        {"c": {"t1.name": "CONDITIONAL TRANSFORMATION", "t1.s.b": "CONDITIONAL"}},
    ),
    "nvl and nvl2": (
        "SELECT nvl(name, s.b) AS c, nvl2(id, name, s.b) AS d FROM t1",
        {
            "c": {"t1.name": "CONDITIONAL TRANSFORMATION", "t1.s.b": "TRANSFORMATION"},
            "d": {"t1.id": "CONDITIONAL", "t1.name": "TRANSFORMATION", "t1.s.b": "TRANSFORMATION"},
        },
    ),
    "nullifzero": ("SELECT nullifzero(amount) AS c FROM t1", {"c": {"t1.amount": "CONDITIONAL TRANSFORMATION"}}),
    "between": (
        "SELECT amount BETWEEN id AND 5 AS b FROM t1",
        {"b": {"t1.amount": "TRANSFORMATION", "t1.id": "TRANSFORMATION"}},
    ),
    "EXISTS (SELECT *)": (
        "SELECT name FROM t1 WHERE EXISTS (SELECT * FROM t2 WHERE t2.id = t1.id)",
        {"name": {"t1.name": "IDENTITY"}, "*": {"t1.id": "FILTER", "t2.id": "FILTER"}},
    ),
    "NOT EXISTS over a group": (
        "SELECT name FROM t1 WHERE NOT EXISTS (SELECT max(city) FROM t2 GROUP BY id)",
        {"name": {"t1.name": "IDENTITY"}, "*": {"t2.id": "FILTER"}},
    ),
    "window": (
        "SELECT sum(amount) OVER (PARTITION BY name ORDER BY id) AS running FROM t1",
        {"running": {"t1.amount": "AGGREGATION", "t1.name": "WINDOW", "t1.id": "WINDOW"}},
    ),
    "rank": (
        "SELECT rank() OVER (ORDER BY amount) AS place FROM t1",
        {"place": {"t1.amount": "WINDOW"}},
    ),
    "lag": (
        "SELECT lag(amount) OVER (ORDER BY id) AS before FROM t1",
        {"before": {"t1.amount": "TRANSFORMATION", "t1.id": "WINDOW"}},
    ),
    "struct field": ("SELECT s.a AS a FROM t1", {"a": {"t1.s.a": "IDENTITY"}}),
    "struct built and taken apart": (
        "SELECT p.x AS x FROM (SELECT named_struct('x', id, 'y', name) AS p FROM t1)",
        {"x": {"t1.id": "IDENTITY"}},
    ),
    "explode": ("SELECT explode(tags) AS tag FROM t1", {"tag": {"t1.tags": "TRANSFORMATION"}}),
    "lambda": (
        "SELECT transform(tags, x -> concat(x, name)) AS tags FROM t1",
        {"tags": {"t1.tags": "TRANSFORMATION", "t1.name": "TRANSFORMATION"}},
    ),
    "union by position": (
        "SELECT id, name FROM t1 UNION ALL SELECT id, city FROM t2",
        {"id": {"t1.id": "IDENTITY", "t2.id": "IDENTITY"}, "name": {"t1.name": "IDENTITY", "t2.city": "IDENTITY"}},
    ),
    "CTE used twice": (
        "WITH c AS (SELECT id, upper(city) AS u FROM t2) SELECT a.u AS one, b.u AS two FROM c a JOIN c b ON a.id = b.id",
        {
            "one": {"t2.city": "TRANSFORMATION"},
            "two": {"t2.city": "TRANSFORMATION"},
            "*": {"t2.id": "JOIN"},
        },
    ),
    "scalar subquery": (
        "SELECT id, (SELECT max(city) FROM t2) AS top FROM t1",
        {"id": {"t1.id": "IDENTITY"}, "top": {"t2.city": "AGGREGATION"}},
    ),
    "IN subquery": (
        "SELECT id FROM t1 WHERE id IN (SELECT id FROM t2)",
        {"id": {"t1.id": "IDENTITY"}, "*": {"t1.id": "FILTER", "t2.id": "FILTER"}},
    ),
    "EXISTS, correlated": (
        "SELECT name FROM t1 WHERE EXISTS (SELECT 1 FROM t2 WHERE t2.id = t1.id)",
        {"name": {"t1.name": "IDENTITY"}, "*": {"t1.id": "FILTER", "t2.id": "FILTER"}},
    ),
    "pivot": (
        "SELECT * FROM (SELECT id, name, amount FROM t1) PIVOT (sum(amount) FOR name IN ('a' AS a))",
        {"id": {"t1.id": "IDENTITY"}, "a": {"t1.amount": "AGGREGATION", "t1.name": "CONDITIONAL"}, "*": {"t1.id": "GROUP_BY", "t1.name": "GROUP_BY"}},
    ),
    "rollup": (
        "SELECT city, count(id) AS n FROM t2 GROUP BY ROLLUP (city)",
        {"city": {"t2.city": "IDENTITY"}, "n": {"t2.id": "AGGREGATION masked"}, "*": {"t2.city": "GROUP_BY"}},
    ),
    "masking": (
        "SELECT sha2(name, 256) AS h, mask(name) AS m FROM t1",
        {"h": {"t1.name": "TRANSFORMATION masked"}, "m": {"t1.name": "TRANSFORMATION masked"}},
    ),
    "having": (
        "SELECT name FROM t1 GROUP BY name HAVING sum(amount) > 1",
        {"name": {"t1.name": "IDENTITY"}, "*": {"t1.name": "GROUP_BY", "t1.amount": "FILTER"}},
    ),
    "except": (
        "SELECT id FROM t1 EXCEPT SELECT id FROM t2",
        {"id": {"t1.id": "IDENTITY"}, "*": {"t1.id": "GROUP_BY", "t2.id": "FILTER"}},
    ),
    "lateral view": (
        "SELECT id, tag FROM t1 LATERAL VIEW explode(tags) x AS tag",
        {"id": {"t1.id": "IDENTITY"}, "tag": {"t1.tags": "TRANSFORMATION"}},
    ),
    "temporary view is looked through": (
        "SELECT u FROM temp1",
        {"u": {"t2.city": "TRANSFORMATION"}},
    ),
    "UDF": ("SELECT twice(id) AS d FROM t1", {"d": {"t1.id": "TRANSFORMATION"}}),
}  # fmt: skip


SINCE = {"nullifzero": "4.0"}


@pytest.fixture(scope="module")
def found(spark, tmp_path_factory: pytest.TempPathFactory):
    """All queries run under one attachment; each test reads off its own."""
    clean(spark)
    for statement in SETUP:
        spark.sql(statement)
    spark.sql("CREATE TEMPORARY VIEW temp1 AS SELECT upper(city) AS u FROM t2")
    spark.udf.register("twice", lambda x: 2 * x, "int")
    with whence.attach(spark, store=tmp_path_factory.mktemp("store")) as w:
        for number, (name, (query, _)) in enumerate(CASES.items()):
            if has(SINCE.get(name, "3.5")):
                spark.sql(f"CREATE TABLE out{number} USING parquet AS {query}")
        yield w.catalog.edges("column"), w.catalog.runs()
    clean(spark)


@pytest.mark.parametrize("name", [case(SINCE[name], name, name) if name in SINCE else name for name in CASES])
def test_columns(name: str, found) -> None:
    edges, _ = found
    number = list(CASES).index(name)
    actual: dict[str, dict[str, set[str]]] = {}
    for e in edges:
        if short(e.target.name) == f"out{number}":
            subtype = e.subtype + (" masked" if e.masking else "")
            actual.setdefault(e.target_column, {}).setdefault(f"{short(e.source.name)}.{e.source_column}", set()).add(
                subtype
            )
            assert e.kind == ("DIRECT" if e.subtype in ("IDENTITY", "TRANSFORMATION", "AGGREGATION") else "INDIRECT")
    _, expected = CASES[name]
    wanted: dict[str, dict[str, set[str]]] = {}
    for column in [c for c in expected if c != "*"]:
        wanted[column] = {s: _subtypes(t) for s, t in expected[column].items()}
        for source, subtype in expected.get("*", {}).items():
            wanted[column].setdefault(source, set()).update(_subtypes(subtype))
    assert actual == wanted


def _subtypes(text: str) -> set[str]:
    return {text} if text.endswith("masked") else set(text.split())


def test_udf_names_are_told(found) -> None:
    _, runs = found
    assert any("twice" in r.details.get("functions", []) for r in runs)


def test_no_gaps(found) -> None:
    _, runs = found
    assert [r.details["gaps"] for r in runs if "gaps" in r.details] == []
