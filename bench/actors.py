"""Actors and mining: capture rates, mining of ten million associations, and section 7.3.1 of the Newt paper.

python -m bench.actors [--quick] [--docs]
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet  # noqa: F401  (its import is not what is measured)

from bench.harness import OUT, Bars, Result, finish, progress, write_docs
from bench.joins import build
from whence.actors import Actor, ActorStore
from whence.debug.mining.actors import mine_actors
from whence.debug.mining.mined import Mined

MAGNITUDES = (10, 25, 50, 100, 250, 500, 1000)


def capture_rates(home: Path, count: int) -> dict[str, float]:
    """Microseconds an association, commit included, in one process."""
    store = ActorStore(home)
    random = np.random.default_rng(0)
    numbers, hashes = np.arange(count), random.integers(0, 2**62, count)
    listed, words = numbers.tolist(), [f"word {n}" for n in (hashes % 5000).tolist()]
    tuples = [(n, "x") for n in listed]

    def bulk(inputs: Any, outputs: Any, step: int) -> Callable[[Actor], None]:
        def run(actor: Actor) -> None:
            for start in range(0, count, step):
                actor.capture_many(inputs[start : start + step], outputs[start : start + step])

        return run

    def single(actor: Actor) -> None:
        capture = actor.capture
        for n in listed:
            capture(n, n)

    def paired(actor: Actor) -> None:
        for n in listed:
            actor.add_input(n, n & 1023)
        for tag in range(1024):
            actor.add_output(f"out {tag}", tag)

    ways = {
        "capture_many, numpy": bulk(numbers, hashes, 100_000),
        "capture_many, lists of int and str": bulk(listed, words, 10_000),
        "capture_many, lists of tuples (hashed)": bulk(tuples, tuples, 10_000),
        "capture, one at a time": single,
        "add_input with tags": paired,
    }
    warm = store.register("warm")  # what is imported at the first use is not what is measured
    warm.capture_many(numbers[:10], hashes[:10])
    warm.commit()
    found = {}
    with progress("capture", len(ways)) as tick:
        for name, way in ways.items():
            tick(name)
            actor = store.register(name)
            start = time.perf_counter()
            way(actor)
            actor.commit()
            found[name] = (time.perf_counter() - start) / count * 1e6
    return found


def mine_many(home: Path, associations: int) -> tuple[float, int]:
    """Seconds to mine that many associations of 40 instances, of which one has an odd input."""
    store = ActorStore(home)
    random = np.random.default_rng(1)
    job = store.register("job", kind="job")
    mapper = store.register("map", kind="map", parents=[job])
    each = associations // 40
    for task in range(40):
        inputs = np.repeat(np.arange(each // 2) + task * each, random.poisson(2.0, each // 2))
        if task == 17:
            inputs = np.concatenate([inputs, np.full(500, inputs[1000])])
        with mapper.task(task) as instance:
            instance.capture_many(inputs, random.integers(0, 2**62, len(inputs)))
    mapper.commit()
    job.commit()
    start = time.perf_counter()
    mined = mine_actors(store, job)
    took = time.perf_counter() - start
    assert [s.instance for s in mined.suspects] == ["task 17"], mined
    return took, mined.associations


def _names(mined: Mined) -> list[str]:
    return [f"{s.operator.rpartition('/')[0]}/{s.instance}" for s in mined.suspects]


def anomalies(home: Path, seeds: int) -> dict[int, dict[str, list[tuple[int, int, float]]]]:
    """magnitude -> lineage set -> (faulty found, suspects, seconds) for each seed."""
    found: dict[int, dict[str, list[tuple[int, int, float]]]] = {}
    with progress("mining", len(MAGNITUDES) * seeds) as tick:
        for magnitude in MAGNITUDES:
            results = found.setdefault(magnitude, {"without": [], "bad": [], "bad and good": []})
            for seed in range(seeds):
                tick(f"error magnitude {magnitude}, seed {seed}")
                store = ActorStore(home / f"{magnitude}-{seed}")
                flow = build(store, magnitude, seed=seed)
                for name, choice in (
                    ("without", {}), ("bad", {"bad": flow.bad}), ("bad and good", {"bad": flow.bad, "good": flow.good}),
                ):  # fmt: skip
                    start = time.perf_counter()
                    mined = mine_actors(store, flow.root, **choice)
                    took = time.perf_counter() - start
                    names = _names(mined)
                    results[name].append((sum(f in names for f in flow.faulty), len(names), took))
                    if (name, magnitude, seed) == ("bad", 100, 0):
                        mined.plot(OUT / "actors-suspects.html")
                        mined.plot(OUT / "actors-suspects.png")
                shutil.rmtree(home / f"{magnitude}-{seed}")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the size, two seeds")
    parser.add_argument("--docs", action="store_true", help="also write the result into docs/benchmarks.md")
    options = parser.parse_args()
    quick = options.quick
    home = Path(tempfile.mkdtemp(prefix="actors-bench-"))
    try:
        rates = capture_rates(home / "rates", 200_000 if quick else 2_000_000)
        mine_seconds, mined = mine_many(home / "many", 1_000_000 if quick else 10_000_000)
        found = anomalies(home / "joins", 2 if quick else 10)
    finally:
        shutil.rmtree(home, ignore_errors=True)
    rows = [[name, f"{us:.2f} us", f"{1 / us:.2f} million/s"] for name, us in rates.items()]
    rows.append(
        [f"mine {mined:,} associations", f"{mine_seconds:.1f} s", f"{mined / mine_seconds / 1e6:.1f} million/s"]
    )
    for magnitude, results in found.items():
        for name, several in results.items():
            share = sum(f for f, _, _ in several) / (2 * len(several))
            most = max(s for _, s, _ in several)
            rows.append(
                [f"error magnitude {magnitude}, {name} outputs", f"{share:.0%} of faults", f"at most {most} suspects"]
            )
    large = {m: r for m, r in found.items() if m >= 50}
    all_found = all(f == 2 for r in large.values() for several in r.values() for f, _, _ in several)
    most = {name: max(s for r in found.values() for _, s, _ in r[name]) for name in ("without", "bad")}
    bulk = max(us for name, us in rates.items() if name.startswith("capture_many"))
    result = Result(
        "actors",
        "Actors: capture and mining",
        f"bulk capture {1 / rates['capture_many, numpy']:.1f} million associations/s (slowest form {bulk:.2f} us); "
        f"mine {mined / 1e6:.0f} million associations in {mine_seconds:.1f} s; faults of 50 spurious outputs or more "
        f"{'all found' if all_found else 'NOT all found'}, at most {most['bad']} suspects of 42 with a bad output, "
        f"{most['without']} without",
        ["what", "result", ""],
        rows,
        {
            "bulk_us_slowest": bulk,
            "bulk_million_per_second": 1 / rates["capture_many, numpy"],
            "mine_seconds": mine_seconds,
            "faults_found_from_50": all_found,
            "most_suspects_with_bad": most["bad"],
            "most_suspects_without": most["without"],
        },
    )
    target = finish(
        result,
        Bars(
            [str(m) for m in found],
            {
                f"{what}, {name}": [float(np.mean([row[side] for row in r[name]])) for r in found.values()]
                for name in ("without", "bad")
                for side, what in ((0, "faulty found"), (1, "suspects"))
            },
            "instances of 42 (two are faulty)",
        ),
    )
    if options.docs:
        write_docs(target)


if __name__ == "__main__":
    main()
