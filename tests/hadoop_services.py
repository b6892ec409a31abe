"""File systems that a cluster reaches, real and on loopback: an S3 of moto's, and HDFS of Hadoop's own mini cluster."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

import maven

JARS = Path(pyspark.__file__).parent / "jars"


class Unavailable(Exception):
    """What is needed for it is not to be had here."""


def hadoop_version() -> str:
    (client,) = JARS.glob("hadoop-client-api-*.jar")
    return client.stem.removeprefix("hadoop-client-api-")


@contextmanager
def s3_server() -> Iterator[str]:
    """Where an S3 answers that has a bucket `lineage`."""
    try:
        from moto.server import ThreadedMotoServer
    except ImportError as error:
        raise Unavailable(f"moto is not installed ({error}): pip install 'moto[s3]' flask flask-cors") from error
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        with urllib.request.urlopen(urllib.request.Request(f"http://{host}:{port}/lineage", method="PUT")):
            pass
        yield f"http://{host}:{port}"
    finally:
        server.stop()


@contextmanager
def s3(home: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """A bucket's URL, and the settings that Spark needs for it."""
    try:
        jars = maven.jars(f"org.apache.hadoop:hadoop-aws:{hadoop_version()}")
    except maven.Unavailable as error:
        raise Unavailable(str(error)) from error
    with s3_server() as place:
        settings = {
            "endpoint": place,
            "endpoint.region": "us-east-1",
            "path.style.access": "true",
            "connection.ssl.enabled": "false",
            "access.key": "testing",
            "secret.key": "testing",
            "aws.credentials.provider": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
        }
        named = {f"spark.hadoop.fs.s3a.{name}": value for name, value in settings.items()}
        path = os.pathsep.join(map(str, jars))  # as spark.jars each executor would be sent them, half a gigabyte
        yield (
            "s3a://lineage",
            {"spark.driver.extraClassPath": path, "spark.executor.extraClassPath": path, **named},
        )


# Hadoop's mini cluster is made for tests, and its classes need these.
_TEST_CLASSES = ("org.junit.jupiter:junit-jupiter-api:5.13.4", "org.mockito:mockito-core:4.11.0")
_MANAGER = "org.apache.hadoop.mapreduce.MiniHadoopClusterManager"


@contextmanager
def hdfs(home: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """The URL of a folder, and the settings that Spark needs for it."""
    java = Path(os.environ["JAVA_HOME"], "bin", "java") if "JAVA_HOME" in os.environ else Path("java")
    try:
        jars = [
            *maven.jars(f"org.apache.hadoop:hadoop-client-minicluster:{hadoop_version()}", alone=True),
            *maven.jars(*_TEST_CLASSES),
        ]
    except maven.Unavailable as error:
        raise Unavailable(str(error)) from error
    home.mkdir(parents=True, exist_ok=True)
    details = home / "details.json"
    command = [
        str(java), "-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC",
        f"-Dtest.build.data={home / 'data'}", f"-Dhadoop.tmp.dir={home / 'tmp'}",
        "-cp", os.pathsep.join([*map(str, jars), f"{JARS}/*"]),
        _MANAGER, "-nomr", "-format", "-nnport", "0", "-writeDetails", str(details),
    ]  # fmt: skip
    with (home / "log").open("w") as log:
        process = subprocess.Popen(command, cwd=home, stdout=log, stderr=log)
        try:
            port = _port(details, process, home / "log")
            yield f"hdfs://127.0.0.1:{port}/lineage", {}
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _port(details: Path, process: subprocess.Popen[bytes], log: Path) -> int:
    """The name node's, as soon as the cluster has written it down."""
    ended = threading.Event()
    threading.Thread(target=lambda: (process.wait(), ended.set()), daemon=True).start()
    for _ in range(600):
        try:
            return int(json.loads(details.read_text())["namenode_port"])
        except (OSError, ValueError, KeyError):
            if ended.wait(0.1):
                break
    raise Unavailable(f"HDFS did not start: {log.read_text()[-1500:]}")
