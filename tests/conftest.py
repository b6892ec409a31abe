"""One Spark session for the whole suite: starting one takes longer than most tests."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import whence
from beside import Beside

# Tests run each piece of code a few times: the second compiler would cost more than it gives.
QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_BESIDE = pytest.StashKey[Beside]()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    home = tmp_path_factory.mktemp("spark")
    session = (
        SparkSession.builder.master("local[2]")
        .appName("whence-tests")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.ansi.enabled", "true")  # as it is by default since 4.0
        .config("spark.default.parallelism", "2")
        .config("spark.sql.warehouse.dir", str(home / "warehouse"))
        .config("spark.driver.extraJavaOptions", f"-Dderby.system.home={home} {QUICK_START}")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


def pytest_sessionstart(session: pytest.Session) -> None:
    """Tests make a key of their own, and leave that of whoever runs them alone."""
    os.environ.pop("WHENCE_KEY", None)
    os.environ["XDG_CONFIG_HOME"] = str(session.config._tmp_path_factory.mktemp("config"))  # type: ignore[attr-defined]


@pytest.hookimpl
def pytest_collection_finish(session: pytest.Session) -> None:
    if session.config.option.collectonly:
        return
    programs = session.config.stash[_BESIDE] = Beside()
    factory = session.config._tmp_path_factory  # type: ignore[attr-defined]
    for module in dict.fromkeys(getattr(item, "module", None) for item in session.items):
        for name, prepare in getattr(module, "BESIDE", {}).items():
            programs.add(name, prepare, factory.mktemp(name))


def pytest_sessionfinish(session: pytest.Session) -> None:
    if _BESIDE in session.config.stash:
        session.config.stash[_BESIDE].end()


@pytest.fixture(scope="session")
def beside(request: pytest.FixtureRequest) -> Beside:
    """Waits for a program that was started beside the tests (beside.py)."""
    return request.config.stash[_BESIDE]


@pytest.fixture
def w(spark: SparkSession, tmp_path: Path) -> Iterator[whence.Session]:
    with whence.attach(spark, store=tmp_path / "store") as session:
        yield session
