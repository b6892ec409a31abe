"""A remote Hive metastore for tests: its server, from the jars that Spark itself has, over Derby."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from postgres_server import free_port


class Unavailable(Exception):
    """The server does not start here; the text says why."""


_OPENS = [f"--add-opens=java.base/java.{name}=ALL-UNNAMED" for name in ("lang", "net", "util", "util.concurrent")]


@contextmanager
def hive_metastore(home: Path, warehouse: Path) -> Iterator[str]:
    """Yields the server's thrift URI."""
    java = shutil.which("java") or str(Path(os.environ.get("JAVA_HOME", "/usr"), "bin", "java"))
    settings = {
        "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={home}/metastore;create=true",
        "datanucleus.schema.autoCreateAll": "true",
        "hive.metastore.schema.verification": "false",
        "hive.metastore.warehouse.dir": str(warehouse),
        "hive.async.log.enabled": "false",  # its log queue is a jar that Spark leaves out
    }
    conf = home / "conf"
    conf.mkdir(parents=True)
    properties = "".join(f"<property><name>{k}</name><value>{v}</value></property>" for k, v in settings.items())
    (conf / "hive-site.xml").write_text(f"<configuration>{properties}</configuration>")
    port = free_port()
    path = os.pathsep.join([str(conf), str(Path(pyspark.__file__).parent / "jars" / "*")])
    command = [java, "-Xmx256m", "-XX:TieredStopAtLevel=1", f"-Dderby.system.home={home}", *_OPENS, "-cp", path]
    with (home / "log").open("w") as log:
        server = subprocess.Popen(
            [*command, "org.apache.hadoop.hive.metastore.HiveMetaStore", "-p", str(port)],
            cwd=home,
            stdout=log,
            stderr=log,
        )
        try:
            _wait(port, server, home / "log")
            yield f"thrift://127.0.0.1:{port}"
        finally:
            server.kill()
            server.wait()


def _wait(port: int, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if server.poll() is not None:
            raise Unavailable(f"the Hive metastore ended with {server.returncode}: {log.read_text()[-500:]}")
        with socket.socket() as client:
            client.settimeout(1)
            if client.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    raise Unavailable(f"the Hive metastore did not start within two minutes: {log.read_text()[-500:]}")
