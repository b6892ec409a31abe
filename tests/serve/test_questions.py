"""From the page down to rows: traces that are saved, questions that wait, and the session that works them off."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import whence
from whence.debug import questions
from whence.model.conditions import BadCondition, check_condition
from whence.model.picture import FORWARD, SAMPLE, WHY_NOT, Question
from whence.serve.answers import traces as answers
from whence.serve.view import Service
from whence.store import Store
from whence.store import traces as stored


@pytest.fixture
def orders(spark: SparkSession, w: whence.Session) -> str:
    """A table, and a view over it; the database's name."""
    name = f"q{threading.get_native_id()}_{time.monotonic_ns()}"
    spark.sql(f"CREATE DATABASE {name}")
    spark.sql(f"CREATE TABLE {name}.orders USING parquet AS SELECT id, id * 10 AS amount FROM range(5)")
    spark.sql(f"CREATE VIEW {name}.big AS SELECT amount + 1 AS more FROM {name}.orders WHERE amount > 15")
    _ = w.catalog
    return name


def answered(w: whence.Session, number: str) -> stored.SavedTrace:
    """Wait for the thread of the session, which needs no help."""
    for _ in range(600):
        found = w.catalog.traces.get(number)
        assert found is not None
        if found.status in (stored.DONE, stored.FAILED):
            return found
        threading.Event().wait(0.1)
    raise AssertionError("nobody took the question")


def test_a_saved_trace_is_read_without_spark(spark: SparkSession, w: whence.Session, orders: str) -> None:
    number = w.backward(spark.table(f"{orders}.big").where("more > 25")).save("the big ones")
    found = w.catalog.traces.get(number)
    assert found is not None
    assert found.picture is not None
    assert (found.name, found.status, found.picture.exact) == ("the big ones", "done", True)
    (source,) = found.picture.sources
    assert source.name == f"{orders}.orders"
    assert source.kind == "table"
    assert (source.rows, [c[0] for c in source.columns]) == (2, ["id", "amount"])
    assert sorted(w.catalog.traces.rows(number, 0, 0, 10)) == [[3, 30], [4, 40]]
    assert [step.rows for step in found.picture.steps][-1] == 2
    told = answers.trace(Service(w._store).view(), number)
    assert told["sources"][0]["dataset"]["name"] == source.name


def test_each_kind_of_question_is_worked_off(w: whence.Session, orders: str) -> None:
    view = Service(w._store).view()
    table, big = f"{orders}.orders", f"{orders}.big"
    space = view.known(view.find(None, table)).namespace
    to = (view.known(view.find(None, big)).namespace, big)
    ask = w.catalog.traces.ask
    numbers = {
        "backward": answers.ask(view, "backward", big, where="more > 35")["id"],
        "forward": ask(Question(FORWARD, space, table, "id >= 3", to)),
        "why_not": ask(Question(WHY_NOT, space, table, "id IN (1, 2)", to)),
        "sample": ask(Question(SAMPLE, space, table, None, None, 3)),
        "code": ask(Question(SAMPLE, space, table, "reflect('java.lang.System', 'exit', 1) = 1")),
        "other": ask(Question(SAMPLE, space, table, f"id IN (SELECT more FROM {big})")),
    }
    found = {name: answered(w, number) for name, number in numbers.items()}
    rows = {name: w.catalog.traces.rows(number, 0, 0, 10) for name, number in numbers.items()}
    assert rows["backward"] == [[4, 40]]
    assert sorted(rows["forward"]) == [[31], [41]]
    assert [[*row[:2], row[2] is None] for row in sorted(rows["why_not"])] == [[1, 10, False], [2, 20, True]]
    assert len(rows["sample"]) == 3
    sample = found["sample"].picture
    assert sample is not None
    assert sample.sources[0].rows == 5
    for name in ("code", "other"):
        assert found[name].status == "failed"
        assert "may compare columns" in (found[name].error or "")
    assert found["backward"].progress == 1


def test_what_a_dying_session_had_is_taken_by_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store.at(tmp_path)
    traces = store.catalog.traces
    number = traces.ask(Question(SAMPLE, "n", "t"))
    assert traces.take("first") == (number, Question(SAMPLE, "n", "t"))
    assert traces.take("second") is None
    assert not traces.is_waiting()
    assert traces.renew(number, "first", 0.5)
    monkeypatch.setattr(stored, "LEASE_SECONDS", -1.0)
    traces.renew(number, "first")
    assert traces.is_waiting()
    assert traces.take("second") is not None
    assert not traces.renew(number, "first"), "it is another's by now"
    assert not traces.fail(number, "first", "late")
    assert traces.take("third") is not None
    assert traces.take("fourth") is None
    found = traces.get(number)
    assert found is not None
    assert (found.status, found.error) == (
        "failed",
        "3 sessions took this question and ended before they had an answer.",
    )
    store.close()


def test_a_session_that_ends_gives_its_question_back(tmp_path: Path) -> None:
    store = Store.at(tmp_path)
    traces = store.catalog.traces
    number = traces.ask(Question(SAMPLE, "n", "t"))
    for _ in range(5):
        traces.take("one")
        assert traces.release(number, "one")
    assert traces.is_waiting()
    store.close()


@pytest.mark.parametrize(
    "text",
    [
        "amount > 3 AND name LIKE 'a%'", "`select` = 1 OR NOT (b IS NULL)", "lower(trim(x)) = 'it''s' -- 1",
        "a.b[0] <=> 1.5e3", "x IN (1, 2) and d >= date('2026-01-01')", 'a = "FROM (SELECT"', "-x < - 2",
    ],
)  # fmt: skip
def test_conditions_that_compare_columns(text: str) -> None:
    if "--" in text:
        with pytest.raises(BadCondition, match="comment"):
            check_condition(text)
    else:
        assert check_condition(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "x IN (SELECT y FROM t)", "EXISTS (TABLE t)", "my_udf(x) = 1", "`reflect`('a')", "java_method('a', 'b') = 1",
        "x = 1; DROP TABLE t", "x = /* */ 1", "a.b(1)", "x) OR (y", "", "  ", "x = ${y}", "x = 'a", "(x",
        "x RLIKE '(a+)+b'",
        "x IN (VALUES 1)", "x = :p", "a" * 10_001,
    ],
)  # fmt: skip
def test_conditions_that_are_not_run(text: str) -> None:
    with pytest.raises(BadCondition):
        check_condition(text)


def test_paths_that_lead_elsewhere_are_not_read(spark: SparkSession) -> None:
    with pytest.raises(whence.WhenceError, match="leads elsewhere"):
        questions._path(spark, "file", "/data/../etc/passwd")
