"""A task of a real Airflow runs `whence run`: what is observed there has the task as its parent."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from whence.store import Store

AIRFLOW = Path(__file__).resolve().parents[2] / ".venv-airflow" / "bin" / "airflow"
DAG = """
import os
from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG

with DAG("sales", schedule=None):
    BashOperator(task_id="build", bash_command=os.environ["TASK_COMMAND"])
"""
JOB = """
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
spark.range(3).write.parquet("numbers")
spark.stop()
"""


@pytest.mark.skipif(not AIRFLOW.exists(), reason="there is no .venv-airflow: `make test-recipes` makes it")
def test_a_task_is_the_parent_of_what_it_runs(tmp_path: Path) -> None:
    (tmp_path / "dags").mkdir()
    (tmp_path / "dags" / "sales.py").write_text(DAG)
    (tmp_path / "job.py").write_text(JOB)
    whence = f"{Path(sys.executable).parent}/whence run --store store"
    settings = "--conf spark.ui.enabled=false --conf spark.master=local[1]"
    environment = {
        **os.environ,
        "AIRFLOW_HOME": str(tmp_path),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "TASK_COMMAND": f"cd {tmp_path} && {whence} {settings} job.py",
    }
    for words in (("db", "migrate"), ("dags", "test", "sales")):
        command = [str(AIRFLOW), *words]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    store = Store.at(str(tmp_path / "store"))
    try:
        (parent,) = {tuple(sorted(run.details["parent"].items())) for run in store.catalog.runs()}
    finally:
        store.close()
    told = dict(parent)
    assert (told["namespace"], told["name"]) == ("default", "sales.build")
    assert told["run"].startswith("manual__")
    assert told["run"].endswith(".sales.build.1")
