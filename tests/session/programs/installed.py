"""What `pip install whence` gives beside a platform's own PySpark: python installed.py <home>

Runs itself again with a Python, on the driver and on executors, that has whence, its declared dependencies and PySpark,
and nothing else."""

import json
import os
import re
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def needed(name: str, found: dict[str, object]) -> None:
    name = re.sub(r"[-_.]+", "-", name).lower()
    if name in found:
        return
    found[name] = of = distribution(name)
    for requirement in of.requires or ():
        words, _, condition = requirement.partition(";")
        if "extra" not in condition and "win32" not in condition and "python_version <" not in condition:
            needed(re.match(r"[\w.-]+", words).group(), found)


def bare_python(home: Path) -> Path:
    found: dict[str, object] = {}
    for name in ("whence", "pyspark"):
        needed(name, found)
    site = home / "site"
    site.mkdir()
    for of in found.values():
        for top in {file.parts[0] for file in of.files or () if not file.parts[0].startswith((".", "__"))}:
            place = Path(of.locate_file(top))
            if place.exists() and not place.name.startswith("whence") and not (site / top).exists():
                (site / top).symlink_to(place)
    (site / "whence").symlink_to(ROOT / "src" / "whence")
    python = home / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{site}" exec {Path(sys.executable).resolve()} -S "$@"\n')
    python.chmod(0o755)
    return python


def work() -> dict[str, object]:
    from pyspark.sql import SparkSession
    from pyspark.sql.functions import udf

    import whence

    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    found: dict[str, object] = {}
    for module in ("pandas", "typer", "yaml"):
        try:
            __import__(module)
            found[module] = True
        except ImportError:
            found[module] = False
    rows = spark.createDataFrame([(1, "7"), (2, "six"), (3, "5")], "id int, amount string")
    rows.createOrReplaceTempView("given")
    parse = udf(lambda text: int(text), "int")
    with whence.attach(spark, store="store") as w:
        t = w.backward(rows.groupBy().count())
        found["printed"] = "exact: these rows and no others" in str(t)
        found["verified"] = t.verify().ok
        try:
            with w.guard():
                rows.select(parse("amount")).collect()
        except Exception as error:
            culprit = error.culprit
            found["culprit"] = culprit.record
            found["culprits rows"] = [row["id"] for source in culprit.sources for row in source.rows]
        with w.guard(on_error="quarantine") as guarded:
            found["kept"] = [row[0] for row in rows.select(parse("amount")).collect()]
        found["put aside"] = [str(record.record) for record in guarded.records]
        told = w.explain(rows.where("id = 2"), rows.where("id <> 2"))
        found["explained"] = bool(told.causes)
        words = w.context.parallelize(["a b", "b"]).flatMap(str.split).map(lambda x: (x, 1))
        counts = words.reduceByKey(lambda x, y: x + y)
        counts.collect()
        found["lines"] = counts.filter(lambda kv: kv[0] == "a").getLineage().goBackAll().collect()
        rows.write.parquet("rows")
        with w.capture():
            spark.read.parquet("rows").groupBy("id").count().write.parquet("counts")
        through = w.backward(spark.read.parquet("counts").where("id = 2"))
        found["through"] = [row["amount"] for row in through["rows"].collect()]
        found["catalogue"] = sorted(dataset.name.rsplit("/", 1)[-1] for dataset in w.catalog.datasets())
    return found


if __name__ == "__main__":
    if sys.argv[1:] == ["work"]:
        print(json.dumps(work()))
    else:
        home = Path(sys.argv[1])
        python = bare_python(home)
        env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        env["PYSPARK_PYTHON"] = str(python)
        sys.exit(subprocess.run([python, __file__, "work"], cwd=home, env=env).returncode)
