from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from py4j.java_gateway import JavaClass, JavaPackage, java_import
from pyspark.sql import SparkSession

import whence


def test_closed_session_says_so(spark: SparkSession, tmp_path: Path) -> None:
    session = whence.attach(spark, store=tmp_path)
    session.close()
    session.close()
    with pytest.raises(whence.SessionClosed, match="closed"):
        _ = session.spark


def test_import_brings_no_pyspark() -> None:
    code = "import sys, whence; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_names_of_the_jvm_are_looked_up_once(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the tests (jvm.py)."""
    gateway: Any = spark.sparkContext._gateway
    view, client = gateway.new_jvm_view("names"), gateway._gateway_client
    asked: list[str] = []
    send = client.send_command

    def noting(command: str, *rest: Any, **options: Any) -> Any:
        asked.append(command)
        return send(command, *rest, **options)

    monkeypatch.setattr(client, "send_command", noting)
    for _ in range(2):
        assert view.java.util.Collections.emptyList().size() == 0
    names = [command for command in asked if command.startswith("r\n")]
    assert len(names) == len(set(names)) == 4
    # A class that comes later is seen, and a value is no name.
    assert isinstance(view.Collections, JavaPackage)
    java_import(view, "java.util.Collections")
    assert isinstance(view.Collections, JavaClass)
    assert [getattr(view, "java.io.File").separator for _ in range(2)] == ["/", "/"]
    assert sum("separator" in command for command in asked) == 2
