"""Makes what is published, and tries it as a user would: `make dist`.

Wheel and sdist are built into dist/ and checked; both must hold the same package. The wheel is then installed from PyPI
with all it needs, into an empty environment outside of the repository, where README's example and `whence demo` must
run. `--quick` leaves the environment out."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"


def say(text: str) -> None:
    print(f"[dist] {text}", flush=True)


def run(command: Sequence[str | Path], **options: object) -> None:
    done = subprocess.run([str(word) for word in command], check=False, **options)  # type: ignore[call-overload]
    if done.returncode != 0:
        sys.exit(f"[dist] `{' '.join(str(word) for word in command)}` ended with {done.returncode}.")


def build(folder: Path) -> tuple[Path, Path]:
    """The sdist, and the wheel made from it: what is not in the sdist cannot be in the wheel."""
    shutil.rmtree(folder, ignore_errors=True)
    run([sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", folder], cwd=ROOT)
    sdist = next(folder.glob("*.tar.gz"))
    with tempfile.TemporaryDirectory() as unpacked:
        with tarfile.open(sdist) as archive:
            archive.extractall(unpacked, filter="data")
        run(
            [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder],
            cwd=next(Path(unpacked).iterdir()),
        )
    return sdist, next(folder.glob("*.whl"))


def missing(wheel: Path) -> list[str]:
    """Files of the package here that the wheel does not hold."""
    held = set(zipfile.ZipFile(wheel).namelist())
    kinds = ("*.py", "*.java", "*.typed")
    here = {str(f.relative_to(ROOT / "src")) for kind in kinds for f in (ROOT / "src" / "whence").rglob(kind)}
    return sorted(here - held)


def example() -> tuple[str, str]:
    """README's example, and what it prints."""
    blocks = re.findall(r"^```(python|text)\n(.*?)^```$", (ROOT / "README.md").read_text(encoding="utf-8"), re.M | re.S)
    for (language, code), (kind, printed) in pairwise(blocks):
        if (language, kind) == ("python", "text"):
            return code, printed
    sys.exit("[dist] README.md has no Python example with its output.")


def extras(wheel: Path) -> str:
    """What a machine without Spark and Java needs besides, and the command."""
    archive = zipfile.ZipFile(wheel)
    told = archive.read(next(n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))).decode()
    return ",".join(name for name in ("cli", "java", "spark") if f"Provides-Extra: {name}\n" in told)


def try_it(wheel: Path, home: Path) -> None:
    say("installing the wheel and what it needs from PyPI into an empty environment; this takes a minute or two")
    run([sys.executable, "-m", "venv", home / "venv"])
    python = home / "venv" / "bin" / "python"
    run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", f"{wheel}[{extras(wheel)}]"])
    mine = {"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"}
    environment = {key: value for key, value in os.environ.items() if key not in mine}
    environment["JAVA_HOME"] = subprocess.run(
        [python, "-m", "whence.serve.java"], cwd=home, env=environment, capture_output=True, text=True, check=True
    ).stdout.strip()
    say("running README's example")
    code, printed = example()
    start = "from pyspark.sql import SparkSession\nspark = SparkSession.builder.getOrCreate()\n"
    (home / "example.py").write_text(start + code + "\nspark.stop()\n", encoding="utf-8")
    done = subprocess.run(
        [python, "example.py"], cwd=home, env=environment, capture_output=True, text=True, check=False
    )
    if _lines(done.stdout) != _lines(printed):
        sys.exit(f"[dist] README's example printed something else:\n{done.stdout}\n{done.stderr[-4000:]}")
    say("running whence demo")
    run([home / "venv" / "bin" / "whence", "demo"], cwd=home, env=environment)


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.strip().splitlines()]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--quick", action="store_true", help="build and check only")
    quick = options.parse_args().quick
    say("building")
    sdist, wheel = build(DIST)
    lacking = missing(wheel)
    if lacking:
        sys.exit(f"[dist] {wheel.name} lacks {', '.join(lacking)}")
    run([sys.executable, "-m", "twine", "check", "--strict", sdist, wheel])
    for file in (sdist, wheel):
        say(f"dist/{file.name}  {file.stat().st_size / 1e6:.1f} MB")
    if not quick:
        with tempfile.TemporaryDirectory() as home:
            try_it(wheel, Path(home))
    say("good to go")


if __name__ == "__main__":
    main()
