"""TPC data and queries through DuckDB's extensions, which come from PyPI: nothing is fetched at run time.

The extension file is loaded from the package itself, so nothing is written into the home directory.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.harness import DATA, console

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Change:
    """One mechanical change of a query's text for Spark, with its reason. `pattern` is a regular expression."""

    pattern: str
    to: str
    why: str


@dataclass(frozen=True)
class Query:
    name: str
    text: str
    changes: tuple[str, ...] = field(default=())


def connect(extension: str, database: str = ":memory:") -> Any:
    import duckdb

    con = duckdb.connect(database)
    package = resources.files(f"duckdb_extension_{extension}")
    binary = package / "extensions" / f"v{duckdb.__version__}" / f"{extension}.duckdb_extension"
    con.execute(f"LOAD '{binary}'")
    return con


def generate(extension: str, call: str, sf: float) -> Path:
    """The directory with one Parquet folder for each table; made once, and only whole."""
    target = DATA / f"{extension}-sf{sf:g}"
    if target.is_dir():
        return target
    DATA.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(dir=DATA))
    try:
        con = connect(extension, str(work / "tables.duckdb"))
        con.execute("SET memory_limit = '4GB'")
        con.execute("SET preserve_insertion_order = true")
        console.print(f"making {extension} data at scale factor {sf:g} ...")
        con.execute(f"CALL {call}(sf = {sf})")
        for (table,) in con.execute("SHOW TABLES").fetchall():
            folder = work / "tables" / table
            folder.mkdir(parents=True)
            con.execute(f"COPY {table} TO '{folder / 'part-0.parquet'}' (FORMAT parquet, COMPRESSION snappy)")
        con.close()
        os.replace(work / "tables", target)
    except OSError:
        if not target.is_dir():  # otherwise another process made the same data meanwhile
            raise
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return target


def register(spark: SparkSession, data: Path) -> tuple[str, ...]:
    """Make each table a temporary view of its own name."""
    tables = tuple(sorted(folder.name for folder in data.iterdir() if folder.is_dir()))
    for table in tables:
        spark.read.parquet(str(data / table)).createOrReplaceTempView(table)
    return tables


def queries(extension: str, changes: Sequence[Change] = ()) -> dict[str, Query]:
    """DuckDB's texts of the benchmark's queries, with `changes` made where they apply."""
    con = connect(extension)
    found: dict[str, Query] = {}
    for number, text in con.execute(f"SELECT query_nr, query FROM {extension}_queries() ORDER BY query_nr").fetchall():
        name = f"q{number}"
        text = text.strip().rstrip(";")
        made = []
        for change in changes:
            text, times = re.subn(change.pattern, change.to, text, flags=re.IGNORECASE)
            if times:
                made.append(change.why)
        found[name] = Query(name, text, tuple(made))
    con.close()
    return found
