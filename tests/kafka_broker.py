"""A real Kafka broker for tests, in KRaft mode, from jars that Maven brings."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import maven
from postgres_server import free_port

BROKER = "org.apache.kafka:kafka_2.13:4.1.0"
# Spark's connector, its two helpers and the client: what Spark itself has already is left out.
CONNECTOR = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:4.1.0",
    "org.apache.commons:commons-pool2:2.12.0",
)


@contextmanager
def kafka_broker() -> Iterator[str]:
    """Yields host:port; raises maven.Unavailable where the jars cannot be had."""
    path = os.pathsep.join(map(str, maven.jars(BROKER)))
    java = shutil.which("java") or str(Path(os.environ.get("JAVA_HOME", "/usr"), "bin", "java"))
    home = Path(tempfile.mkdtemp(prefix="whence-kafka-"))
    port, control = free_port(), free_port()
    settings = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{control}",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{control}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": str(home / "data"),
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
        "num.partitions": "1",
    }
    file = home / "server.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    cluster = urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
    base = [java, "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", path]
    with (home / "log").open("w") as log:
        subprocess.run(
            [*base, "kafka.tools.StorageTool", "format", "--cluster-id", cluster, "--config", str(file)],
            stdout=log, stderr=log, check=True,
        )  # fmt: skip
        broker = subprocess.Popen([*base, "kafka.Kafka", str(file)], stdout=log, stderr=log)
        try:
            _wait(f"127.0.0.1:{port}", broker, home / "log")
            yield f"127.0.0.1:{port}"
        finally:
            broker.kill()
            broker.wait()
    shutil.rmtree(home, ignore_errors=True)


def _wait(servers: str, broker: subprocess.Popen[bytes], log: Path) -> None:
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        assert broker.poll() is None, log.read_text()[-3000:]
        try:
            admin.list_topics(timeout=2)
            return
        except Exception:
            continue
    raise AssertionError(f"Kafka did not start:\n{log.read_text()[-3000:]}")


def create_topics(servers: str, *names: str) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": servers})
    for future in admin.create_topics([NewTopic(n, 1, 1) for n in names]).values():
        future.result(60)


def messages(servers: str, topic: str, count: int) -> list[str]:
    """The first `count` messages of a topic; fewer when no more come for half a minute."""
    from confluent_kafka import Consumer

    consumer = Consumer({"bootstrap.servers": servers, "group.id": str(uuid.uuid4()), "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found: list[str] = []
    try:
        while len(found) < count:
            message = consumer.poll(30)
            if message is None:
                break
            assert message.error() is None, message.error()
            found.append(message.value().decode())
    finally:
        consumer.close()
    return found
