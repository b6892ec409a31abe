"""What the suite changes about its JVM and about py4j leaves nothing out."""

from __future__ import annotations

import importlib.util
import io
from collections import deque
from pathlib import Path
from typing import Any

import pytest
from py4j.clientserver import SHUTDOWN_FINALIZER_WORKER, FinalizerWorker
from pyspark import traceback_utils
from pyspark.sql import SparkSession

import jvm


class Client:
    """Takes what py4j's own would send, and answers each command."""

    def __init__(self) -> None:
        self.is_connected = True
        self.sent: list[bytes] = []
        self.given_back = 0
        self.socket = self
        self.stream: Any = None

    def sendall(self, message: bytes) -> None:
        self.sent.append(message)
        self.stream = io.BytesIO(b"!yv\n" * message.count(b"\ne\n"))

    def _get_connection(self) -> Client:
        return self

    def _give_back_connection(self, connection: Client) -> None:
        assert connection is self
        assert connection.stream.read() == b"", "every answer was taken"
        self.given_back += 1


def test_many_dropped_objects_are_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FinalizerWorker, "run", FinalizerWorker.run)
    jvm.forget_together()
    client, closed = Client(), Client()
    closed.is_connected = False
    count = jvm.TOGETHER + 5
    dropped: deque[Any] = deque()
    for number in range(count):
        dropped.appendleft((client, f"o{number}"))
    dropped.appendleft((closed, "o1"))

    def ends(seconds: float) -> None:
        assert not dropped, "it only waits when nothing is left"
        dropped.appendleft(SHUTDOWN_FINALIZER_WORKER)

    monkeypatch.setattr(jvm.time, "sleep", ends)
    FinalizerWorker(dropped).run()
    assert b"".join(client.sent).decode() == "".join(f"m\nd\no{number}\ne\n" for number in range(count))
    assert (len(client.sent), client.given_back) == (2, 2)
    assert not closed.sent


def test_the_jvm_knows_no_object_that_python_dropped(spark: SparkSession) -> None:
    """The real one, as soon as it was told."""
    gateway: Any = spark.sparkContext._gateway
    made: Any = gateway.jvm.java.util.ArrayList()
    client, target = gateway._gateway_client, made._target_id
    assert made.size() == 0
    jvm._told(client, [f"m\nd\n{target}\ne\n"] * 3)
    with pytest.raises(Exception, match=target):
        made.size()
    assert gateway.jvm.java.util.ArrayList().size() == 0, "the connection goes on"


def test_functions_of_scala_are_left_alone(spark: SparkSession) -> None:
    if not jvm.quick_jar().exists():
        pytest.skip("`python tests/jvm.py` has not made its jar")
    cleaner: Any = spark._jvm.java.lang.Class.forName("org.apache.spark.util.SparkClosureCleaner$")  # type: ignore[union-attr]
    assert cleaner.getProtectionDomain().getCodeSource().getLocation().getPath() == str(jvm.quick_jar())
    assert spark.range(5).selectExpr("sum(id)").first()[0] == 10  # type: ignore[index]


def test_tasks_are_told_all_settings_of_hadoop(spark: SparkSession) -> None:
    """Those that differ from its defaults are sent, and those that are gone."""
    java: Any = spark._jvm
    java.org.apache.hadoop.hdfs.HdfsConfiguration.init()  # as any use of files does
    java.org.apache.hadoop.mapred.JobConf()
    known: Any = spark.sparkContext._jsc.hadoopConfiguration()  # type: ignore[union-attr]
    told = java.org.apache.hadoop.conf.Configuration(known)
    told.set("fs.defaultFS", "file:///elsewhere")
    told.set("ä name", "ä value")
    told.set("not.yet", "${fs.defaultFS}/there")
    told.unset("io.file.buffer.size")
    sent = java.java.io.ByteArrayOutputStream()
    out = java.java.io.ObjectOutputStream(sent)
    out.writeObject(getattr(java, "org.apache.spark.util.SerializableConfiguration")(told))
    out.close()
    taken = java.java.io.ObjectInputStream(java.java.io.ByteArrayInputStream(sent.toByteArray())).readObject().value()
    settings = taken.getPropsWithPrefix("")
    assert settings.equals(told.getPropsWithPrefix(""))
    assert settings.size() > 500
    assert settings.get("ä name") == "ä value"
    assert taken.getRaw("not.yet") == "${fs.defaultFS}/there"
    assert taken.get("not.yet") == "file:///elsewhere/there"
    assert taken.get("io.file.buffer.size") is None
    if jvm.quick_jar().exists():
        assert sent.size() < 20_000


def test_files_and_folders_get_the_modes_that_chmod_gives(spark: SparkSession, tmp_path: Path) -> None:
    if not jvm.quick_jar().exists():
        pytest.skip("`python tests/jvm.py` has not made its jar")
    hadoop: Any = spark._jvm.org.apache.hadoop.fs  # type: ignore[union-attr]
    settings: Any = spark.sparkContext._jsc.hadoopConfiguration()  # type: ignore[union-attr]
    theirs = hadoop.LocalFileSystem()
    theirs.initialize(hadoop.FileSystem.getDefaultUri(settings), settings)
    ours = hadoop.FileSystem.getLocal(settings)
    assert theirs.getRaw().getClass().getSimpleName() == "RawLocalFileSystem"
    assert ours.getRaw().getClass().getName() == "org.apache.hadoop.fs.QuickLocalFileSystem$Raw"

    def modes(name: str, files: Any) -> dict[str, int]:
        home = tmp_path / name

        def path(part: str) -> Any:
            return hadoop.Path(str(home / part))

        def mode(octal: str) -> Any:
            return hadoop.permission.FsPermission(octal)

        assert files.mkdirs(path("of a folder/inside"))
        assert files.mkdirs(path("private"), mode("700"))
        files.create(path("of a folder/file")).close()
        files.create(path("private/ä file")).close()
        files.setPermission(path("private/ä file"), mode("604"))
        for number in ("1777", "0000", "640"):
            files.mkdirs(path(number))
            files.setPermission(path(number), mode(number))
        with pytest.raises(Exception, match="nowhere"):
            files.setPermission(path("nowhere"), mode("644"))
        return {str(made.relative_to(home)): made.stat().st_mode for made in home.rglob("*")}

    given = modes("ours", ours)
    assert given == modes("theirs", theirs)
    assert {oct(given[name] & 0o7777) for name in ("1777", "0000", "640")} == {"0o1777", "0o0", "0o640"}
    assert "of a folder/.file.crc" in given


def test_the_place_of_a_job_is_what_pyspark_says(spark: SparkSession) -> None:
    assert traceback_utils.first_spark_call is jvm._first_spark_call
    spec: Any = importlib.util.spec_from_file_location("theirs", traceback_utils.__file__)
    theirs = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(theirs)
    said = [module.SCCallSiteSync(spark.sparkContext)._call_site for module in (theirs, traceback_utils)]
    assert said[0] == said[1]
    assert __file__ in said[0]
