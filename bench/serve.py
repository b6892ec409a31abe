# ruff: noqa: E501 - rows of data read best as rows
"""The server under load: 100,000 runs, 20,000 datasets, 1,000,000 column edges; 50 clients that each ask once a second.

20,000 datasets in 40 layers of 500; each is made from two of the layer before, five times over, with column links of each
run's own. Server and clients share the machine. What is asked: lineage of depth 3 and 10 (both directions, up to 2,000
nodes), search, and all of them mixed. The server's own CPU time per request is measured too: unlike latency it hardly
depends on what else the machine does.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from bench import harness
from bench.catalog import places
from bench.harness import Bars, Result
from whence.store import Store
from whence.store.changes import bump
from whence.store.schema import OPEN, aliases, datasets, edges, mapping_columns, mappings, runs, uses, versions

LAYERS, WIDTH, TURNS = 40, 500, 5
COLUMNS = tuple(f"column_{n}" for n in range(5))
CLIENTS = 50
LIMITS = {"lineage, depth 3": 50.0, "lineage, depth 10": 200.0, "search": 50.0}
MEMORY, START = 200.0, 1.0


def name_of(number: int) -> str:
    layer, place = divmod(number - 1, WIDTH)
    return f"warehouse.layer_{layer}.table_{place}"


def fill(store: Store, scale: float) -> dict[str, int]:
    chance = random.Random(5)
    turns = max(1, round(TURNS * scale))
    schema = [[c, "int"] for c in COLUMNS]
    tables: dict[object, list[dict[str, object]]] = {
        t: [] for t in (datasets, aliases, runs, versions, mappings, mapping_columns, edges, uses)
    }
    sources = {
        n: [n - (n - 1) % WIDTH - WIDTH + chance.randrange(WIDTH) for _ in range(2)]
        for n in range(WIDTH + 1, LAYERS * WIDTH + 1)
    }
    clock = 1_760_000_000.0
    for n in range(1, LAYERS * WIDTH + 1):
        tables[datasets].append(
            {
                "id": n,
                "namespace": "s3://bench",
                "name": name_of(n),
                "kind": "table",
                "created": clock,
                "version": turns if n > WIDTH else 1,
                "changed": 1,
            }
        )
        tables[aliases].append({"dataset": n, "namespace": "s3://bench", "name": name_of(n), "since": 0.0})
        if n <= WIDTH:
            tables[versions].append({"dataset": n, "number": 1, "at": clock, "how": "seen", "columns": schema})
    number = 0
    for turn in range(1, turns + 1):
        for n, read in sources.items():
            number += 1
            clock += 1.0
            run = f"0f8fad5b-d9cb-469f-{turn:04d}-{n:012d}"
            tables[runs].append(
                {
                    "id": run,
                    "kind": "query",
                    "name": f"insert into {name_of(n)}",
                    "status": "completed",
                    "started": clock,
                    "ended": clock + 0.5,
                    "application": f"app-{turn}",
                    "details": {},
                    "changed": 1,
                }
            )
            tables[versions].append(
                {"dataset": n, "number": turn, "run": run, "at": clock, "how": "overwrite", "columns": schema}
            )
            tables[mappings].append({"id": number, "digest": f"{number}"})
            for source in dict.fromkeys(read):
                version = turn if source > WIDTH else 1
                tables[mapping_columns] += [
                    {
                        "mapping": number,
                        "source": source,
                        "source_column": c,
                        "target_column": COLUMNS[chance.randrange(5)],
                        "kind": "DIRECT",
                        "subtype": "TRANSFORMATION",
                        "masking": 0,
                    }
                    for c in COLUMNS
                ]
                tables[edges].append(
                    {
                        "run": run,
                        "source": source,
                        "source_version": version,
                        "target": n,
                        "target_version": turn,
                        "closed": OPEN if turn == turns else turn + 1,
                        "kind": "write",
                        "mapping": number,
                        "at": clock,
                        "changed": 1,
                    }
                )
                tables[uses].append({"run": run, "dataset": source, "role": "input", "version": version})
            tables[uses].append({"run": run, "dataset": n, "role": "output", "version": turn})
    with store.catalog._writer.begin() as connection:
        bump(connection)
        for table, rows in tables.items():
            for first in range(0, len(rows), 20_000):
                connection.execute(table.insert(), rows[first : first + 20_000])  # type: ignore[attr-defined]
        connection.exec_driver_sql("ANALYZE")
    return {"datasets": len(tables[datasets]), "runs": number, "column edges": len(tables[mapping_columns])}


class Server:
    def __init__(self, store: str) -> None:
        self.began = time.perf_counter()
        command = [sys.executable, "-m", "whence.serve.cli", "serve", "--store", store, "--port", "0"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        found = re.search(r"http://127\.0\.0\.1:(\d+)", self.process.stdout.readline())
        assert found is not None
        self.port = int(found[1])
        urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health").read()
        self.start = time.perf_counter() - self.began
        self.start_cpu = self.cpu()

    def cpu(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self) -> float:
        """Resident megabytes of it and its children."""
        total = 0
        for one in Path("/proc").glob("[0-9]*/status"):
            try:
                told = one.read_text()
            except OSError:
                continue
            is_mine = one.parent.name == str(self.process.pid) or f"PPid:\t{self.process.pid}\n" in told
            found = re.search(r"VmRSS:\s+(\d+)", told)
            total += int(found[1]) if is_mine and found else 0
        return total / 1024


@contextmanager
def served(store: str) -> Iterator[Server]:
    server = Server(store)
    try:
        yield server
    finally:
        server.process.terminate()
        server.process.wait(20)


def address(kind: str, chance: random.Random) -> str:
    if kind == "mixed":
        kind = chance.choice(list(LIMITS))
    if kind == "search":
        word = chance.choice(
            [
                f"table_{chance.randrange(WIDTH)}",
                f"layer_{chance.randrange(LAYERS)} table",
                "column_3",
                f"{chance.randrange(10**5):05d}",
            ]
        )
        return f"/api/v1/search?q={quote(word)}"
    depth = 3 if kind.endswith("3") else 10
    name = name_of(chance.randrange(LAYERS * WIDTH) + 1)
    return f"/api/v1/lineage?name={quote(name)}&namespace={quote('s3://bench')}&direction=both&depth={depth}"


async def client(port: int, kind: str, seconds: float, seed: int, took: list[float], sizes: list[int]) -> None:
    """Asks once a second, whether or not the last answer came quickly."""
    chance = random.Random(seed)
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**22)
    await asyncio.sleep(chance.random())
    end = time.perf_counter() + seconds
    due = time.perf_counter()
    while due < end:
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        request = f"GET {address(kind, chance)} HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept-Encoding: gzip\r\n\r\n"
        writer.write(request.encode())
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        assert head.startswith("http/1.1 200"), head
        size = int(re.search(r"content-length: (\d+)", head)[1])  # type: ignore[index]
        await reader.readexactly(size)
        took.append(1000 * (time.perf_counter() - due))
        sizes.append(size)
        due += 1.0
    writer.close()


def load(server: Server, kind: str, seconds: float) -> dict[str, float]:
    took: list[float] = []
    sizes: list[int] = []

    async def all_of_them() -> None:
        await asyncio.gather(*(client(server.port, kind, seconds, seed, took, sizes) for seed in range(CLIENTS)))

    before = server.cpu()
    asyncio.run(all_of_them())
    cpu = server.cpu() - before
    took.sort()
    return {
        "p50": took[len(took) // 2], "p95": took[int(0.95 * len(took))], "cpu": 1000 * cpu / len(took),
        "kilobytes": sum(sizes) / len(sizes) / 1000, "requests": len(took),
    }  # fmt: skip


def main() -> None:
    parser = harness.arguments("The server under load", rounds=1)
    parser.add_argument("--scale", type=float, default=1.0, help="1 is 100,000 runs and 1,000,000 column edges")
    parser.add_argument("--seconds", type=float, default=20.0, help="how long each kind of question is asked")
    parser.add_argument("--only", help="SQLite or PostgreSQL")
    asked = parser.parse_args()
    home = Path(tempfile.mkdtemp(prefix="whence-bench-"))
    rows, figures, raw = [], {}, {}
    kinds = [*LIMITS, "mixed"]
    with places(home) as databases, harness.progress("serve", len(databases) * (len(kinds) + 1)) as tick:
        for database, place in databases.items():
            if asked.only and database != asked.only:
                continue
            url = f"{place}/serve"
            if database != "SQLite":
                import psycopg

                with psycopg.connect(place, autocommit=True) as connection:
                    connection.execute("CREATE DATABASE serve")
                url = f"{place.rpartition('/')[0]}/serve?tables={home}/tables"
            tick(f"{database}: filling")
            store = Store.at(url)
            counts = fill(store, asked.scale)
            store.close()
            with served(url) as server:
                load(server, "mixed", 3)
                for kind in kinds:
                    tick(f"{database}: {kind}")
                    found = load(server, kind, asked.seconds)
                    raw[f"{database}, {kind}"] = found
                    limit = LIMITS.get(kind)
                    figures[f"{database} {kind} p95"] = found["p95"]
                    figures[f"{database} {kind} cpu"] = found["cpu"]
                    rows.append((f"{database}, {kind}", f"{found['requests']:.0f}", f"{found['p50']:.1f} ms", f"{found['p95']:.1f} ms",
                                 "" if limit is None else f"{limit:.0f} ms", f"{found['cpu']:.1f} ms", f"{found['kilobytes']:.0f} kB"))  # fmt: skip
                memory = server.memory()
                figures[f"{database} memory"], figures[f"{database} start"] = memory, server.start
                rows.append(
                    (
                        f"{database}: /health after {server.start:.2f} s (promised {START:.0f} s; {server.start_cpu:.2f} s of CPU), memory {memory:.0f} MB (promised {MEMORY:.0f} MB)",
                        "",
                        "",
                        "",
                        "",
                        "",
                        "",
                    )
                )
    shutil.rmtree(home, ignore_errors=True)
    busy = os.getloadavg()[0]
    told = ", ".join(
        f"{k} p95 {v:.0f} ms"
        for k, v in ((k, figures[f"{d} {k} p95"]) for d in databases for k in LIMITS if f"{d} {k} p95" in figures)
    )
    result = Result(
        name="serve",
        title="The server under load",
        line=f"{told}; load average of the machine {busy:.0f}",
        columns=("questions", "requests", "p50", "p95", "promised", "server's CPU", "answer"),
        rows=rows,
        figures=figures,
        notes=(
            f"{json.dumps(counts)}; {CLIENTS} clients that each ask once a second, on the same {os.cpu_count()} cores as the server.",
            f"The machine's load average at the end was {busy:.1f}: latencies include waiting for other programs, the server's CPU time does not.",
        ),
        raw=raw,
    )
    series = {"p95": [found["p95"] for found in raw.values()], "server's CPU": [found["cpu"] for found in raw.values()]}
    target = harness.finish(result, Bars(list(raw), series, "ms", log=True))
    if asked.docs:
        harness.write_docs(target)


if __name__ == "__main__":
    main()
