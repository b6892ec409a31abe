"""A real PostgreSQL for tests: started on a free port in a temporary directory when initdb is found."""

from __future__ import annotations

import glob
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def find_initdb() -> str | None:
    installed = sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb"), reverse=True)
    return shutil.which("initdb") or (installed[0] if installed else None)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def postgres_server() -> Iterator[str]:
    """Yields a URL of an empty database. PostgreSQL refuses root, so root starts it as another user."""
    initdb = find_initdb()
    assert initdb is not None
    programs = Path(os.path.realpath(initdb)).parent
    home = Path(tempfile.mkdtemp(prefix="whence-postgres-"))
    port = free_port()
    user = None
    if os.geteuid() == 0:
        user = next(name for name in ("postgres", "nobody") if _has_user(name))
        os.chown(home, pwd.getpwnam(user).pw_uid, -1)

    def run(*command: str) -> None:
        # pg_ctl's server inherits the output: a pipe would never end
        with (home / "log").open("a") as log:
            done = subprocess.run(command, user=user, cwd=home, stdout=log, stderr=log, check=False)
        assert done.returncode == 0, (home / "log").read_text()

    data = str(home / "data")
    options = f"-p {port} -k {home} -c listen_addresses=127.0.0.1 -c fsync=off -c full_page_writes=off"
    try:
        run(str(programs / "initdb"), "-D", data, "-U", "whence", "-A", "trust", "-E", "UTF8", "--no-sync")
        run(str(programs / "pg_ctl"), "-D", data, "-w", "-o", options, "start")
        try:
            yield f"postgresql://whence:secret@127.0.0.1:{port}/postgres"
        finally:
            run(str(programs / "pg_ctl"), "-D", data, "-m", "immediate", "-w", "stop")
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _has_user(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True
