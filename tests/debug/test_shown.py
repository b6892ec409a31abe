"""What a trace, and what follows from one, looks like: on a terminal, and in a notebook."""

from __future__ import annotations

import builtins
import io
import sys
import warnings
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import whence
from whence.debug.guard.culprit import Culprit, SourceRows
from whence.debug.show import _StepLine, tree_lines
from whence.model.verdict import Verdict
from whence.progress import working

pytestmark = pytest.mark.usefixtures("tiny")

SLIP = 77


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("shown")
    rows = [f"{n},c{n % 3},{-9000 if n == SLIP else n}" for n in range(1, 100)]
    rows.insert(50, "")  # not a row, but a line
    (home / "orders.csv").write_text("\n".join(["# from the shop", "id,customer,amount", *rows]) + "\n")
    (home / "people.json").write_text('{"customer": "c0", "city": "Bonn"}\n\n{"customer": "c2", "city": "Kiel"}\n')
    return home


@pytest.fixture(scope="module")
def session(spark: SparkSession, home: Path) -> Iterator[whence.Session]:
    orders = spark.read.csv(
        str(home / "orders.csv"), header=True, comment="#", schema="id int, customer string, amount int"
    )
    orders.createOrReplaceTempView("shown_orders")
    spark.read.schema("customer string, city string").json(str(home / "people.json")).createOrReplaceTempView("people")
    with whence.attach(spark, store=home / "store") as w:
        yield w


def line_of(home: Path, begins: str) -> int:
    lines = (home / "orders.csv").read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.startswith(begins))


def test_rows_of_files_of_lines_are_told_by_line(session: whence.Session, home: Path) -> None:
    spark = session.spark
    report = spark.sql(
        "SELECT city, sum(amount) / count(*) AS basket FROM shown_orders JOIN people USING (customer) GROUP BY city"
    )
    trace = session.backward(report.where("basket < 0"))
    slip = f"{home}/orders.csv:{line_of(home, f'{SLIP},')}"
    first = trace.influence("basket", source="shown_orders").first()
    assert first is not None
    assert (first.record, first.id) == (slip, SLIP)
    text = str(trace)
    assert f"orders.csv:{line_of(home, '2,')}  " in text
    assert "people.json:3" in text
    again = trace["shown_orders"].where("amount < 0")  # a trace's own rows can be asked
    assert f"orders.csv:{line_of(home, f'{SLIP},')}" in str(session.backward(again))
    with pytest.raises(Exception, match="bad") as failed, session.guard():
        spark.table("shown_orders").selectExpr(f"if(id = {SLIP}, raise_error('bad'), id) AS x").collect()
    assert failed.value.culprit.sources[0].records == (slip,)  # type: ignore[attr-defined]
    columns = {source["name"]: source["columns"] for source in _told(trace)["sources"]}
    assert columns["shown_orders"][0] == "place"


def _told(trace: Any) -> Any:
    """What the graph in a notebook is given."""
    import whence.debug.notebook as notebook

    told: dict[str, Any] = {}

    def kept(title: str, given: dict[str, Any]) -> str:
        told.update(given["trace"])
        return ""

    before = notebook.document
    notebook.document = kept  # type: ignore[assignment]
    try:
        trace.show()
    finally:
        notebook.document = before
    return told


def test_the_counts_of_a_window_are_those_of_its_rows(session: whence.Session) -> None:
    query = """SELECT customer, total, share FROM (
        SELECT customer, sum(amount) AS total, sum(sum(amount)) OVER () AS share FROM shown_orders GROUP BY customer)"""
    trace = session.backward(session.spark.sql(query).where("customer <> 'c1'"))
    assert trace.step_counts() == tuple(trace.at(step).count() for step in trace.steps)
    assert "(2 rows)" in str(trace).splitlines()[1]


def test_many_steps_fit_on_a_page() -> None:
    """A chain stands below itself, projections are folded, and joins of joins end at some depth."""
    steps = [_StepLine("Project", "Project [" + "a" * 200, 0, 1)]
    for depth in range(1, 24):
        steps.append(_StepLine("Join", f"Join {depth} " + "x" * 200, depth, depth))
    for depth in range(24, 1, -1):
        steps.append(_StepLine("Relation", f"Relation {depth}", depth, depth))
    lines = tree_lines(steps, "the rows asked for")
    assert max(map(len, lines)) <= 100
    assert all("rows)" in line or "row)" in line for line in lines[1:-1])
    assert "Project" not in "".join(lines)
    assert lines[-1].startswith("(1 projection is not shown")
    chain = tree_lines([_StepLine("Filter", f"Filter {n}", n, 1) for n in range(24)], "top")
    assert {len(line) - len(line.lstrip()) for line in chain[2:]} == {4}


def test_all_that_follows_is_a_table_in_a_notebook(session: whence.Session) -> None:
    spark = session.spark
    orders, evil = spark.table("shown_orders"), "<script>alert(1)</script>"
    trace = session.backward(spark.sql("SELECT customer, sum(amount) AS t FROM shown_orders GROUP BY customer"))
    shown = [
        trace._repr_html_(),
        trace.steps._repr_html_(),
        trace.verify()._repr_html_(),
        session.explain(
            spark.sql(f"SELECT id, '{evil}' AS x FROM range(50)"), spark.sql("SELECT id, 'y' AS x FROM range(50)")
        )._repr_html_(),
        session.why_not(orders.where("id < 3"), to=orders.where("id = 1"))._repr_html_(),
        Culprit("f", evil, "ValueError", "", 0, 1, (SourceRows("o", ((evil, 1),), ("o.csv:3",)),))._repr_html_(),
        session.guard()._repr_html_(),
        Verdict(False, ((evil,),), ((1,),))._repr_html_(),
    ]
    assert all("<table>" in html for n, html in enumerate(shown) if n not in (2, 6))
    assert all("<script" not in html for html in shown)


def test_a_dropped_duplicate_names_the_row_that_is_kept(session: whence.Session) -> None:
    orders = session.spark.table("shown_orders").where("id IN (3, 6)").coalesce(1)
    kept = orders.dropDuplicates(["customer"])
    (winner,) = kept.collect()
    fates = {fate.row.id: fate for fate in session.why_not(orders, to=kept)}
    assert fates.pop(winner.id).operator is None
    ((_, beaten),) = fates.items()
    assert beaten.operator == "Deduplicate"
    assert f"id={winner.id}, customer='c0'" in beaten.reason
    newest = session.spark.sql(
        "SELECT id FROM (SELECT *, row_number() OVER (PARTITION BY customer ORDER BY id DESC) AS n FROM shown_orders) "
        "WHERE n = 1"
    )
    (fate,) = session.why_not(session.spark.table("shown_orders").where("id = 3"), to=newest)
    assert "id=99, customer='c0'" in fate.reason


def test_nothing_asks_for_widgets_in_a_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ipykernel", io)
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    out = io.StringIO()
    with redirect_stdout(out), warnings.catch_warnings(), working("looking"):
        warnings.simplefilter("error")
    assert out.getvalue() == ""


def test_errors_in_a_notebook_show_the_users_lines_alone(spark: SparkSession, tmp_path: Path) -> None:
    shells = pytest.importorskip("IPython.core.interactiveshell", reason="the package ipython is not installed")
    names = dict(vars(builtins))
    shell = shells.InteractiveShell.instance(colors="nocolor")
    try:
        with whence.attach(spark, store=tmp_path / "store") as w:
            shell.user_ns["w"] = w
            out = io.StringIO()
            with redirect_stdout(out):
                shell.run_cell("w.backward(3)")
                shell.run_cell("1 / 0")
    finally:
        shells.InteractiveShell.clear_instance()
        # A shell says for the rest of the process that there is one, and other libraries go by that.
        for name in vars(builtins).keys() - names.keys():
            delattr(builtins, name)
    text = out.getvalue()
    assert "this is of the type int" in text
    assert "session.py" not in text
    assert "w.backward(3)" in text
    assert "ZeroDivisionError" in text
