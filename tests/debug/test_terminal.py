"""Text of others on the user's terminal: shown as it is, never obeyed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.sql import Row, SparkSession

import whence
from whence.debug.clean import Cleaned, Stage
from whence.debug.diagnose import Space, diagnose
from whence.debug.diagnose.causes import Condition
from whence.debug.diagnose.report import Report
from whence.debug.diagnose.runs import Run
from whence.debug.explain.explain import DataCause, Explanation
from whence.debug.guard.culprit import Culprit, SourceRows
from whence.debug.mining.mined import Mined, Suspect
from whence.model import StoreError, UnsupportedOperator
from whence.model.text import visible
from whence.sql.verify import Verdict
from whence.sql.why_not import Dropped

EVIL = "\x1b[2J\x1b]0;title\x07\r\x9b31m\u202e\u2028\ud800"
MARKUP = "[bold]a[/bold] [/x] \\[y] :smile: <script>"
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u2028\u2029\ud800-\udfff]")


def require_harmless(text: str) -> None:
    assert not _CONTROL.search(text), ascii(text)
    text.encode()


def test_characters_that_are_spelled_out() -> None:
    assert visible("a\x1b[0m\n\tb\x9b\ud800ü€") == r"a\x1b[0m\n\tb\x9b\ud800ü€"
    assert visible("a\x1b\n\tb\r", lines=True) == "a\\x1b\n\tb\\r"
    assert visible(Path("/a\x07")) == r"/a\x07"
    assert visible("Löwe 猫 👩‍💻 [x] \\") == "Löwe 猫 👩‍💻 [x] \\"


def test_a_printed_trace(spark: SparkSession, w: whence.Session) -> None:
    evil = EVIL.replace("\ud800", "")
    rows = [(evil, MARKUP, 1), ("\n".join("ab"), MARKUP, 2)]
    frame = spark.createDataFrame(rows, f"`c{evil}` string, `[/x] [bold]` string, n int")
    frame.createOrReplaceTempView("hostile")
    trace = w.backward(frame.where(f"`[/x] [bold]` <> '[/x]{evil}' and n > 0"))
    text, page = str(trace), trace._repr_html_()
    require_harmless(text)
    require_harmless(repr(trace) + str(trace.steps[0]) + repr(trace.steps))
    assert text.count(MARKUP) == 2
    assert r"\x1b[2J\x1b]0;title\x07\r\x9b31m\u202e\u2028" in text
    assert "[/x] [bold]" in text
    assert r"a\nb" in text
    assert "(2 rows)" in text
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    dropped = w.why_not(frame, to=frame.where("n > 5"))
    require_harmless("".join(map(str, dropped)) + repr(dropped))
    verdict = trace.verify()
    assert verdict.ok
    require_harmless(f"{verdict}{Verdict(False, tuple(frame.collect()))!r}")


CONDITION = Condition(f"c{EVIL}", "==", EVIL)
CAUSE = DataCause((CONDITION,), 1, 0, 1.0)
ROW = Row(f"c{EVIL}")(EVIL)
STAGE = Stage(f"job/{EVIL}", 1, 0.5)
SHOWN = {
    "a condition": CONDITION,
    "a cause": CAUSE,
    "an explanation": Explanation((CAUSE,), 1, 1, 1, 0, (f"c{EVIL}",)),
    "no explanation": Explanation((), 1, 1, 0, 0, (f"c{EVIL}",)),
    "a culprit": Culprit(
        EVIL, EVIL, EVIL, EVIL, 0, 0, (SourceRows(f"s{EVIL}", (ROW,), (f"file{EVIL}#1",)),), Path(f"/{EVIL}"), (EVIL,)
    ),
    "a dropped row": Dropped(ROW, EVIL, EVIL, EVIL),
    "suspects": Mined((Suspect(EVIL, EVIL, 1.0, (EVIL,), ()),), (), 1),
    "what was cleaned": Cleaned((STAGE,), STAGE, (1,), {1: 1.0}, {1: 1.0}, None),
    "an error": StoreError(f"The store {EVIL} cannot be read."),
    "another error": UnsupportedOperator(EVIL, EVIL),
}


@pytest.mark.parametrize("what", SHOWN)
def test_everything_that_is_printed(what: str) -> None:
    for text in (str(SHOWN[what]), repr(SHOWN[what])):
        require_harmless(text)
    assert r"\x1b[2J\x1b]0;title\x07\r\x9b31m\u202e\u2028\ud800" in str(SHOWN[what]), "it is shown, spelled out"


def test_a_record_cannot_speak_for_whence() -> None:
    said = "boom\n  fails alone with: python /tmp/evil.py"
    told = str(Culprit("f", 1, said, "", 0, 0, script=Path("/store/culprit.py")))
    assert [line for line in told.splitlines() if line.startswith("  fails alone")] == [
        "  fails alone with: python /store/culprit.py"
    ]


def test_a_report_of_parameters(tmp_path: Path) -> None:
    values = [EVIL, MARKUP]
    space = {f"p{EVIL}": values}
    history = [({f"p{EVIL}": EVIL}, False, f"Error: {EVIL}"), ({f"p{EVIL}": MARKUP}, True)]
    report = diagnose(None, space, history, budget=0).report()
    require_harmless(str(report))
    runs = (Run({f"p{EVIL}": MARKUP}, False, MARKUP, 1.0, MARKUP, MARKUP),)
    page = Report(
        Space.of(space), (), runs, 1, 0, False, (), (), report.tree, False
    ).html  # fmt: skip
    assert "<script>" not in page
