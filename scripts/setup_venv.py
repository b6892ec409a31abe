"""Makes an environment with what is asked for, from PyPI: `python3 scripts/setup_venv.py [extra ...]`.

`--venv FOLDER` makes another one than .venv, and `--spark 4.0` has the newest PySpark of that release in it. Needs
nothing but python3. It is quick when nothing changed since the last time.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path
from urllib.parse import urljoin

ROOT = Path(__file__).resolve().parent.parent
HELP = "On Debian: apt install python3-venv ca-certificates"


def say(text: str) -> None:
    print(f"[setup] {text}", flush=True)


def make_venv(venv: Path) -> None:
    say(f"making {venv.name}")
    shutil.rmtree(venv, ignore_errors=True)
    whole = subprocess.run([sys.executable, "-m", "venv", str(venv)], capture_output=True, text=True, check=False)
    if whole.returncode == 0:
        return
    # Debian keeps ensurepip in the package python3-venv; without it the venv is made bare and pip is fetched.
    shutil.rmtree(venv, ignore_errors=True)
    bare = subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", str(venv)], capture_output=True, text=True, check=False
    )
    if bare.returncode != 0:
        sys.exit(f"python3 cannot make a virtual environment here:\n{bare.stdout}{bare.stderr}{HELP}")
    say("this python3 has no ensurepip: fetching pip from PyPI")
    try:
        with tempfile.TemporaryDirectory() as folder:
            wheel = fetch_pip(Path(folder))
            subprocess.run([venv / "bin" / "python", f"{wheel}/pip", "install", "-q", str(wheel)], check=True)
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        shutil.rmtree(venv, ignore_errors=True)
        sys.exit(f"pip could not be fetched from PyPI: {error}\n{HELP}")


def fetch_pip(folder: Path) -> Path:
    """The newest final pip, from the index that pip itself would use."""
    index = os.environ.get("PIP_INDEX_URL", "https://pypi.org/simple").rstrip("/") + "/pip/"
    with urllib.request.urlopen(index, timeout=60) as answer:
        page = answer.read().decode()
    links = re.findall(r'href="([^"#]*/pip-(\d+(?:\.\d+)*)-py3-none-any\.whl)#sha256=([0-9a-f]{64})"', page)
    if not links:
        raise ValueError(f"{index} lists no pip")
    link, version, promised = max(links, key=lambda found: [int(part) for part in found[1].split(".")])
    with urllib.request.urlopen(urljoin(index, link), timeout=180) as answer:
        content = answer.read()
    if hashlib.sha256(content).hexdigest() != promised:
        raise ValueError("the file that came is not the one that was promised")
    wheel = folder / f"pip-{version}-py3-none-any.whl"
    wheel.write_bytes(content)
    return wheel


def has_java() -> bool:
    sys.path.insert(0, str(ROOT / "src"))
    from whence.serve.java import installed

    return installed() is not None


def main(extras: set[str], venv: Path, spark: str | None) -> None:
    if sys.version_info < (3, 10):  # noqa: UP036 (this file is what tells so)
        sys.exit(f"whence needs Python 3.10 or newer; this is {sys.version.split()[0]}.")
    if not has_java():
        extras.add("java")
    python, stamp = venv / "bin" / "python", venv / "whence-installed.json"
    digest = hashlib.sha256((ROOT / "pyproject.toml").read_bytes()).hexdigest()
    done = json.loads(stamp.read_text()) if stamp.exists() else {}
    same = done.get("pyproject") == digest and done.get("spark") == spark
    if same and extras <= set(done.get("extras", ())):
        return
    if not python.exists() or subprocess.run([python, "-m", "pip", "--version"], capture_output=True).returncode != 0:
        make_venv(venv)
        done = {}
    extras |= set(done.get("extras", ()))
    wanted = f"{ROOT}[{','.join(sorted(extras))}]" if extras else str(ROOT)
    release = [] if spark is None else [f"pyspark=={spark}.*"]
    what = " and ".join([f"whence{wanted[len(str(ROOT)) :]}", *release])
    say(f"installing {what} from PyPI; the first time this takes a minute or two")
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-e", wanted, *release]
    if subprocess.run(pip).returncode != 0:
        sys.exit("The packages could not be installed; pip says why above.")
    stamp.write_text(json.dumps({"pyproject": digest, "extras": sorted(extras), "spark": spark}) + "\n")


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("extras", nargs="*", help="extras of pyproject.toml: dev, bench, lakes, ...")
    options.add_argument("--venv", default=".venv", help="the environment's folder, in the repository (.venv)")
    options.add_argument("--spark", help="a release of PySpark, such as 4.0; without it, the newest that whence takes")
    given = options.parse_args()
    main(set(given.extras), ROOT / given.venv, given.spark)
