"""A small MapReduce in plain Python processes, instrumented as section 6.1 of the Newt paper instruments Hadoop.

The job controller registers a job with its record reader, map, reduce and record writer, links them, and commits them
when their tasks have ended. Readers and writers name records by place, (file, offset, length), so that the next job may
cut the bytes differently. The job can be restarted: its input is in files.

    python examples/mapreduce.py
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from whence.actors import Actor, ActorStore, Location

Pair = tuple[str, Any]
MapFunction = Callable[[str, str], Iterable[Pair]]
ReduceFunction = Callable[[str, Iterator[Any]], Iterable[Pair]]


def read_records(path: str) -> Iterator[tuple[Location, str]]:
    offset = 0
    with open(path, "rb") as data:
        for line in data:
            yield Location(path, offset, len(line)), line.decode().rstrip("\n")
            offset += len(line)


def map_task(number: int, path: str, function: MapFunction, reader: Actor, mapper: Actor) -> list[Pair]:
    emitted: list[Pair] = []
    with reader.task(number) as reading, mapper.task(number) as mapping:
        for place, line in read_records(path):
            record = (f"{place.file}@{place.offset}", line)
            if reading.capture(place, record):
                continue
            try:
                emitted += [pair for pair in function(*record) if not mapping.capture(record, pair)]
            except Exception as error:
                mapper.fail(record, error=error)
                raise
    return emitted


def reduce_task(
    number: int, pairs: list[Pair], path: str, function: ReduceFunction, reducer: Actor, writer: Actor
) -> None:
    groups: dict[str, list[Any]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    offset = 0
    with reducer.task(number) as reducing, writer.task(number) as writing, open(path, "wb") as out:
        for key in sorted(groups):

            def values(key: str = key) -> Iterator[Any]:
                for value in groups[key]:
                    if not reducing.add_input((key, value)):
                        yield value

            for result in function(key, values()):
                if reducing.add_output(result):
                    continue
                line = (json.dumps(result) + "\n").encode()
                if not writing.capture(result, Location(path, offset, len(line))):
                    out.write(line)
                    offset += len(line)
            reducing.reset()


def run_job(
    store: ActorStore,
    name: str,
    inputs: list[str],
    output: str,
    mapper: str,
    reducer: str,
    reducers: int = 2,
    application: Actor | None = None,
) -> Actor:
    """Run one job; `mapper` and `reducer` are module:function, so that a restart finds them again."""
    conf = {"store": store.root, "inputs": inputs, "output": output, "mapper": mapper, "reducer": reducer,
            "reducers": reducers}  # fmt: skip
    containers = [application] if application else []
    job = store.register(name, kind="job", parents=containers, conf=conf, restart=restart, materialized=True)
    reading, mapping, reducing, writing = (
        store.register(part, kind=part, parents=[job]) for part in ("reader", "map", "reduce", "writer")
    )
    for giver, taker in ((reading, mapping), (mapping, reducing), (reducing, writing)):
        store.flow_link(giver, taker)
    Path(output).mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        maps = [
            pool.submit(map_task, n, path, found(mapper), reading, mapping) for n, path in enumerate(inputs)
        ]  # fmt: skip
        pairs = [pair for task in maps for pair in task.result()]
        parts: list[list[Pair]] = [[] for _ in range(reducers)]
        for pair in pairs:
            parts[sum(pair[0].encode()) % reducers].append(pair)
        reduces = [
            pool.submit(reduce_task, n, part, f"{output}/part-{n}", found(reducer), reducing, writing)
            for n, part in enumerate(parts)
        ]
        for task in reduces:
            task.result()
    for actor in (reading, mapping, reducing, writing, job):
        actor.commit()
    return job


def restart(name: str, conf: Mapping[str, Any]) -> list[Any]:
    """Run a job again into a directory of its own, and give what it wrote."""
    with tempfile.TemporaryDirectory() as output:
        run_job(
            ActorStore(conf["store"]), name, list(conf["inputs"]), output, conf["mapper"], conf["reducer"],
            conf["reducers"],
        )  # fmt: skip
        return read_output(output)


def found(reference: str) -> Any:
    module, _, name = reference.partition(":")
    return getattr(import_module(module), name)


def read_output(directory: str) -> list[Any]:
    return sorted(json.loads(line) for part in Path(directory).iterdir() for line in part.read_text().splitlines())


def split_words(place: str, line: str) -> Iterable[Pair]:
    return [(word, 1) for word in line.split()]


def add(word: str, ones: Iterator[int]) -> Iterable[Pair]:
    yield word, sum(ones)


def by_count(place: str, line: str) -> Iterable[Pair]:
    word, count = json.loads(line)
    yield f"{count} times", word


def longest(count: str, words: Iterator[str]) -> Iterable[Pair]:
    """Not monotone: one word more may change the answer."""
    yield count, max(words, key=lambda w: (len(w), w))


def main() -> None:
    sys.path.insert(0, str(Path(__file__).parent))
    home = Path(tempfile.mkdtemp(prefix="whence-mapreduce-"))
    for n, text in enumerate(("to be or not to be\nthat is the question\n", "whether tis nobler\nin the mind\n")):
        (home / f"in-{n}").write_text(text)
    store = ActorStore(home / "lineage")
    app = store.register("hamlet", kind="application")
    inputs = [str(home / f"in-{n}") for n in range(2)]
    one = run_job(store, "count", inputs, str(home / "counts"), "mapreduce:split_words", "mapreduce:add", 2, app)
    middle = [str(p) for p in sorted((home / "counts").iterdir())]
    two = run_job(
        store, "longest", middle, str(home / "longest"), "mapreduce:by_count", "mapreduce:longest", 1, app
    )  # fmt: skip
    store.flow_link(one, two)
    app.commit()
    print("result:", read_output(str(home / "longest")))
    writer = next(s for s in store.actors("writer") if s.path.startswith("hamlet/longest"))
    trace = store.trace([Location(str(home / "longest" / "part-0"), 0)], root=writer)
    for step in trace.steps:
        print(f"{step.actor.path:40} {len(step.inputs):3} in {len(step.outputs):3} out")
    for file, offset, length in sorted(trace.records):
        print("came from:", Path(file).read_bytes()[offset : offset + length].decode().strip())


if __name__ == "__main__":
    main()
