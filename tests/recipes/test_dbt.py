"""examples/dbt with the real dbt and dbt-spark: built under `whence run`, its rejected rows traced to the CSV lines."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from whence.store import Store

PROJECT = Path(__file__).resolve().parents[2] / "examples" / "dbt"
SETTINGS = ("spark.ui.enabled=false", "spark.sql.shuffle.partitions=1", "spark.master=local[1]")

# What Airflow puts into the environment of a task.
TASK = {
    "AIRFLOW_CTX_DAG_ID": "sales",
    "AIRFLOW_CTX_TASK_ID": "build",
    "AIRFLOW_CTX_DAG_RUN_ID": "scheduled__1",
    "AIRFLOW_CTX_TRY_NUMBER": "1",
}


@dataclass(frozen=True)
class Built:
    folder: Path
    environment: dict[str, str]
    code: int
    said: str


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    folder = tmp_path_factory.mktemp("dbt") / "shop"
    shutil.copytree(PROJECT, folder)
    conf = [word for setting in SETTINGS for word in ("--conf", setting)]
    environment = {
        **os.environ,
        "SHOP_DATA": str(folder / "data"),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_SUBMIT_ARGS": " ".join([*conf, "pyspark-shell"]),
        "NO_COLOR": "1",
        **TASK,
    }
    command = [str(Path(sys.executable).parent / "whence"), "run", "--capture", *conf, "dbt", "build"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return Built(folder, environment, done.returncode, done.stdout + done.stderr)


def test_dbt_runs_as_ever_and_ends_with_its_own_code(built: Built) -> None:
    assert built.code == 1, built.said  # a test of the project fails, on purpose
    assert "FAIL 1 totals_are_positive" in built.said
    assert "PASS=8 WARN=0 ERROR=1" in built.said
    assert "  wrote shop.city_totals" in built.said


def test_models_are_datasets_and_refs_are_edges_with_columns(built: Built) -> None:
    store = Store.at(str(built.folder / ".whence"))
    try:
        edges = {(e.source.name, e.target.name) for e in store.catalog.edges()}
        columns = {
            (e.source.name, e.source_column, e.target.name, e.target_column, e.subtype)
            for e in store.catalog.edges(level="column")
            if e.kind == "DIRECT"
        }
    finally:
        store.close()
    assert edges == {
        ("raw.orders", "shop.paid_orders"),
        ("shop.paid_orders", "shop.order_cities"),
        ("raw.customers", "shop.order_cities"),
        ("shop.order_cities", "shop.city_totals"),
    }
    assert {c for c in columns if c[2] == "shop.city_totals"} == {
        ("shop.order_cities", "city", "shop.city_totals", "city", "IDENTITY"),
        ("shop.order_cities", "amount", "shop.city_totals", "total", "AGGREGATION"),
    }


def test_the_task_that_ran_dbt_is_the_parent(built: Built) -> None:
    store = Store.at(str(built.folder / ".whence"))
    try:
        parents = [run.details["parent"] for run in store.catalog.runs()]
    finally:
        store.close()
    told = {"namespace": "default", "name": "sales.build", "run": "scheduled__1.sales.build.1"}
    assert parents
    assert all(parent == told for parent in parents)


def test_rejected_rows_are_traced_to_the_sources(built: Built) -> None:
    command = [sys.executable, "failures.py"]
    done = subprocess.run(command, cwd=built.folder, env=built.environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "totals_are_positive rejects 1 row" in done.stdout
    lines = [line.split() for line in done.stdout.splitlines()]
    assert [line for line in lines if line and line[0].startswith("orders.csv:")] == [
        ["orders.csv:2", "1", "Ada", "20"],
        ["orders.csv:4", "3", "Ada", "-900"],
        ["orders.csv:5", "4", "Eve", "15"],
    ]
    assert "customers: 2 witnesses" in done.stdout
    assert "exact: these rows and no others" in done.stdout
    assert "proven: the witnesses alone give the asked rows again" in done.stdout
