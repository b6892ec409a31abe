"""A written fixture is a test of its own: these are run by pytest, in a process that cannot import whence."""

from __future__ import annotations

import datetime
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import whence

pytestmark = pytest.mark.usefixtures("tiny")

ORDERS = [(1, "Ada", 20), (2, "Bob", 35), (3, "Ada", -900), (4, "Eve", 15), (5, "Bob", 40), (6, None, 7)]
CITIES = [("Ada", "Bonn", "ada@a.org"), ("Bob", "Kiel", "bob@b.org"), ("Eve", "Bonn", None)]
TOTALS = """SELECT city, sum(amount) AS total, max(email) AS contact
FROM orders JOIN cities USING (customer) -- a comment with "quotes" and a \\ backslash
GROUP BY city"""
WITHOUT_WHENCE = """
import sys
sys.modules["whence"] = None
import pytest
sys.exit(pytest.main([*sys.argv[1:], "-q", "-rA", "-p", "no:cacheprovider", "--import-mode=importlib"]))
"""
JOBS = """
from pyspark.sql import functions as F


def totals(orders, cities):
    return orders.join(cities, "customer").groupBy("city").agg(F.sum("amount").alias("total"))


def by_name(spark):
    return totals(spark.table("orders"), spark.table("cities"))


def with_sources(spark, sources):
    return totals(sources["orders"], sources["cities"])


def strange(weather):
    return weather


def strange_too(orders, nobody, knows):
    return orders


def of_files(spark):
    return spark.read.parquet(PATH).groupBy("customer").agg(F.sum("amount").alias("total"))
"""


@pytest.fixture(scope="module")
def session(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[whence.Session]:
    home = tmp_path_factory.mktemp("fixtures")
    (home / "fixture_jobs.py").write_text(JOBS + f"\nPATH = {str(home / 'orders.parquet')!r}\n")
    sys.path.insert(0, str(home))
    spark.createDataFrame(ORDERS, "id int, customer string, amount int").createOrReplaceTempView("orders")
    spark.createDataFrame(CITIES, "customer string, city string, email string").createOrReplaceTempView("cities")
    spark.table("orders").write.parquet(str(home / "orders.parquet"))
    with whence.attach(spark, store=home / "store") as w:
        yield w
    sys.path.remove(str(home))
    for view in ("orders", "cities"):
        spark.catalog.dropTempView(view)


@pytest.fixture(scope="module")
def negative(session: whence.Session) -> whence.Trace:
    return session.backward(session.spark.sql(TOTALS).where("total < 0"))


def outcomes(folder: Path) -> dict[str, str]:
    """What pytest says of every written test below the folder, without whence."""
    command = [sys.executable, "-c", WITHOUT_WHENCE, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=300)
    found = dict(re.findall(r"^(?:PASSED|FAILED) .*?::(\w+)()", done.stdout, re.MULTILINE))
    for line in done.stdout.splitlines():
        if told := re.match(r"(PASSED|FAILED) .*?::(\w+)", line):
            found[told[2]] = told[1]
    assert found, done.stdout + done.stderr
    return found


def broken(made: Path, name: str, change: Callable[[str], str], file: str | None = None) -> None:
    """The same fixture, with one of its files changed."""
    other = made.parent / name
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
    made = negative.fixture(tmp_path / "negative_total")
    assert (made.rows, made.expected, made.notes) == ({"orders": 3, "cities": 2}, 1, ())
    assert sorted(p.name for p in made.path.iterdir()) == [
        *("cities.json", "expected.json", "orders.json", "test_negative_total.py")
    ]
    broken(made.path, "wrong_query", lambda text: text.replace("sum(amount)", "sum(amount) + 1"))
    broken(made.path, "lost_row", lambda text: text.replace('[1, "Ada", 20],\n', ""), "orders.json")
    broken(made.path, "more_rows", lambda text: text.replace(".where(", ".orderBy(", 1).replace("JOIN", "CROSS JOIN"))

    least = negative.fixture(tmp_path / "least", minimize=lambda rows: any(row.total < 0 for row in rows))
    assert rows_of(least.path / "orders.json") == [[3, "Ada", -900]]
    assert rows_of(least.path / "expected.json") == [["Bonn", -900, "ada@a.org"]]

    masked = negative.fixture(tmp_path / "masked", mask=["email", "cities.customer", "orders.customer"])
    texts = "".join(p.read_text() for p in masked.path.iterdir())
    assert "Ada" not in texts
    assert "ada@a.org" not in texts
    assert rows_of(masked.path / "expected.json")[0][:2] == ["Bonn", -865]

    by_function = session.backward(by_functions(spark).where("total < 0"))
    for name in ("totals", "by_name", "with_sources"):
        by_function.fixture(tmp_path / f"function_{name}", query=f"fixture_jobs:{name}")
    shutil.copy(Path(sys.path[0]) / "fixture_jobs.py", tmp_path)
    (tmp_path / "conftest.py").write_text(f"import sys\nsys.path.insert(0, {str(tmp_path)!r})\n")

    odd_types(session).fixture(tmp_path / "odd types, odd name!")
    names = views_and_paths(session, tmp_path).fixture(tmp_path / "names")
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


def by_functions(spark: SparkSession) -> DataFrame:
    joined = spark.table("orders").join(spark.table("cities"), "customer")
    return joined.groupBy("city").agg(F.sum("amount").alias("total"))


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


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"mask": ["amount"]}, r"needs more of orders.amount than which values are equal"),
        ({"mask": ["nobody"]}, "No source has a column 'nobody'"),
        ({"mask": "email"}, r"mask=\['email'\]"),
        ({"most": 2}, "orders has 3 witnesses, too many"),
        ({"minimize": lambda rows: False}, "nothing to minimise"),
        ({"query": "fixture_jobs:nobody"}, "cannot be imported"),
        ({"query": "fixture_jobs:F.__name__"}, "is no function"),
        ({"query": "os:system('x')"}, "names no function"),
        ({"query": "fixture_jobs:of_files"}, "reads files of its own"),
        ({"query": "fixture_jobs:strange"}, "run on the witnesses alone"),
        ({"query": "fixture_jobs:strange_too"}, "as nobody is not known"),
        ({"query": lambda spark: spark.table("orders")}, "names no function"),
    ],
)
def test_what_cannot_be_written_is_said_and_nothing_is_left(
    negative: Any, tmp_path: Path, options: dict[str, Any], says: str
) -> None:
    with pytest.raises(whence.WhenceError, match=says):
        negative.fixture(tmp_path / "made", **options)
    assert list(tmp_path.iterdir()) == []


def test_other_files_are_never_replaced(negative: Any, tmp_path: Path) -> None:
    made = negative.fixture(tmp_path / "made")
    with pytest.raises(whence.WhenceError, match="overwrite=True"):
        negative.fixture(tmp_path / "made")
    negative.fixture(tmp_path / "made", mask=["email"], overwrite=True)
    assert "ada@a.org" not in (made.path / "cities.json").read_text()
    (made.path / "mine.txt").write_text("mine")
    with pytest.raises(whence.WhenceError, match=r"mine\.txt"):
        negative.fixture(tmp_path / "made", overwrite=True)
    with pytest.raises(whence.WhenceError, match="holds other files"):
        negative.fixture(tmp_path, overwrite=True)
    (tmp_path / "file").write_text("")
    with pytest.raises(whence.WhenceError, match="is a file"):
        negative.fixture(tmp_path / "file")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "made"]


def test_what_a_mask_leaves_is_said(session: whence.Session, tmp_path: Path) -> None:
    spark = session.spark
    spark.createDataFrame(
        [(1, "ada@a.org", "from ada@a.org")], "id int, email string, note string"
    ).createOrReplaceTempView("mails")
    trace = session.backward(spark.sql("SELECT id, email FROM mails WHERE email <> 'ada@a.or'"))
    made = trace.fixture(tmp_path / "mails", mask=["email"])
    assert made.notes == ("masked values also stand in mails.note, which is not masked",)
    asks = session.backward(spark.sql("SELECT id FROM mails WHERE email LIKE '%@a.org'"))
    with pytest.raises(whence.WhenceError, match=r"mails.email"):
        asks.fixture(tmp_path / "other", mask=["email"])


def test_a_query_by_dataframe_operations_asks_for_a_function(session: whence.Session, tmp_path: Path) -> None:
    trace = session.backward(by_functions(session.spark))
    with pytest.raises(whence.WhenceError, match=r"its Aggregate was made by DataFrame operations.*query="):
        trace.fixture(tmp_path / "made")


def test_what_was_kept_of_duplicates_is_refused_by_name(session: whence.Session, tmp_path: Path) -> None:
    kept = session.spark.table("orders").dropDuplicates(["customer"])
    with session.capture():
        kept.collect()
    with pytest.raises(whence.WhenceError, match=r"otherwise each time \(Deduplicate \[customer\]\).*row_number"):
        session.backward(kept).fixture(tmp_path / "kept")
