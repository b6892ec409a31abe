"""Failures of Spark's own SQL: the row, where it stands in its source, and the expression are found; or put aside."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

import whence
from whence.debug.culprit import Culprit


@pytest.fixture(scope="module")
def orders(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    home = tmp_path_factory.mktemp("sql")
    rows = [(n, "5x7" if n == 13 else str(n), n % 5, [n]) for n in range(20)]
    frame = spark.createDataFrame(rows, "id long, amount string, shop long, list array<long>").coalesce(1)
    frame.write.parquet(str(home / "orders"))
    orders = spark.read.parquet(str(home / "orders"))
    orders.createOrReplaceTempView("failing_orders")
    return orders


def guarded(w: whence.Session, action: Callable[[], Any]) -> Culprit:
    with pytest.raises(Exception) as caught, w.guard() as guard:  # noqa: PT011
        action()
    notes = "".join(getattr(caught.value, "__notes__", ()))
    assert guard.culprit is not None, notes
    assert caught.value.culprit is guard.culprit  # type: ignore[attr-defined]
    return guard.culprit


# The query, the ids of the rows that fail, the expression that fails, the name of the error.
QUERIES = {
    "cast": ("SELECT id, CAST(amount AS INT) AS n FROM o", [13], "CAST(amount AS INT)", "CAST_INVALID_INPUT"),
    "division": ("SELECT id, 10 / (id - 4) AS n FROM o", [4], "(10.0D / CAST((id - 4L) AS DOUBLE))", "DIVIDE_BY_ZERO"),
    "overflow": ("SELECT id, CAST(id + 110 AS TINYINT) AS n FROM o WHERE id < 19", [18], "CAST((id + 110L) AS TINYINT)",
                 "CAST_OVERFLOW"),
    "arithmetic": ("SELECT id, id * 1000000000000000000L AS n FROM o WHERE id < 11", [10],
                   "(id * 1000000000000000000L)", "ARITHMETIC_OVERFLOW"),
    "array index": ("SELECT id, list[CAST(id / 16 AS INT)] AS n FROM o WHERE id < 17", [16], None,
                    "INVALID_ARRAY_INDEX"),
    "element_at": ("SELECT id, element_at(list, IF(id = 7, 5, 1)) AS n FROM o", [7], None,
                   "INVALID_ARRAY_INDEX_IN_ELEMENT_AT"),
    "assert_true": ("SELECT id, assert_true(id < 19) AS n FROM o", [19], None, "USER_RAISED_EXCEPTION"),
    "raise_error": ("SELECT id, IF(id = 4, raise_error('no four'), id) AS n FROM o", [4], None,
                    "USER_RAISED_EXCEPTION"),
    "to_date": ("SELECT id, to_date(IF(id = 3, '2024-13-45', '2024-01-01')) AS n FROM o", [3], None,
                "CAST_INVALID_INPUT"),
    "to_timestamp": ("SELECT id, to_timestamp(IF(id = 3, 'noon', '2024-01-01'), 'yyyy-MM-dd') AS n FROM o", [3], None,
                     "CANNOT_PARSE_TIMESTAMP"),
    "to_number": ("SELECT id, to_number(amount, '99') AS n FROM o", [13], None, "INVALID_FORMAT"),
    "decimal": ("SELECT id, CAST(id * 100 AS DECIMAL(3, 0)) AS n FROM o WHERE id < 11", [10], None,
                "NUMERIC_VALUE_OUT_OF_RANGE"),
    "map key": ("SELECT id, map(id, 1, 5L, 2) AS n FROM o", [5], None, "DUPLICATED_MAP_KEY"),
    "from_json": ("""SELECT id, from_json(IF(id = 2, '{', '{"a": 1}'), 'a int', map('mode', 'FAILFAST')) AS n FROM o""",
                  [2], None, "MALFORMED_RECORD_IN_PARSING"),
    "filter": ("SELECT id FROM o WHERE shop >= 0 AND CAST(amount AS INT) > 7", [13], "CAST(amount AS INT)",
               "CAST_INVALID_INPUT"),
    "sort": ("SELECT id FROM o ORDER BY CAST(amount AS INT)", [13], "CAST(amount AS INT)", "CAST_INVALID_INPUT"),
    "argument of an aggregate": ("SELECT shop, sum(CAST(amount AS INT)) AS n FROM o GROUP BY shop", [13],
                                 "CAST(amount AS INT)", "CAST_INVALID_INPUT"),
    "key of a join": ("SELECT a.id FROM o a JOIN o b ON a.id = CAST(b.amount AS INT)", [13], "CAST(amount AS INT)",
                      "CAST_INVALID_INPUT"),
    "window": ("SELECT id, sum(CAST(amount AS INT)) OVER (PARTITION BY shop ORDER BY id) AS n FROM o", [13],
               "CAST(amount AS INT)", "CAST_INVALID_INPUT"),
    "generator": ("SELECT explode(array(CAST(amount AS INT))) AS n FROM o", [13], "CAST(amount AS INT)",
                  "CAST_INVALID_INPUT"),
    "subquery": ("SELECT id, (SELECT max(CAST(amount AS INT)) FROM o) AS n FROM o", [13], "CAST(amount AS INT)",
                 "CAST_INVALID_INPUT"),
    "branch not taken": (
        "SELECT id, CASE WHEN amount LIKE '%x%' THEN 0 ELSE CAST(amount AS INT) END + 10 / (id - 3) AS n FROM o", [3],
        "(10.0D / CAST((id - 3L) AS DOUBLE))", "DIVIDE_BY_ZERO"),
}  # fmt: skip


@pytest.mark.parametrize("kind", QUERIES)
def test_the_row_its_place_and_the_expression(w: whence.Session, orders: DataFrame, kind: str) -> None:
    text, ids, expression, condition = QUERIES[kind]
    query = orders.sparkSession.sql(text.replace("FROM o", "FROM failing_orders").replace("JOIN o", "JOIN failing_orders"))
    culprit = guarded(w, query.collect)
    assert culprit.condition.startswith(condition), culprit
    assert expression is None or culprit.function == expression
    assert f"[{condition}" in culprit.error
    (source,) = culprit.sources
    assert [row.id for row in source.rows] == ids
    (place,) = source.records
    assert place.endswith(f".parquet#{ids[0]}")
