"""Sources that Spark must be told of when its JVM starts, so in a Python of their own: see at_start.py."""

from __future__ import annotations

import os
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import ExitStack
from pathlib import Path

import pytest

import postgres_server

MAVEN = "https://repo1.maven.org/maven2"
AVRO = "org/apache/spark/spark-avro_2.13/4.1.1/spark-avro_2.13-4.1.1.jar"
POSTGRESQL = "org/postgresql/postgresql/42.7.14/postgresql-42.7.14.jar"


def jars(*paths: str) -> str:
    """Downloads from Maven what is not here yet."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "whence-tests"
    cache.mkdir(parents=True, exist_ok=True)
    for path in paths:
        file = cache / Path(path).name
        if not file.exists():
            part = file.with_suffix(f".{os.getpid()}")
            with urllib.request.urlopen(f"{MAVEN}/{path}", timeout=60) as answer:
                part.write_bytes(answer.read())
            part.replace(file)
    return ",".join(str(cache / Path(path).name) for path in paths)


def run(kinds: list[str], home: Path, given: str, url: str = "") -> None:
    root = Path(__file__).parents[2]
    path = os.pathsep.join([str(root / "src"), str(root / "tests"), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, "PYSPARK_PYTHON": sys.executable}
    command = [sys.executable, str(root / "tests/sql/at_start.py"), ",".join(kinds), str(home), given, url]
    done = subprocess.run(command, cwd=home, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert [f"{kind}: right" for kind in kinds] == done.stdout.split("\n")[: len(kinds)], done.stderr[-5000:]
    assert done.returncode == 0, done.stderr[-5000:]


def test_hive_avro_and_postgresql(tmp_path: Path) -> None:
    """One JVM for the three. Hive is always there; what is missing for the others is said."""
    kinds, given, url, missing = ["hive"], "", "", []
    with ExitStack() as stack:
        try:
            given = jars(AVRO, POSTGRESQL)
            kinds.append("avro")
        except (urllib.error.URLError, TimeoutError) as error:
            missing.append(f"Avro and PostgreSQL: their jars cannot be had from Maven ({error})")
        if given and postgres_server.find_initdb() is None:
            missing.append("PostgreSQL: initdb was not found (Debian: apt install postgresql)")
        elif given:
            server = stack.enter_context(postgres_server.postgres_server())
            user, host = server.removeprefix("postgresql://").split("@")
            url = f"jdbc:postgresql://{host}?user={user.split(':')[0]}&password=secret"
            kinds.append("postgresql")
        run(kinds, tmp_path, given, url)
    if missing:
        pytest.skip("hive is right; not tried: " + "; ".join(missing))
