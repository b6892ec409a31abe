"""What a fixture cannot be written of is said, and what it leaves; test_fixture_runs.py runs what was written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import whence
from fixture_orders import by_functions, negative, session

__all__ = ["negative", "session"]  # fixtures
pytestmark = pytest.mark.usefixtures("tiny")


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
