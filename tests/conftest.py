"""One Spark session for the whole suite: starting one takes longer than most tests."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import jvm
import spent
import whence
from beside import Beside

try:
    from hypothesis import HealthCheck, settings
except ImportError:  # not in every environment that tests run in
    pass
else:
    # What is green once is green again, on a slow machine too: the examples are always the same ones, and nothing is
    # said about time. `--hypothesis-profile=new` looks for others.
    settings.register_profile("same", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.register_profile("new", derandomize=False, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("same")

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
        .config("spark.driver.extraJavaOptions", f"-Dderby.system.home={home} {jvm.LONG}")
        .config("spark.python.daemon.module", "warm_daemon")
        .config("spark.executorEnv.PYTHONPATH", str(Path(__file__).parent / "daemon"))
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    jvm.tell_places_quickly(session.sparkContext)
    yield session
    session.stop()


def pytest_configure(config: pytest.Config) -> None:
    if spent.WANTED in os.environ:
        config.pluginmanager.register(spent.Spent())


def pytest_sessionstart(session: pytest.Session) -> None:
    """Tests make a key of their own, and leave that of whoever runs them alone."""
    for name, value in jvm.environment().items():
        os.environ.setdefault(name, value)
    jvm.remember_names()
    jvm.forget_together()
    os.environ.pop("WHENCE_KEY", None)
    os.environ["XDG_CONFIG_HOME"] = str(session.config._tmp_path_factory.mktemp("config"))  # type: ignore[attr-defined]


def pytest_collection_finish(session: pytest.Session) -> None:
    """What was imported by now stays: a full search for garbage need not walk through it each time. That took half of
    the time of tests that need no JVM."""
    gc.freeze()


def pytest_sessionfinish(session: pytest.Session) -> None:
    if _BESIDE in session.config.stash:
        session.config.stash[_BESIDE].end()


@pytest.fixture(scope="module")
def beside(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Beside:
    """Waits for a program that runs beside the tests of a file (beside.py)."""
    programs = request.config.stash.setdefault(_BESIDE, Beside())
    for name, prepare in request.module.BESIDE.items():
        programs.add(name, prepare, tmp_path_factory.mktemp(name))
    return programs


@pytest.fixture(scope="module", autouse=True)
def _views_end_with_their_file() -> Iterator[None]:
    """Lanes take files in any order: none sees the temporary views of another."""
    yield
    session = SparkSession._instantiatedSession
    if session is not None and session.sparkContext._jsc is not None:
        session._jsparkSession.sessionState().catalog().clearTempTables()


@pytest.fixture
def w(spark: SparkSession, tmp_path: Path) -> Iterator[whence.Session]:
    with whence.attach(spark, store=tmp_path / "store") as session:
        yield session


# Compiling and re-planning pays off on data; on a few rows it is most of the time. Other tests run as users do.
INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
TINY = {
    **INTERPRETED,
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    # Rows of a plan, and small files, are one task.
    "spark.sql.leafNodeDefaultParallelism": "1",
}


@pytest.fixture(scope="module")
def tiny(spark: SparkSession) -> Iterator[SparkSession]:
    """The suite's session, set for many queries over a few rows."""
    with _set(spark, TINY):
        yield spark


@pytest.fixture(scope="module")
def interpreted(spark: SparkSession) -> Iterator[SparkSession]:
    """The suite's session, which plans as users' do, in several partitions too, but compiles nothing."""
    with _set(spark, INTERPRETED):
        yield spark


@contextmanager
def _set(spark: SparkSession, settings: dict[str, str]) -> Iterator[None]:
    context: Any = spark.sparkContext
    before = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
        context.setLocalProperty(name, value)  # for tasks, too, that belong to no query of Spark's
    yield
    for name, old in before.items():
        context.setLocalProperty(name, None)
        if old is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, old)
