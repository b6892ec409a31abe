"""`whence run` of a script as it is, and what is then asked: `whence trace`, `forward`, `why-not` and `explain`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from whence.serve.cli import app

JOB = """
import sys
from helper import NAME
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
print('threads', spark.sparkContext.master, sys.argv[1:], __name__)
spark.range(4).write.parquet(f'{sys.argv[1]}/{NAME}')
spark.read.parquet(f'{sys.argv[1]}/{NAME}').where('id > 1').write.parquet(f'{sys.argv[1]}/big')
spark.stop()
sys.exit(3)
"""

# The first command has the process to itself, with its output and the store that `whence run` made. The others come one
# after the other: the commands stop their Spark session, and the JVM stays for the next one.
ASKING = """
import json, sys
import whence
from whence.serve.cli import main

words = sys.argv[1:]
folder, seen, store = words
sys.argv[1:] = ["trace", "big", "--where", "id = 3", "--json", "--store", seen, "--conf", "spark.sql.codegen=true"]
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
print("and then")

from pyspark.sql import SparkSession
from typer.testing import CliRunner
from whence.serve.cli import app

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
with whence.attach(spark, store) as w:
    rows = [(i, "bad" if i % 4 == 0 else "good", -1 if i % 4 == 0 else i) for i in range(40)]
    spark.createDataFrame(rows, "id int, kind string, price int").coalesce(1).write.parquet(f"{folder}/orders")
    with w.capture():
        spark.read.parquet(f"{folder}/orders").where("price > 0").write.parquet(f"{folder}/kept")
spark.stop()
common = ["--store", store, "--conf", "spark.master=local[1]"]
asked = {
    "trace": ["trace", "kept", "--where", "id = 3", "--json"],
    "forward": ["forward", "orders", "--where", "id = 5", "--to", "kept", "--json"],
    "why-not": ["why-not", "orders", "--where", "id = 8", "--to", "kept"],
    "explain": ["explain", "orders", "--where", "price < 0"],
    "unknown": ["trace", "nowhere"],
    "usage": ["forward", "orders"],
}
said = {}
for name, words in asked.items():
    done = CliRunner().invoke(app, [*words, *common], prog_name="whence")
    said[name] = [done.exit_code, done.stdout, str(done.exception)]
print("\\n" + json.dumps(said))
"""


def started(command: list[str], home: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=home, env=environment)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("commands")


@pytest.fixture(scope="module")
def ran(home: Path) -> subprocess.CompletedProcess[str]:
    (home / "helper.py").write_text("NAME = 'orders'\n")
    (home / "job.py").write_text(JOB)
    words = ["--store", str(home / "seen"), "--master", "local[1]", "--conf", "spark.ui.enabled=false"]
    command = [sys.executable, "-m", "whence.serve.cli", "run", *words, str(home / "job.py"), str(home), "--deep"]
    return started(command, home)


@pytest.fixture(scope="module")
def answers(ran: subprocess.CompletedProcess[str], home: Path) -> str:
    (home / "more").mkdir()
    words = [str(home / "more"), str(home / "seen"), str(home / "store")]
    done = started([sys.executable, "-c", ASKING, *words], home)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def test_an_unmodified_script_is_watched(ran: subprocess.CompletedProcess[str], home: Path) -> None:
    assert ran.returncode == 3, ran.stderr
    lines = ran.stdout.splitlines()
    assert lines[0] == f"threads local[1] ['{home}', '--deep'] __main__"
    assert lines[1:-1] == [
        "whence: 2 runs observed", f"  read {home}/orders", f"  wrote {home}/orders", f"  wrote {home}/big",
    ]  # fmt: skip
    assert lines[-1].startswith("whence took ")
    shown = CliRunner().invoke(app, ["lineage", "big", "--store", str(home / "seen")], prog_name="whence")
    assert f"{home}/orders" in shown.output


def test_what_a_script_wrote_is_traced(answers: str) -> None:
    """By a command that is alone on its output."""
    found = json.loads(answers.split("and then\n")[0])
    assert (found["status"], found["exact"], found["sources"][0]["rows"]) == ("done", True, 1)


def test_commands_about_rows(answers: str) -> None:
    said: dict[str, Any] = json.loads(answers.strip().splitlines()[-1])
    code, out, _ = said["trace"]
    assert code == 0, said["trace"]
    found = json.loads(out)
    assert (found["status"], found["exact"], [s["rows"] for s in found["sources"]]) == ("done", True, [1])
    code, out, _ = said["forward"]
    assert code == 0, said["forward"]
    assert json.loads(out)["exact"] is True
    code, out, _ = said["why-not"]
    assert code == 0, said["why-not"]
    assert "price" in out
    code, out, _ = said["explain"]
    assert code == 0, said["explain"]
    assert "kind" in out
    code, _, why = said["unknown"]  # which the command line says on stderr
    assert code == 1, said["unknown"]
    assert "dataset" in why
    assert said["usage"][0] == 2
