"""Jars from Maven for the tests that need them, kept in a cache; a printed reason where they cannot be had."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path


class Unavailable(Exception):
    """Maven is not there, or does not reach its repository."""


# Spark's own poms name a mirror that not every network reaches; the main repository has everything.
_SETTINGS = """<settings><mirrors><mirror><id>main</id><mirrorOf>*</mirrorOf>
<url>https://repo.maven.apache.org/maven2</url></mirror></mirrors></settings>"""


def jars(*coordinates: str, alone: bool = False) -> list[Path]:
    """The jars of group:artifact:version[:classifier] and what they need; `alone`: without what they need."""
    key = hashlib.sha256(repr((coordinates, alone)).encode()).hexdigest()[:16]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "whence-tests" / key
    if not cache.is_dir():
        _fetch(coordinates, alone, cache)
    return sorted(cache.glob("*.jar"))


def _fetch(coordinates: tuple[str, ...], alone: bool, cache: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise Unavailable("Maven (mvn) is not installed")
    cache.parent.mkdir(parents=True, exist_ok=True)
    without = (
        "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
        if alone
        else ""
    )
    wanted = "".join(
        f"<dependency><groupId>{g}</groupId><artifactId>{a}</artifactId><version>{v}</version>"
        f"{''.join(f'<classifier>{c}</classifier>' for c in classifier)}{without}</dependency>"
        for g, a, v, *classifier in (c.split(":") for c in coordinates)
    )
    with tempfile.TemporaryDirectory() as home:
        project = (
            "<project><modelVersion>4.0.0</modelVersion><groupId>t</groupId><artifactId>t</artifactId><version>1</version>"
            f"<dependencies>{wanted}</dependencies></project>"
        )
        Path(home, "pom.xml").write_text(project)
        Path(home, "settings.xml").write_text(_SETTINGS)
        command = [maven, "-B", "-q", "-s", "settings.xml", "dependency:copy-dependencies", "-DoutputDirectory=jars"]
        done = subprocess.run(
            [*command, "-DincludeScope=runtime"], cwd=home, capture_output=True, text=True, check=False, timeout=600
        )
        if done.returncode != 0:
            reason = next((line for line in done.stdout.splitlines() if "ERROR" in line), "it failed")
            raise Unavailable(f"Maven could not bring {', '.join(coordinates)}: {reason[:300]}")
        shutil.move(str(Path(home, "jars")), cache)
