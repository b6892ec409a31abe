"""A written fixture is a test of its own: these are run by pytest, in a process that cannot import whence."""

from __future__ import annotations

import datetime
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import whence
from fixture_orders import by_functions, negative, session

__all__ = ["negative", "session"]  # fixtures
pytestmark = pytest.mark.usefixtures("tiny")

WITHOUT_WHENCE = """
import sys
sys.modules["whence"] = None
import pytest
sys.exit(pytest.main([*sys.argv[1:], "-q", "-rA", "-p", "no:cacheprovider", "--import-mode=importlib"]))
"""
# Written tests find a session that runs, and leave it as it was; other ones start their own.
A_SESSION_THAT_RUNS = """
import pytest
from pyspark.sql import SparkSession


@pytest.fixture(scope="session", autouse=True)
def running():
    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    spark.conf.set("spark.sql.shuffle.partitions", "3")
    spark.sql("SELECT 'mine' AS customer").createOrReplaceTempView("orders")
    yield
    assert spark.table("orders").columns == ["customer"]
    assert spark.conf.get("spark.sql.shuffle.partitions") == "3"
    spark.stop()
"""


def outcomes(folder: Path) -> dict[str, str]:
    """What pytest says of every written test below the folder, without whence."""
    command = [sys.executable, "-c", WITHOUT_WHENCE, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=300)
    found = dict(re.findall(r"^(?:PASSED|FAILED) .*?::(\w+)()", done.stdout, re.MULTILINE))
    for line in done.stdout.splitlines():
        if told := re.match(r"(PASSED|FAILED) .*?::(\w+)", line):
            found[told[2]] = told[1]
    assert found, done.stdout + done.stderr
    assert "\nERROR" not in done.stdout, done.stdout
    return found


def broken(made: Path, other: Path, change: Callable[[str], str], file: str | None = None) -> None:
    """The same fixture, with one of its files changed."""
    name = other.name
    shutil.copytree(made, other)
    (other / f"test_{made.name}.py").rename(other / f"test_{name}.py")
    test = other / f"test_{name}.py"
    test.write_text(test.read_text().replace(f"def test_{made.name}", f"def test_{name}"))
    path = test if file is None else other / file
    text = path.read_text()
    assert change(text) != text
    path.write_text(change(text))


def rows_of(path: Path) -> list[Any]:
    found: list[Any] = json.loads(path.read_text())["rows"]
    return found


def test_written_tests_pass_and_fail_without_whence(session: whence.Session, negative: Any, tmp_path: Path) -> None:
    spark = session.spark
    alone, shared = tmp_path / "alone", tmp_path / "shared"
    alone.mkdir()
    shared.mkdir()
    (shared / "conftest.py").write_text(A_SESSION_THAT_RUNS)
    made = negative.fixture(alone / "negative_total")
    assert (made.rows, made.expected, made.notes) == ({"orders": 3, "cities": 2}, 1, ())
    assert sorted(p.name for p in made.path.iterdir()) == [
        *("cities.json", "expected.json", "orders.json", "test_negative_total.py")
    ]
    broken(made.path, shared / "wrong_query", lambda text: text.replace("sum(amount)", "sum(amount) + 1"))
    broken(made.path, shared / "lost_row", lambda text: text.replace('[1, "Ada", 20],\n', ""), "orders.json")
    broken(
        made.path,
        shared / "more_rows",
        lambda text: text.replace(".where(", ".orderBy(", 1).replace("JOIN", "CROSS JOIN"),
    )

    least = negative.fixture(shared / "least", minimize=lambda rows: any(row.total < 0 for row in rows))
    assert rows_of(least.path / "orders.json") == [[3, "Ada", -900]]
    assert rows_of(least.path / "expected.json") == [["Bonn", -900, "ada@a.org"]]

    masked = negative.fixture(shared / "masked", mask=["email", "cities.customer", "orders.customer"])
    texts = "".join(p.read_text() for p in masked.path.iterdir())
    assert "Ada" not in texts
    assert "ada@a.org" not in texts
    assert rows_of(masked.path / "expected.json")[0][:2] == ["Bonn", -865]

    by_function = session.backward(by_functions(spark).where("total < 0"))
    for name in ("totals", "by_name", "with_sources"):
        by_function.fixture(shared / f"function_{name}", query=f"fixture_jobs:{name}")
    shutil.copy(Path(sys.path[0]) / "fixture_jobs.py", tmp_path)
    (tmp_path / "conftest.py").write_text(f"import sys\nsys.path.insert(0, {str(tmp_path)!r})\n")

    odd_types(session).fixture(alone / "odd types, odd name!")
    names = views_and_paths(session, tmp_path).fixture(shared / "names")
    assert len(names.rows) == 4

    assert outcomes(tmp_path) == {
        "test_negative_total": "PASSED",
        "test_wrong_query": "FAILED",
        "test_lost_row": "FAILED",
        "test_more_rows": "FAILED",
        "test_least": "PASSED",
        "test_masked": "PASSED",
        "test_function_totals": "PASSED",
        "test_function_by_name": "PASSED",
        "test_function_with_sources": "PASSED",
        "test_odd_types_odd_name": "PASSED",
        "test_names": "PASSED",
    }


def odd_types(session: whence.Session) -> whence.Trace:
    """Everything that JSON has no form for, as values, keys and inside of each other."""
    spark = session.spark
    at = datetime.datetime(2026, 10, 25, 0, 30, tzinfo=datetime.timezone.utc)  # twice the same hour in Berlin
    when = datetime.datetime(1, 2, 3, 4, 5, 6, 7)
    row = (
        *(Decimal("12345678901234567890.123456789"), bytearray(b"\x00\xff'\""), datetime.date(1582, 10, 1), at, when),
        *(float("nan"), -0.0, float("-inf"), {Decimal("1.50"): [b"k", None]}, {(1, "a"): (None, [1.5])}),
        *(datetime.timedelta(days=-1, microseconds=1), 'tab\t"quote" \\ \u202e \U0001f600 \x00', None, True, None, []),
    )
    schema = (
        "`dec` decimal(38,9), `bin ary` binary, `d.ate` date, ts timestamp, ntz timestamp_ntz, `na``n` double, "
        "zero double, inf float, m map<decimal(3,2), array<binary>>, s map<struct<a:int,b:string>, "
        "struct<c:string,d:array<double>>>, i interval day to second, `ü\"'` string, nothing void, flag boolean, "
        "none string, empty array<int>"
    )
    frame = spark.createDataFrame([row, tuple(None for _ in row)], schema)
    frame.createOrReplaceTempView("`odd view`")
    return session.backward(spark.sql("SELECT * FROM `odd view` WHERE flag"))


def views_and_paths(session: whence.Session, home: Path) -> whence.Trace:
    """One query over a view of SQL, a view of a DataFrame, two tables of one name, and a path."""
    spark = session.spark
    for name in ("one", "two"):
        spark.sql(f"CREATE DATABASE IF NOT EXISTS fixture_{name}")
        spark.sql(f"DROP TABLE IF EXISTS fixture_{name}.orders")
        spark.table("orders").where(f"id <> {len(name)}").write.saveAsTable(f"fixture_{name}.orders")
    path = home.parent / "orders of a path"
    spark.table("orders").write.mode("overwrite").parquet(str(path))
    spark.sql(
        "CREATE OR REPLACE TEMP VIEW fixture_big (number, who) AS SELECT id, customer FROM orders WHERE amount > -999"
    )
    spark.table("fixture_big").where("number > 0").createOrReplaceTempView("fixture_bigger")
    return session.backward(
        spark.sql(
            f"""WITH b AS (SELECT * FROM fixture_bigger) SELECT o.customer, count(*) AS n, sum(o.amount) AS total
            FROM fixture_one.orders AS o JOIN b ON o.id = b.number JOIN fixture_two.orders t USING (id)
            JOIN parquet.`{path}` USING (id) JOIN (VALUES (1), (2), (4)) AS v (id) USING (id)
            WHERE o.id NOT IN (SELECT amount FROM fixture_two.orders WHERE amount < 0)
            GROUP BY o.customer ORDER BY o.customer LIMIT 2"""
        ).where("total > 0")
    )
