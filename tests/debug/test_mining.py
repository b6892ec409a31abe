"""Mining: the repeated Grubbs test, and section 7.3.1's faulty maps among 42 instances."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

import whence
from bench.joins import build
from whence.actors import ActorStore
from whence.debug.mining.actors import mine_actors
from whence.debug.mining.mined import Mined, Sample, mine_samples
from whence.debug.mining.outliers import grubbs_critical, repeated_grubbs, student_quantile

# Rosner's own example (Technometrics 25, 1983): three outliers, the largest three
ROSNER = [
    -0.25, 0.68, 0.94, 1.15, 1.20, 1.26, 1.26, 1.34, 1.38, 1.43, 1.49, 1.49, 1.55, 1.56, 1.58, 1.65, 1.69, 1.70, 1.76,
    1.77, 1.81, 1.91, 1.94, 1.96, 1.99, 2.06, 2.09, 2.10, 2.14, 2.15, 2.23, 2.24, 2.26, 2.35, 2.37, 2.40, 2.47, 2.54,
    2.62, 2.64, 2.90, 2.92, 2.92, 2.93, 3.21, 3.26, 3.30, 3.59, 3.68, 4.30, 4.64, 5.34, 5.42, 6.01,
]  # fmt: skip


@pytest.mark.parametrize(("n", "critical"), [(3, 1.1543), (4, 1.4812), (10, 2.2900), (30, 2.9085), (100, 3.3841)])
def test_critical_values_are_those_of_the_tables(n: int, critical: float) -> None:
    assert grubbs_critical(n) == pytest.approx(critical, abs=2e-4)
    assert student_quantile(0.025, 10) == pytest.approx(2.228139, abs=1e-5)


def test_outliers_that_mask_each_other_are_found() -> None:
    assert repeated_grubbs(ROSNER).high == 5.34
    assert not repeated_grubbs([1] * 50).found
    assert not repeated_grubbs([1, 5]).found
    low = repeated_grubbs([*np.random.default_rng(0).normal(100, 1, 200), 3.0])
    assert low.low == 3.0
    assert low.high == np.inf


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 30), min_size=3, max_size=60), st.sampled_from([1.0, 7.0, 0.25]), st.integers(-50, 50))
def test_scale_and_shift_change_nothing(values: list[int], scale: float, shift: int) -> None:
    one, other = repeated_grubbs(values), repeated_grubbs([v * scale + shift for v in values])
    assert one.found == other.found
    assert one.score == pytest.approx(other.score, rel=1e-6)


def names(mined: Mined) -> list[str]:
    return [f"{s.operator.rpartition('/')[0]}/{s.instance}" for s in mined.suspects]


@pytest.mark.parametrize("magnitude", [50, 1000])
def test_section_7_3_1(tmp_path: Path, magnitude: int) -> None:
    store = ActorStore(tmp_path)
    flow = build(store, magnitude, seed=3)
    without, bad = mine_actors(store, flow.root), mine_actors(store, flow.root, bad=flow.bad)
    assert flow.instances == len(without.instances) == 42
    assert without.associations == flow.associations
    assert set(flow.faulty) <= set(names(without))
    assert len(without.suspects) <= 8
    assert set(flow.faulty) <= set(names(bad))
    assert len(bad.suspects) <= 3
    assert sum(i.considered for i in bad.instances) < 42
    both = mine_actors(store, flow.root, bad=flow.bad, good=flow.good)
    assert set(flow.faulty) <= set(names(both))
    assert sum(i.inputs for i in both.instances) < sum(i.inputs for i in bad.instances)


def test_nothing_is_suspected_where_nothing_is_wrong(tmp_path: Path) -> None:
    store = ActorStore(tmp_path)
    assert mine_actors(store, build(store, 0, seed=4).root).suspects == ()


def test_a_join_that_meets_spurious_records_is_a_consequence(tmp_path: Path) -> None:
    store = ActorStore(tmp_path)
    random = np.random.default_rng(5)
    job = store.register("job", kind="job")
    mapper, join = (store.register(n, kind=n, parents=[job]) for n in ("map", "join"))
    store.flow_link(mapper, join)
    for task in range(3):
        items = random.poisson(3, 500)
        if task == 1:
            items[7] = 400
        ids = np.arange(items.sum()) + task * 100_000
        with mapper.task(task) as t:
            t.capture_many([f"in {task} {n}" for n in range(500)], ids, counts=items)
        with join.task(task) as t:  # each mapped record meets one of 100 partners; the spurious ones all the same
            partner = random.integers(0, 100, len(ids))
            if task == 1:
                partner[items[:7].sum() : items[:8].sum()] = 55
            t.capture_many(ids, ids + 10_000_000)
            t.capture_many([f"partner {task} {p}" for p in partner], ids + 10_000_000)
    for actor in (mapper, join, job):
        actor.commit()
    mined = mine_actors(store, job)
    assert [(s.operator, s.instance) for s in mined.suspects] == [("job/map", "task 1")]
    assert mined.suspects[0].inputs[0] == ("in 1 7", 400)
    assert [(s.operator, s.instance) for s in mined.consequences] == [("job/join", "task 1")]


def test_any_lineage_can_be_mined_through_samples(w: whence.Session, tmp_path: Path) -> None:
    random = np.random.default_rng(6)
    samples = [Sample("flatMap", f"partition {n}", random.poisson(4, 300) + (30 if n == 2 else 0)) for n in range(8)]
    mined = w.mine(samples)
    assert [s.instance for s in mined.suspects] == ["partition 2"]
    assert any("mean multiplicity" in reason for reason in mined.suspects[0].reasons)
    assert "partition 2" in str(mined)
    page = mined.plot(tmp_path / "suspects.html").read_text()
    assert "1 suspects among 8 instances" in page
    assert page.count("<rect") == 8
    picture = mined.plot(tmp_path / "suspects.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    with pytest.raises(ValueError, match=r"html or \.png"):
        mined.plot(tmp_path / "suspects.svg")


def test_a_query_whose_join_fans_out(w: whence.Session, spark: SparkSession, tmp_path: Path) -> None:
    spark.range(0, 300, 1, 3).selectExpr(
        "id", "CASE WHEN id % 60 = 7 AND id > 99 THEN 8 ELSE id % 60 END AS shop"
    ).write.parquet(str(tmp_path / "sales"))
    shops = [(n, n) for n in range(60)] + [(61 + n, 7) for n in range(80)]  # shop 7 stands 81 times
    spark.createDataFrame(shops, "row long, shop long").coalesce(1).write.parquet(str(tmp_path / "shops"))
    sales, directory = spark.read.parquet(str(tmp_path / "sales")), spark.read.parquet(str(tmp_path / "shops"))
    joined = sales.join(directory, "shop")
    mined = w.mine(joined, bad=joined.where("id = 67 AND row = 61"), good=joined.where("id < 60"))
    assert mined.suspects[0].operator == "sales"  # in one of its files, rows of shop 7 have 81 results instead of one
    assert [count for _, count in mined.suspects[0].inputs] == [81, 81]
    assert ".parquet#" in str(mined.suspects[0].inputs[0][0])
    assert [i.operator for i in mined.instances if i.considered] == ["sales", "shops"]  # one file of each
    assert sum(i.inputs for i in mined.instances if i.operator == "sales") == 61  # those below 60, and 67


def test_the_join_where_a_query_fans_out(w: whence.Session, spark: SparkSession, tmp_path: Path) -> None:
    """Two joins and an aggregate: what stands out at the first join is not the fault of what comes after it."""
    sold = [(n, n % 60) for n in range(240)]
    shops = [(n, n % 6) for n in range(60)] + [(7, 1)] * 80  # shop 7 stands 81 times
    spark.createDataFrame(sold, "id long, shop long").coalesce(1).write.parquet(str(tmp_path / "sold"))
    sold_frame = spark.read.parquet(str(tmp_path / "sold"))
    directory = spark.createDataFrame(shops, "shop long, region long").alias("directory")
    regions = spark.createDataFrame([(n, f"region {n}") for n in range(6)], "region long, name string")
    report = sold_frame.join(directory, "shop").join(regions, "region").groupBy("shop").count()
    mined = w.mine(report)
    first, second = dict.fromkeys(i.operator for i in mined.instances if i.operator.startswith("sold at Join"))
    naive = [sum(shop == other for other, _ in shops) for _, shop in sold]
    for operator in (first, second):
        (instance,) = (i for i in mined.instances if i.operator == operator)
        assert (instance.inputs, instance.most) == (len(naive), max(naive))
        assert instance.mean == pytest.approx(sum(naive) / len(naive))
    suspects, consequences = ([s.operator for s in found] for found in (mined.suspects, mined.consequences))
    assert first in suspects
    assert [count for _, count in next(s for s in mined.suspects if s.operator == first).inputs] == [81] * 4
    assert second not in suspects
    assert second in consequences
    assert "sold" not in suspects  # each of its rows led to one row of the result


NATURES = {
    "geometric": lambda random, n: random.geometric(0.15, n),
    "Zipf": lambda random, n: random.zipf(2.0, n),
    "Poisson": lambda random, n: random.poisson(4, n),
    "rare": lambda random, n: random.poisson(0.3, n),
    "constant": lambda random, n: np.full(n, 3),
    "two modes": lambda random, n: np.where(random.random(n) < 0.1, random.poisson(60, n), random.poisson(3, n)),
    "uniform": lambda random, n: random.integers(0, 30, n),
    "log normal": lambda random, n: np.round(random.lognormal(1.5, 1, n)).astype(int),
    "negative binomial": lambda random, n: random.negative_binomial(2, 0.1, n),
    "Zipf, heavier": lambda random, n: np.minimum(random.zipf(1.6, n), 10**6),
    "Poisson of 100": lambda random, n: random.poisson(100, n),
    "two halves": lambda random, n: np.where(random.random(n) < 0.5, random.poisson(20, n), random.poisson(2, n)),
    "mostly none": lambda random, n: np.where(random.random(n) < 0.8, 0, random.geometric(0.3, n)),
    "binomial": lambda random, n: random.binomial(20, 0.4, n),
}


def program(nature: str, seed: int, fault: int = 0) -> list[Sample]:
    """Two operators, each in one instance or four; the fault is in the first instance of the second one."""
    random = np.random.default_rng(seed)
    size, instances = (60, 300, 1000)[seed % 3], 1 if seed % 5 == 0 else 4
    samples = []
    for operator in ("first", "second"):
        for instance in range(instances):
            counts = NATURES[nature](random, size)
            if operator == "second" and instance == 0:
                counts[7] += fault
            samples.append(Sample(operator, str(instance), counts, order=operator == "second"))
    return samples


def test_multiplicities_that_are_skewed_by_nature_are_no_fault() -> None:
    """One program in twenty may be accused by chance; of programs with a fault, what is accused must be the fault."""
    accused = [(n, seed) for n in NATURES for seed in range(5) if mine_samples(program(n, seed)).suspects]
    assert len(accused) <= len(NATURES) * 5 // 20, accused
    found = right = 0
    faults = {"Poisson": 50, "constant": 50, "rare": 50, "geometric": 400, "uniform": 100, "two halves": 400}
    for nature, fault in faults.items():
        for seed in range(4):
            named = [(s.operator, s.instance) for s in mine_samples(program(nature, seed, fault)).suspects]
            found += len(named)
            right += ("second", "0") in named
    assert right >= 23
    assert right / found >= 0.9


# -- RDDs --------------------------------------------------------------------------------------------------------------


def lines(n: int = 240) -> list[str]:
    found = [" ".join(f"w{(line * 7 + k) % 40}" for k in range(3 + line % 3)) for line in range(n)]
    found[127] += " spurious" * 300  # in the third of four partitions
    return found


def test_an_rdd_whose_flat_map_goes_wrong(w: whence.Session) -> None:
    words = w.context.parallelize(lines(), 4).flatMap(str.split).map(lambda word: (word, 1))
    entries = [f"w{n}" for n in range(40)] + ["spurious"]
    explained = words.join(w.context.parallelize(entries, 2).map(lambda word: (word, len(word))), 2)
    result = explained.map(lambda kv: (kv[1][1], 1)).reduceByKey(lambda a, b: a + b)
    assert len(result.collect()) == 3
    found = result.multiplicities()
    split = [m for m in found if m.operator.startswith("flatMap > map")]
    assert [m.counts.tolist() for m in split] == [
        [len(line.split()) for line in lines()[start : start + 60]] for start in range(0, 240, 60)
    ]
    every = [word for line in lines() for word in line.split()]
    naive = sorted([1] * len(every) + [every.count(word) for word in entries])
    (joined,) = {m.operator for m in found if "join" in m.operator}
    assert sorted(n for m in found if m.operator == joined for n in m.counts.tolist()) == naive
    mined = w.mine(result)
    assert [(s.operator, s.instance) for s in mined.suspects] == [(split[0].operator, "partition 2")]
    assert mined.suspects[0].inputs[0] == (lines()[127], len(lines()[127].split()))
    assert [s.operator for s in mined.consequences] == [joined]
    assert mined.consequences[0].inputs[0][1] == 300


def test_an_rdd_mined_with_bad_and_good_records(w: whence.Session) -> None:
    counts = w.context.parallelize(lines(), 4).flatMap(str.split).map(lambda word: (word, 1)).reduceByKey(
        lambda a, b: a + b, 2
    )  # fmt: skip
    counts.collect()
    for bad in (("spurious", 300), counts.filter(lambda kv: kv[0] == "spurious")):
        mined = w.mine(counts, bad=bad)
        considered = [i.instance for i in mined.instances if i.considered and i.operator.startswith("flatMap")]
        assert considered == ["partition 2"]
        assert [s.instance for s in mined.suspects] == ["partition 2"]
    several = lines()
    good = [(word, sum(line.split().count(word) for line in several)) for word in ("w1", "w2")]
    winnowed = [m for m in counts.multiplicities(("spurious", 300), good) if m.operator.startswith("flatMap")]
    for m in winnowed:
        part = several[60 * m.partition : 60 * m.partition + 60]
        naive = [len(line.split()) for line in part if {"spurious", "w1", "w2"} & set(line.split())]
        assert m.counts.tolist() == naive  # only lines in the lineage of these, with all their words
    with pytest.raises(whence.WhenceError, match="no such records"):
        w.mine(counts, bad=("never", 0))


def test_a_task_that_loses_its_inputs_stands_out() -> None:
    samples = [Sample("parse", str(n), np.full(200, 5) if n != 4 else np.r_[np.full(190, 5), np.zeros(10, int)])
               for n in range(6)]  # fmt: skip
    (suspect,) = mine_samples(samples).suspects
    assert suspect.instance == "4"
    assert suspect.inputs[0][1] == 0
