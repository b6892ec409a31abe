"""Spark's own standalone cluster on loopback, from pip's pyspark: a master and two workers, each its own process."""

from __future__ import annotations

import os
import re
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, Queue

import pyspark

import jvm

_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
_DEPLOY = "org.apache.spark.deploy"
WORKERS = 2


class Daemon:
    """One of Spark's processes; its log is read as it is written."""

    def __init__(self, home: Path, name: str, *command: str, environment: Mapping[str, str]) -> None:
        self.log = home / f"{name}.log"
        self._lines: Queue[str] = Queue()
        self.process = subprocess.Popen(
            [str(_CLASS), *command],
            cwd=home,
            env=dict(environment),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        with self.log.open("w") as log:
            for line in self.process.stderr:
                log.write(line)
                log.flush()
                self._lines.put(line)
        self._lines.put("")

    def says(self, pattern: str, seconds: float = 60) -> str:
        """The first group of the pattern, as soon as a line has it."""
        while True:
            try:
                line = self._lines.get(timeout=seconds)
            except Empty:
                line = ""
            if not line:
                raise AssertionError(f"{self.log.name} never said {pattern!r}:\n{self.log.read_text()[-3000:]}")
            found = re.search(pattern, line)
            if found is not None:
                return found[1]

    def end(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@contextmanager
def standalone(home: Path, jars: list[Path] | None = None) -> Iterator[str]:
    """The URL of a master whose two workers have registered. What executors say stands in home/worker-N/work."""
    home.mkdir(parents=True, exist_ok=True)
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYSPARK_", "SPARK_", "PYTHONPATH"))}
    environment |= {
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_NO_DAEMONIZE": "1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        **jvm.in_front(),  # what a driver sends that has its classes, only an executor that has them can read
    }
    if jars:
        environment["SPARK_DIST_CLASSPATH"] = os.pathsep.join(map(str, jars))
    running: list[Daemon] = []
    try:
        master = Daemon(
            home, "master", f"{_DEPLOY}.master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0",
            environment=environment,
        )  # fmt: skip
        running.append(master)
        url = master.says(r"Starting Spark master at (spark://\S+)")
        workers = []
        for n in range(WORKERS):
            folder = home / f"worker-{n}"
            folder.mkdir()
            worker = Daemon(
                home, f"worker-{n}", f"{_DEPLOY}.worker.Worker", "--host", "127.0.0.1", "--webui-port", "0",
                "--cores", "2", "--memory", "2g", "--work-dir", str(folder / "work"), url,
                environment={**environment, "SPARK_LOCAL_DIRS": str(folder / "local")},
            )  # fmt: skip
            running.append(worker)
            workers.append(worker)
        for worker in workers:
            worker.says(r"(Successfully registered) with master")
        yield url
    finally:
        for daemon in reversed(running):
            daemon.end()
