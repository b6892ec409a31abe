"""What every measurement shares: interleaved timing, the table, the one line of figures, JSON, plot and docs section.

A measurement compares ways of doing one thing. The ways are run in turn within one process, in alternating order, so
that a machine that slows down or a cache that warms up favours none of them; ratios are medians of per-round ratios.

`python -m bench.harness` writes every result in bench/out/ into docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import datetime as dt
import gc
import json
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

HERE = Path(__file__).parent
OUT = HERE / "out"
DATA = HERE / "data"
DOCS = HERE.parent / "docs" / "benchmarks.md"

console = Console()


@dataclass(frozen=True)
class Measured:
    """The seconds one way took, in the order of the rounds."""

    name: str
    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        return median(self.seconds)

    def over(self, base: Measured) -> float:
        """How many times `base`'s time this took: the median of the rounds' ratios."""
        return median(mine / theirs for mine, theirs in zip(self.seconds, base.seconds, strict=True))


@dataclass(frozen=True)
class Way:
    """One way of doing it. Only `run` is timed; `after` is called even when it fails."""

    run: Callable[[], object]
    before: Callable[[], object] | None = None
    after: Callable[[], object] | None = None


def interleaved(
    ways: Mapping[str, Way | Callable[[], object]],
    rounds: int = 5,
    warmup: int = 1,
    tick: Callable[[str], None] = lambda what: None,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, Measured]:
    """Time each way once a round, alternately first to last and last to first; warm-up rounds are not counted."""
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(warmup + rounds):
        order = list(ways) if turn % 2 == 0 else list(ways)[::-1]
        for name in order:
            tick(name)
            found = ways[name]
            way = found if isinstance(found, Way) else Way(found)
            if way.before:
                way.before()
            try:
                gc.collect()
                took = timed(way.run, clock)
            finally:
                if way.after:
                    way.after()
            if turn >= warmup:
                seconds[name].append(took)
    return {name: Measured(name, tuple(took)) for name, took in seconds.items()}


def timed(action: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    start = clock()
    action()
    return clock() - start


def processor_clock(spark: Any) -> Callable[[], float]:
    """Seconds of processor time that this process and its JVM have taken (Linux): other work changes that less than the
    clock's."""
    stat = Path(f"/proc/{spark.sparkContext._gateway.proc.pid}/stat")
    ticks = os.sysconf("SC_CLK_TCK")

    def now() -> float:
        user, system = stat.read_text().rsplit(")", 1)[1].split()[11:13]
        return time.process_time() + (int(user) + int(system)) / ticks

    return now


@contextmanager
def progress(title: str, total: int) -> Iterator[Callable[[str], None]]:
    """A bar of `total` ticks; each tick says what starts now. In a file or pipe it is one line a tick."""
    if not console.is_terminal:
        done = 0
        start = time.perf_counter()

        def say(what: str) -> None:
            nonlocal done
            done += 1
            console.print(f"{title} {done}/{total} [{time.perf_counter() - start:.0f} s] {what}", highlight=False)

        yield say
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(title, total=total)
        started = False

        def tick(what: str) -> None:
            nonlocal started
            bar.update(task, description=f"{title}: {what}", advance=1 if started else 0)
            started = True

        yield tick


def machine() -> dict[str, str]:
    """Size and versions, nothing that names the machine."""
    found = {
        "cores": str(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()),
        "memory": _memory(),
        "cpu": _cpu(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "java": _java(),
    }
    for package in ("pyspark", "pyarrow", "numpy", "duckdb", "whence"):
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    if "whence" not in found:
        from whence.version import __version__

        found["whence"] = __version__
    return found


def _memory() -> str:
    try:
        return f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB"
    except (AttributeError, ValueError, OSError):
        return "unknown"


def _cpu() -> str:
    try:
        names = re.findall(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        names = []
    return names[0].strip() if names else platform.processor() or "unknown"


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else "java"
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    except OSError:
        return "unknown"
    version = re.search(r'"([^"]+)"', said.stderr + said.stdout)
    return version.group(1) if version else "unknown"


@dataclass(frozen=True)
class Bars:
    """A plot: for each label one bar of every series; `limit` draws the line that was promised."""

    labels: Sequence[str]
    series: Mapping[str, Sequence[float]]
    ylabel: str
    limit: float | None = None
    log: bool = False


@dataclass(frozen=True)
class Result:
    """All that one measurement found. `figures` are the numbers other code may read; `line` says them to people."""

    name: str
    title: str
    line: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    figures: Mapping[str, float | int | str | bool]
    notes: Sequence[str] = ()
    raw: Mapping[str, Any] = field(default_factory=dict)
    date: str = field(default_factory=lambda: dt.datetime.now(dt.timezone.utc).strftime("%Y-%m-%d"))
    machine: Mapping[str, str] = field(default_factory=machine)


def finish(result: Result, plot: Bars | None = None, out: Path = OUT) -> Path:
    """Print the table, write `<name>.json` and `<name>.png`, and end with the line of figures."""
    table = Table(title=result.title, title_justify="left")
    for position, column in enumerate(result.columns):
        table.add_column(column, justify="left" if position == 0 else "right", no_wrap=True)
    for row in result.rows:
        table.add_row(*row)
    wide = console if console.is_terminal else Console(width=200)
    wide.print(table)
    for note in result.notes:
        wide.print(f"- {note}", highlight=False)
    out.mkdir(parents=True, exist_ok=True)
    target = out / f"{result.name}.json"
    target.write_text(json.dumps(asdict(result), indent=1, ensure_ascii=False) + "\n")
    if plot is not None:
        draw(plot, result.title, out / f"{result.name}.png")
    print(result.line)
    return target


def draw(plot: Bars, title: str, path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(max(6.0, 0.45 * len(plot.labels) * len(plot.series)), 3.6))
    width = 0.8 / len(plot.series)
    for turn, (name, values) in enumerate(plot.series.items()):
        places = [i - 0.4 + width * (turn + 0.5) for i in range(len(values))]
        axes.bar(places, values, width, label=name)
    if plot.limit is not None:
        axes.axhline(plot.limit, color="black", linewidth=0.8, linestyle="--")
    axes.set_xticks(range(len(plot.labels)), plot.labels, rotation=0 if len(plot.labels) < 12 else 90)
    if plot.log:
        axes.set_yscale("log")
    axes.set_ylabel(plot.ylabel)
    axes.set_title(title, loc="left", fontsize=10)
    axes.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def write_docs(result_file: Path, docs: Path = DOCS) -> None:
    """Put one result into the docs page, in place of the section of the same name or at the end."""
    result = json.loads(result_file.read_text())
    name = result["name"]
    size = ", ".join(f"{key} {value}" for key, value in result["machine"].items())
    lines = [f"<!-- bench:{name} -->", f"## {result['title']}", "", f"{result['date']}; {size}", ""]
    lines += ["| " + " | ".join(result["columns"]) + " |", "|" + "---|" * len(result["columns"])]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in result["rows"]]
    lines += ["", *(f"- {note}" for note in result["notes"])]
    lines += ["", f"**{result['line']}**", f"<!-- /bench:{name} -->"]
    section = "\n".join(lines)
    page = docs.read_text() if docs.exists() else "# Benchmarks\n"
    old = re.compile(rf"<!-- bench:{re.escape(name)} -->.*?<!-- /bench:{re.escape(name)} -->", re.DOTALL)
    if old.search(page):
        page = old.sub(lambda _: section, page)
    else:
        page = page.rstrip("\n") + "\n\n" + section
    docs.write_text(page.rstrip("\n") + "\n")


def arguments(what: str, **options: Any) -> argparse.ArgumentParser:
    """A parser with the options every measurement has."""
    parser = argparse.ArgumentParser(description=what, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--rounds", type=int, default=options.get("rounds", 5), help="rounds that are counted")
    parser.add_argument("--warmup", type=int, default=options.get("warmup", 1), help="rounds before that")
    parser.add_argument("--docs", action="store_true", help="also write the result into docs/benchmarks.md")
    return parser


def spark_session(name: str, memory: str = "4g", cores: int = 2, **conf: str) -> Any:
    """A session as a user's would be, on `cores` cores, that says nothing but errors."""
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(f"local[{cores}]").appName(name)
    settings = {
        "spark.driver.memory": memory,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": str(2 * cores),
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.warehouse.dir": str(DATA / "warehouse"),
        **conf,
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


if __name__ == "__main__":
    for found in sorted(OUT.glob("*.json")):
        write_docs(found)
        console.print(f"docs/benchmarks.md <- {found.name}")
