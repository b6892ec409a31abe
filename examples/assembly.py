"""De-novo assembly with a polluted input, cleaned by lineage: section 7.3.2 of the Newt paper, on generated genomes.

Short reads of a bacterial genome, 2.8% of them from a virus that shares a few stretches with it, are put together with
a de Bruijn graph: reads are cut into k-mers, rare k-mers are dropped as reading errors (with a threshold for each
bucket, which needs the whole bucket), what remains is chained where the way is unique, by pointer doubling, and every
chain is a contig. Where the virus shares a stretch, the bacterial chain breaks.

Every step reports to an actor. Bad contigs depend on almost all reads, because of the buckets; the stage where their
lineage and that of the best contig meet least is the one to clean at.

    python examples/assembly.py
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pyspark import RDD, SparkContext
from pyspark.sql import SparkSession

import whence
from whence.actors import Actor, ActorStore
from whence.debug.clean import Cleaned, clean

BUCKETS = 4


def genomes(length: int, seed: int, shared: int = 4, stretch: int = 40) -> tuple[str, str]:
    """A bacterial and a viral genome; the virus has `shared` stretches of the bacterium."""
    source = random.Random(seed)
    bacterium = "".join(source.choice("ACGT") for _ in range(length))
    virus = "".join(source.choice("ACGT") for _ in range(stretch))
    for n in range(shared):
        start = (2 * n + 1) * length // (2 * shared)
        virus += bacterium[start : start + stretch] + "".join(source.choice("ACGT") for _ in range(2 * stretch))
    return bacterium, virus


def make_reads(path: Path, bacterium: str, virus: str, pollution: float, seed: int, length: int = 60) -> int:
    """Reads at 30-fold coverage, of which a share of `pollution` is viral, one JSON line each."""
    source = random.Random(seed)
    total = 30 * len(bacterium) // length
    viral = round(total * pollution / (1 - pollution))
    with open(path, "w") as out:
        for n in range(total + viral):
            genome = virus if n >= total else bacterium
            start = source.randrange(len(genome) - length + 1)
            out.write(json.dumps([f"read {n}", genome[start : start + length]]) + "\n")
    return viral


def assemble(spark: SparkSession, store: ActorStore, home: Path, k: int) -> tuple[Actor, dict[str, str]]:
    app = store.register("assembly", kind="application")
    conf = {"home": str(home), "k": k}
    jobs = [
        store.register(name, kind="job", parents=[app], conf=conf, restart=restart, materialized=True)
        for name in ("count", "chain")
    ]
    store.flow_link(*jobs)
    count(spark.sparkContext, store, jobs[0], home, k)
    contigs = chain(spark.sparkContext, store, jobs[1], home, k)
    app.commit()
    return app, contigs


def restart(name: str, conf: Mapping[str, Any]) -> dict[str, str]:
    context = SparkContext.getOrCreate()
    home = Path(conf["home"])
    store = ActorStore(home / "lineage" / "actors")
    job = store.register(name, kind="job")
    return (count if name == "count" else chain)(context, store, job, home, conf["k"])


def count(context: SparkContext, store: ActorStore, job: Actor, home: Path, k: int) -> dict[str, str]:
    cutter = store.register("k-mers", kind="map", parents=[job])
    counter = store.register("counts", kind="reduce", parents=[job])
    store.flow_link(cutter, counter)

    def cut(lines: Iterable[str]) -> Iterator[tuple[int, tuple[str, str]]]:
        for read, bases in map(json.loads, lines):
            for start in range(len(bases) - k + 1):
                kmer = bases[start : start + k]
                if not cutter.capture(read, f"{read} {kmer}"):
                    yield sum(map(ord, kmer)) % BUCKETS, (read, kmer)

    def frequent(buckets: Iterable[tuple[int, Iterable[tuple[str, str]]]]) -> Iterator[str]:
        """The threshold is a tenth of the bucket's mean: known when all of it has been seen."""
        for bucket, found in buckets:
            counts: dict[str, int] = {}
            for read, kmer in found:
                if not counter.add_input(f"{read} {kmer}", tag=bucket):
                    counts[kmer] = counts.get(kmer, 0) + 1
            least = max(2.0, sum(counts.values()) / max(len(counts), 1) / 10)
            for kmer in sorted(counts):
                if counts[kmer] >= least and not counter.add_output(f"0:{kmer}", tag=bucket):
                    yield kmer
            counter.reset(bucket)

    lines = context.textFile(str(home / "reads.json"), 2)
    nodes = lines.mapPartitions(cut).groupByKey(2).mapPartitions(frequent).collect()
    (home / "nodes.json").write_text(json.dumps(sorted(nodes)))
    for actor in (cutter, counter, job):
        actor.commit()
    return {}


def chain(context: SparkContext, store: ActorStore, job: Actor, home: Path, k: int) -> dict[str, str]:
    nodes = json.loads((home / "nodes.json").read_text())
    linker = store.register("link", kind="map", parents=[job])
    table: RDD[tuple[str, tuple[str, int]]] = context.parallelize(nodes, 2).filter(
        lambda kmer: not linker.capture(f"0:{kmer}", f"1:{kmer}")
    )  # type: ignore[assignment]
    ends = table.flatMap(lambda kmer: [(kmer[:-1], (0, kmer)), (kmer[1:], (1, kmer))]).groupByKey(2)  # type: ignore

    def unique(group: tuple[str, Iterable[tuple[int, str]]]) -> Iterator[tuple[str, tuple[str, int]]]:
        """A k-mer that begins where exactly one other ends follows that one; else it is the head of a chain."""
        begin = [kmer for side, kmer in group[1] if side == 0]
        end = [kmer for side, kmer in group[1] if side == 1]
        for kmer in begin:
            alone = len(begin) == len(end) == 1 and end[0] != kmer
            yield kmer, ((end[0], 1) if alone else (kmer, 0))

    pointers = ends.flatMap(unique).cache()
    actors, before, far = [linker], linker, -1
    for turn in range(1, max(2, len(nodes)).bit_length() + 1):
        doubler = store.register(f"double {turn}", kind="reduce", parents=[job])
        store.flow_link(before, doubler)
        pointers = double(pointers, doubler, turn).cache()
        actors, before = [*actors, doubler], doubler
        reached, far = far, pointers.map(lambda p: p[1][1]).sum()
        if reached == far:  # every pointer has arrived at the head of its chain
            break
    last = len(actors)
    writer = store.register("contigs", kind="reduce", parents=[job])
    store.flow_link(before, writer)

    def contig(group: tuple[str, Iterable[tuple[int, str]]]) -> Iterator[tuple[str, str]]:
        head, members = group[0], sorted(group[1])
        kept = [kmer for _, kmer in members if not writer.add_input(f"{last}:{kmer}", tag=head)]
        if kept and not writer.add_output(f"contig {head}", tag=head):
            yield f"contig {head}", kept[0] + "".join(kmer[-1] for kmer in kept[1:])
        writer.reset(head)

    chains = pointers.map(lambda p: (p[1][0], (p[1][1], p[0]))).groupByKey(2).flatMap(contig)
    contigs = dict(chains.collect())
    for actor in (*actors, writer, job):
        actor.commit()
    return contigs


def double(pointers: RDD[Any], actor: Actor, turn: int) -> RDD[Any]:
    """Every k-mer points where the one it points to points: after n turns, 2**n steps back."""

    def jump(joined: tuple[str, tuple[tuple[str, int], tuple[str, int]]]) -> Iterator[tuple[str, tuple[str, int]]]:
        target, ((kmer, steps), (further, more)) = joined
        dropped = actor.capture(f"{turn}:{kmer}", f"{turn + 1}:{kmer}")
        if target != kmer:
            actor.capture(f"{turn}:{target}", f"{turn + 1}:{kmer}")
        if not dropped:
            yield kmer, (further, steps + more)

    return pointers.map(lambda p: (p[1][0], (p[0], p[1][1]))).join(pointers, 2).flatMap(jump)


def bacterial(contig: str, bacterium: str, k: int) -> float:
    """The share of a contig's k-mers that the bacterium has."""
    kmers = [contig[n : n + k] for n in range(len(contig) - k + 1)]
    return sum(kmer in bacterium for kmer in kmers) / len(kmers)


def clean_assembly(
    spark: SparkSession, w: whence.Session, home: Path, length: int = 2000, k: int = 21, seed: int = 7
) -> tuple[Cleaned, dict[str, str]]:
    """The session's store must be home/lineage, where a restart looks for it."""
    bacterium, virus = genomes(length, seed)
    make_reads(home / "reads.json", bacterium, virus, 0.028, seed)
    app, contigs = assemble(spark, w.actors, home, k)
    cleaned = clean(w.actors, app, contigs, lambda c: bacterial(c, bacterium, k), bad=lambda share: share < 0.3)
    return cleaned, contigs


def draw(path: Path, bacterium: str, k: int, before: Mapping[str, str], after: Mapping[str, str]) -> None:
    """Figure 13: how much of every contig is bacterial and how much viral, before and after."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.5))
    FigureCanvasAgg(figure)
    for place, (name, contigs) in enumerate((("before", before), ("after", after)), 1):
        axes = figure.add_subplot(1, 2, place)
        lengths = sorted(map(len, contigs.values()), reverse=True)
        ordered = sorted(contigs.values(), key=len, reverse=True)
        good = [len(contig) * bacterial(contig, bacterium, k) for contig in ordered]
        axes.bar(range(len(lengths)), good, label="bacterial")
        axes.bar(range(len(lengths)), [a - b for a, b in zip(lengths, good, strict=True)], bottom=good, label="viral")
        axes.set_title(f"{name}: {len(lengths)} contigs, mean length {sum(lengths) / len(lengths):.0f}", fontsize=9)
        axes.legend(fontsize=8)
    figure.supylabel("bases")
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def main() -> None:
    home = Path(tempfile.mkdtemp(prefix="whence-assembly-"))
    sys.path.insert(0, str(Path(__file__).parent))
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    with whence.attach(spark, store=home / "lineage") as w:
        cleaned, contigs = clean_assembly(spark, w, home)
        print(cleaned)
        for name, found in (("before", contigs), ("after", cleaned.result)):
            mean = sum(map(len, found.values())) / len(found)
            print(f"{name}: {len(found)} contigs, mean length {mean:.0f}, longest {max(map(len, found.values()))}")
        draw(home / "figure-13.png", genomes(2000, 7)[0], 21, contigs, cleaned.result)
        print("drawn:", home / "figure-13.png")
    spark.stop()


if __name__ == "__main__":
    main()
