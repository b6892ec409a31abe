"""`whence trace`, `forward`, `why-not` and `explain`, run one after the other in a process of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

# The commands stop their Spark session; the JVM stays for the next one.
PROGRAM = """
import json, sys
from pyspark.sql import SparkSession
from typer.testing import CliRunner
import whence
from whence.serve.cli import app

folder, store = sys.argv[1:]
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


def test_commands_about_rows(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path), str(tmp_path / "store")],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
    )
    assert done.returncode == 0, done.stderr[-4000:]
    said = json.loads(done.stdout.strip().splitlines()[-1])
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
