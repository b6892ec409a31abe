"""What `verify` says of right witnesses that, on their own, also make other rows; and of wrong ones."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import SparkSession

import rows
import whence
from releases import since
from whence.model.verdict import PROVEN
from whence.sql.question import SqlQuestion
from whence.sql.replay import Restriction
from whence.sql.verify import compare

pytestmark = pytest.mark.usefixtures("tiny")

T = [(1, 1, 1), (2, 1, 5), (3, 1, 0), (4, 2, 5), (5, 2, 5)]
BEHIND = "sum(v) over (partition by k order by id rows between 1 preceding and current row)"

# A condition that one row or group meets; a row of its frames meets it too, without the rest of its own frame.
QUERIES = {
    "a window": (f"select id, k, {BEHIND} s from t", "s = 5 and k = 1", {2, 3}),
    "a group of windows": (
        f"select s, k, max(id) last from (select id, k, {BEHIND} s from t) group by s, k",
        "s = 5 and k = 1",
        {2, 3},
    ),
    "a window over a window": (
        "select id, k, s, sum(s) over (order by id rows between 1 preceding and current row) r "
        f"from (select id, k, {BEHIND} s from t)",
        "r = 11",
        {1, 2, 3},
    ),
    "a window over a group": (
        "select id, k, sum(v) over (partition by k order by id rows between 1 preceding and current row) s "
        "from (select id, k, max(v) v from t group by id, k)",
        "s = 5 and k = 1",
        {2, 3},
    ),
    "a join above a window": (
        f"select a.id, a.s from (select id, k, {BEHIND} s from t) a join (select 5 as five) on a.s = five",
        "id < 4",
        {2, 3},
    ),
    # One row is in several groups, which lack their other rows.
    "cube": ("select k, v, count(*) n from t group by cube(k, v)", "n = 1 and k = 1 and coalesce(v, 5) = 5", {2}),
    "groups of elements": (
        "select tag, count(*) n from (select explode(array(k, v)) tag from t) group by tag",
        "n = 1",
        {3},
    ),
    "groups of pairs": (
        "select a.id + b.id s, count(*) n from t a join t b on a.k = b.k group by a.id + b.id",
        "n < 3 and s in (2, 4, 6)",
        {1, 3},
    ),
}


@pytest.fixture
def t(w: whence.Session) -> None:
    rows.view(w.spark, "t", T, "id bigint, k bigint, v bigint")


@pytest.mark.parametrize(("query", "asked", "witnesses"), QUERIES.values(), ids=QUERIES.keys())
def test_a_row_that_is_a_witness_as_part_of_a_frame_alone_refutes_nothing(
    w: whence.Session, t: None, query: str, asked: str, witnesses: set[int]
) -> None:
    trace = w.backward(w.spark.sql(query).where(asked))
    assert trace.exact
    assert {row.id for row in trace["t"].collect()} == witnesses
    verdict = trace.verify()
    assert verdict.ok, verdict
    assert not verdict.refuted
    (proof,) = verdict.proofs
    assert proof.outcome == PROVEN
    if trace.replay().count() != trace.outputs().count():
        assert "each operator" in proof.how
        assert proof.flow


@pytest.mark.parametrize(("query", "asked", "witnesses"), QUERIES.values(), ids=QUERIES.keys())
def test_a_missing_witness_is_still_told(
    w: whence.Session, t: None, query: str, asked: str, witnesses: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever it is: of each answer one witness after the other is kept back."""
    whole = SqlQuestion.restriction

    def without(question: SqlQuestion, *given: Any, **named: Any) -> Restriction:
        found = whole(question, *given, **named)
        c = question.lineage.c
        fewer = {
            place.number: c.plan_of(question.rows_of([place]).where(f"id <> {gone}"))
            for place in question.lineage.readings
        }
        return replace(found, rows=fewer)

    monkeypatch.setattr(SqlQuestion, "restriction", without)
    for gone in witnesses:
        verdict = w.backward(w.spark.sql(query).where(asked)).verify()
        assert verdict.refuted, gone


@since("4.0", "collations")
def test_texts_that_are_equal_in_their_collation_refute_nothing(spark: SparkSession) -> None:
    """`max` of such texts is any of them."""
    one = spark.sql("select 1 n, 'b' collate utf8_lcase s, array('A' collate utf8_lcase) l")
    other = spark.sql("select 1 n, 'B' collate utf8_lcase s, array('a' collate utf8_lcase) l")
    verdict = compare(one, other)
    assert verdict.ok
    assert "collation" in str(verdict)
    assert not compare(one, spark.sql("select 1 n, 'c' collate utf8_lcase s, array('a' collate utf8_lcase) l")).ok
    assert not compare(one, spark.sql("select 2 n, 'B' collate utf8_lcase s, array('a' collate utf8_lcase) l")).ok
    assert not compare(one, other.union(other)).ok
    assert compare(one, other.union(other), extras_count=False).ok
    assert not compare(one.union(one), other).ok


def test_zeros_of_either_sign_in_lists_are_the_same(spark: SparkSession) -> None:
    """As they are outside of them; files may keep one for the other."""
    one = spark.sql("select 1 n, array(-0.0D, 1D) l, named_struct('x', 0.1D + 0.2D) s")
    assert compare(one, spark.sql("select 1 n, array(0.0D, 1D) l, named_struct('x', 0.3D) s")).ok
    assert not compare(one, spark.sql("select 1 n, array(0.0D, 2D) l, named_struct('x', 0.3D) s")).ok


def test_a_float_that_is_shown_as_a_text_differs_in_its_last_digits(spark: SparkSession) -> None:
    """`describe` shows numbers as texts; sums of floats depend on the order of rows."""
    one = spark.sql("select 'stddev' s, '7.00713921654194' v, map('a', '1.5E-7') m")
    assert compare(one, spark.sql("select 'stddev' s, '7.0071392165419395' v, map('a', '1.5000000000000001E-7') m")).ok
    assert not compare(one, spark.sql("select 'stddev' s, '7.00713921655' v, map('a', '1.5E-7') m")).ok
    assert not compare(spark.sql("select '10000000000001' v"), spark.sql("select '10000000000002' v")).ok


def test_a_subquery_that_compares_a_constant_is_proven(w: whence.Session, t: None) -> None:
    """Spark fails to optimise such a query where it is a branch of a UNION (`key not found`), as in the proof."""
    df = w.spark.sql(
        "select k, exists (select * from (select id, count(*) over (partition by id) n from t) r where l.k = r.id) e "
        "from (with twice as (select 1L k from (select first(v) v from t having count(*) > 1)) "
        "select l.k from twice l left semi join twice r on l.k = r.k) l"
    )
    trace = w.backward(df)
    assert {row.id for row in trace["t"].collect()} == {1, 2, 3, 4, 5}
    assert trace.verify().ok
    assert w.backward(df, columns=["e"]).verify().ok
