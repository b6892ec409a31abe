# ruff: noqa: E501 - rows of data read best as rows
"""Lineage questions in a large catalogue: 100,000 runs and 1,000,000 column edges, depth 10, on SQLite and PostgreSQL.

2,000 datasets of ten columns in 50 layers; each is made from two of the layer before, 50 times over. Three shapes:
- nightly: every night the same job overwrites its table (runs share their column links)
- changing: every run has column links of its own (a million rows of them)
- growing: every run appends, so that all runs stay behind the newest version
"""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from bench import harness
from bench.harness import Bars, Result
from whence.store import Store
from whence.store.schema import OPEN, aliases, datasets, edges, mapping_columns, mappings, runs, versions

LIMIT = 0.100
LAYERS, WIDTH, REPEATS = 50, 40, 50
COLUMNS = tuple(f"c{n}" for n in range(5))


def fill(store: Store, shape: str, scale: float) -> tuple[int, int]:
    """Rows as the recorder writes them, in bulk; the numbers of runs and column edges."""
    chance = random.Random(7)
    repeats = max(1, int(REPEATS * scale))
    engine = store.catalog._writer
    schema = [[c, "int"] for c in COLUMNS]
    of_datasets, of_aliases, of_versions, of_runs, of_edges, of_mappings, of_columns = ([] for _ in range(7))
    clock, mapping = 1.0, 0
    for layer in range(LAYERS):
        for place in range(WIDTH):
            number = layer * WIDTH + place + 1
            last = repeats if layer else 1
            of_datasets.append(
                {"id": number, "namespace": "bench", "name": f"t{layer}_{place}", "kind": "table", "version": last}
            )
            of_aliases.append({"dataset": number, "namespace": "bench", "name": f"t{layer}_{place}", "since": 0.0})
    sources = {
        layer * WIDTH + place + 1: [(layer - 1) * WIDTH + chance.randrange(WIDTH) + 1 for _ in range(2)]
        for layer in range(1, LAYERS)
        for place in range(WIDTH)
    }
    own: dict[int, int] = {}
    for turn in range(1, repeats + 1):
        for layer in range(LAYERS):
            for place in range(WIDTH):
                number = layer * WIDTH + place + 1
                clock += 1.0
                if layer == 0:
                    if turn == 1:
                        of_versions.append(
                            {"dataset": number, "number": 1, "at": clock, "how": "seen", "columns": schema}
                        )
                    continue
                run = f"run-{turn}-{number}"
                of_runs.append({"id": run, "kind": "query", "name": run, "status": "completed", "started": clock,
                                "ended": clock, "application": f"app-{turn}", "details": {}})  # fmt: skip
                how = "append" if shape == "growing" else "overwrite"
                of_versions.append(
                    {"dataset": number, "number": turn, "run": run, "at": clock, "how": how, "columns": schema}
                )
                if shape == "changing" or number not in own:
                    mapping += 1
                    own[number] = mapping
                    of_mappings.append({"id": mapping, "digest": f"{mapping}"})
                    of_columns += [
                        {"mapping": mapping, "source": source, "source_column": column, "target_column": COLUMNS[chance.randrange(5)],
                         "kind": "DIRECT", "subtype": "TRANSFORMATION", "masking": 0}
                        for source in sources[number] for column in COLUMNS
                    ]  # fmt: skip
                closed = OPEN if shape == "growing" or turn == repeats else turn + 1
                for source in sources[number]:
                    read = turn if layer > 1 else 1
                    of_edges.append({"run": run, "source": source, "source_version": read, "target": number, "target_version": turn,
                                     "closed": closed, "kind": "write", "mapping": own[number], "at": clock})  # fmt: skip
    with engine.begin() as connection:
        for table, rows in (
            (datasets, of_datasets), (aliases, of_aliases), (runs, of_runs), (versions, of_versions), (mappings, of_mappings),
            (mapping_columns, of_columns), (edges, of_edges),
        ):  # fmt: skip
            for first in range(0, len(rows), 20_000):
                connection.execute(table.insert(), rows[first : first + 20_000])
        connection.exec_driver_sql("ANALYZE")
    return len(of_runs), 10 * len(of_runs)


def ask(store: Store, rounds: int) -> dict[str, list[float]]:
    chance = random.Random(3)
    catalog, middle = store.catalog, 1.0 + LAYERS * WIDTH * (REPEATS // 2)
    took: dict[str, list[float]] = {"datasets": [], "columns": [], "one column": [], "forward": [], "as of": []}
    for _ in range(rounds):
        name = ("bench", f"t{LAYERS - 1}_{chance.randrange(WIDTH)}")
        first = ("bench", f"t{LAYERS - 11}_{chance.randrange(WIDTH)}")
        took["datasets"].append(harness.timed(lambda n=name: catalog.lineage(n, depth=10)))
        took["columns"].append(harness.timed(lambda n=name: catalog.lineage(n, depth=10, level="column")))
        took["one column"].append(harness.timed(lambda n=name: catalog.lineage(n, depth=10, column="c1")))
        took["forward"].append(harness.timed(lambda n=first: catalog.lineage(n, direction="forward", depth=10)))
        took["as of"].append(harness.timed(lambda n=name: catalog.lineage(n, depth=10, as_of=middle)))
    return took


@contextmanager
def places(home: Path) -> Iterator[dict[str, str]]:
    """Where to build the catalogues: a directory, and a PostgreSQL server if there is one."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    import postgres_server

    if postgres_server.find_initdb() is None:
        harness.console.print("no PostgreSQL here: initdb was not found")
        yield {"SQLite": str(home)}
        return
    with postgres_server.postgres_server() as url:
        yield {"SQLite": str(home), "PostgreSQL": url}


def main() -> None:
    parser = harness.arguments("Lineage questions in a large catalogue", rounds=11)
    parser.add_argument("--scale", type=float, default=1.0, help="1 is 100,000 runs and 1,000,000 column edges")
    asked = parser.parse_args()
    home = Path(tempfile.mkdtemp(prefix="whence-bench-"))
    rows, figures, raw = [], {}, {}
    shapes = ("nightly", "changing", "growing")
    with places(home) as databases, harness.progress("catalogue", 2 * len(shapes) * len(databases)) as tick:
        for kind, place in databases.items():
            for shape in shapes:
                tick(f"{kind} {shape}: filling")
                if kind == "SQLite":
                    store = Store.at(f"{place}/{shape}")
                else:
                    import psycopg

                    with psycopg.connect(place, autocommit=True) as connection:
                        connection.execute(f"CREATE DATABASE {shape}")
                    store = Store.at(f"{place.rpartition('/')[0]}/{shape}?tables={home}/tables")
                start = time.perf_counter()
                count, column_edges = fill(store, shape, asked.scale)
                filled = time.perf_counter() - start
                tick(f"{kind} {shape}: asking")
                ask(store, 1)
                took = ask(store, asked.rounds)
                store.close()
                raw[f"{kind} {shape}"] = took
                for question, seconds in took.items():
                    figures[f"{kind} {shape} {question}"] = median(seconds)
                rows.append((f"{kind}, {shape}", f"{count:,}", f"{column_edges:,}", f"{filled:.0f} s",
                             *(f"{1000 * median(s):.1f} ms" for s in took.values())))  # fmt: skip
    shutil.rmtree(home, ignore_errors=True)
    worst = max(figures, key=lambda name: figures[name])
    result = Result(
        name="catalog",
        title="Lineage of depth 10 in a large catalogue",
        line=f"slowest median {1000 * figures[worst]:.1f} ms ({worst}; promised {1000 * LIMIT:.0f} ms)",
        columns=(
            "catalogue",
            "runs",
            "column edges",
            "filled",
            "datasets",
            "columns",
            "one column",
            "forward",
            "as of",
        ),
        rows=rows,
        figures=figures,
        notes=("Median of questions about different datasets, each from the question to the frozen values in Python.",),
        raw=raw,
    )
    series = {q: [1000 * median(raw[name][q]) for name in raw] for q in next(iter(raw.values()))}
    target = harness.finish(result, Bars(list(raw), series, "ms", limit=1000 * LIMIT, log=True))
    if asked.docs:
        harness.write_docs(target)


if __name__ == "__main__":
    main()
