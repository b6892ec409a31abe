"""From tables into arrays and back: traces go through both."""

from __future__ import annotations

import numpy as np
import pytest

from arrays.operators import Total, Transposed
from whence.arrays import ArrayError, Workflow, from_frame

pytestmark = pytest.mark.usefixtures("tiny")

ROWS = [(r, c, float(10 * r + c), r - c) for r in range(3) for c in range(4)]


@pytest.fixture(scope="module")
def frame(spark, tmp_path_factory):
    path = str(tmp_path_factory.mktemp("tables") / "pixels")
    spark.createDataFrame(ROWS, "r int, c bigint, brightness double, other int").write.parquet(path)
    return spark.read.parquet(path).withColumnRenamed("brightness", "b").where("other > -9")


@pytest.fixture
def run(w, frame):
    wf = Workflow()
    x, bias = wf.input("image"), wf.input("bias")
    both = wf.add(Summed(), wf.add(Transposed(), x, name="flipped"), bias, name="both")
    wf.add(Total(), both, name="total")
    return w.execute(wf, {"image": from_frame(frame, ["r", "c"], "b"), "bias": np.arange(4.0)[:, None] * np.ones(3)})


class Summed(Transposed):
    def run(self, a, b, cur_modes):
        return a + b

    def map_b(self, outcell, i):
        return [outcell]

    map_f = map_b


def test_a_trace_goes_from_a_query_through_arrays_into_tables(w, run):
    expected = np.array([row[2] for row in ROWS]).reshape(3, 4).T + np.arange(4.0)[:, None]
    assert (run["both"] == expected).all()
    out = run.frame("both")
    assert out.dtypes == [("d0", "bigint"), ("d1", "bigint"), ("value", "double")]
    assert sorted(map(tuple, out.collect())) == [(c, r, expected[c, r]) for c in range(4) for r in range(3)]
    trace = w.backward(out.where("value > 23.5"))
    assert set(trace.sources) == {"pixels", "bias"}
    assert sorted(map(tuple, trace["pixels"].collect())) == [row for row in ROWS if row[2] + row[1] > 23.5]
    assert sorted(map(tuple, trace["bias"].collect())) == [(2, 2, 2.0), (3, 2, 3.0)]
    assert trace.exact
    assert any("flipped = Transposed(image)" in str(step) for step in trace.steps)
    assert "Transposed" in str(trace)
    flipped = next(step for step in trace.steps if step.text.startswith("flipped ="))
    assert sorted(map(tuple, trace.at(flipped).collect())) == [(2, 2, 22.0), (3, 2, 23.0)]


def test_and_forward_again(w, run, frame):
    touched = w.forward(frame.where("r = 1 AND c < 2"), to=run.frame("both"))
    assert sorted((row.d0, row.d1) for row in touched.rows.collect()) == [(0, 1), (1, 1)]
    touched = w.forward(frame.where("r = 1 AND c < 2"), to=run.frame("total").where("value > 0"))
    assert touched.rows.count() == 1


def test_some_cells_and_another_session(w, run, tmp_path, spark):
    import whence

    some = run.frame("both", [(0, 1), (3, 2)])
    assert sorted((row.d0, row.d1) for row in some.collect()) == [(0, 1), (3, 2)]
    with whence.attach(spark, store=tmp_path / "store") as later:
        again = later.reopen(run.id)
        trace = later.backward(again.frame("both", [(0, 1), (3, 2)]).where("d0 = 3"))
        assert [tuple(row)[:2] for row in trace["pixels"].collect()] == [(2, 3)]


def test_more_values_missing_cells_and_what_is_wrong(w, frame, spark):
    wf = Workflow()
    wf.input("x")
    made = w.execute(wf, {"x": from_frame(frame, ["r", "c"], ["b", "other"])})["x"]
    assert made.shape == (3, 4, 2)
    assert made[2, 1].tolist() == [21.0, 1.0]
    holes = frame.where("other != 0")
    made = w.execute(wf, {"x": from_frame(holes, ["r", "c"], "b", fill=-1)})["x"]
    assert made.diagonal().tolist() == [-1.0, -1.0, -1.0]
    texts = holes.selectExpr("r", "c", "CAST(c AS STRING) AS t", "c + (1L << 60) AS large")
    made = w.execute(wf, {"x": from_frame(texts, ["r", "c"], "t", fill="missing")})["x"]
    assert made.diagonal().tolist() == ["missing"] * 3  # not cut to the length of the others
    made = w.execute(wf, {"x": from_frame(texts, ["r", "c"], "large", fill=2**40)})["x"]
    assert (made[0, 0], made[0, 3]) == (2**40, 2**60 + 3)
    for given, said in [
        (from_frame(holes, ["r", "c"], "b", fill="missing"), "fill='missing' cannot stand in the column b, of float64"),
        (from_frame(holes, ["r", "c"], "b"), r"no value of b for the cell \(0, 0\)"),
        (from_frame(frame, "c", "b"), r"several rows for the cell \(0,\)"),
        (from_frame(frame.selectExpr("r - 1 AS r", "c", "b"), ["r", "c"], "b"), r"coordinates \(-1, 0\)"),
        (from_frame(spark.sql("SELECT CAST(NULL AS INT) r, 1.0D v"), "r", "v"), "without a coordinate"),
    ]:
        with pytest.raises(ArrayError, match=said):
            w.execute(wf, {"x": given})
    for index, values, said in [
        ("nowhere", "b", "no column 'nowhere'"),
        ("b", "other", "'b' cannot hold coordinates"),
        ([], "b", "at least one column"),
    ]:
        with pytest.raises(ArrayError, match=said):
            from_frame(frame, index, values)
