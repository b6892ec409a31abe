"""Makes an environment with what is asked for, from PyPI: `python3 scripts/setup_venv.py [extra ...]`.

`--venv FOLDER` makes another one than .venv, and `--spark 4.0` has the newest PySpark of that release in it. Needs
nothing but python3. It is quick when nothing changed since the last time.

uv installs it, which pip fetches: everything for developers takes it some 40 s of CPU. Where uv cannot do what pip is
told to do here, or fails, pip installs everything itself. WHENCE_UV=no leaves uv out.
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
# What pip is told by its files and variables -> what tells uv the same.
FOR_UV = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "cert": "SSL_CERT_FILE",
    "default-timeout": "UV_HTTP_TIMEOUT",
    "timeout": "UV_HTTP_TIMEOUT",
}
# What changes nothing in what is installed.
WITHOUT_UV = {"disable-pip-version-check", "no-cache-dir", "cache-dir", "progress-bar", "no-input", "retries", "quiet"}


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


def told_to_uv(config: str) -> dict[str, str] | None:
    """The variables for uv, from what `pip config list` says; None where uv has no word for something."""
    variables = {"UV_INDEX_STRATEGY": "unsafe-best-match"}  # pip too takes the best of all indexes
    for line in config.splitlines():
        name, _, value = line.partition("=")
        name, value = name.split(".", 1)[-1], value.strip().strip("'\"")
        if name in FOR_UV:
            # Several indexes or folders stand on lines of their own, or with spaces between.
            separator = "," if name == "find-links" else " "
            variables[FOR_UV[name]] = separator.join(value.replace("\\n", " ").split())
        elif name not in WITHOUT_UV:
            return None
    return variables


def by_uv(python: Path, wanted: list[str]) -> bool:
    """Whether uv installed it."""
    if os.environ.get("WHENCE_UV") == "no":
        return False
    pip = [python, "-m", "pip"]
    config = subprocess.run([*pip, "config", "list"], capture_output=True, text=True, check=False)
    variables = told_to_uv(config.stdout) if config.returncode == 0 else None
    if variables is None:
        return False
    fetch = [*pip, "install", "--quiet", "--disable-pip-version-check", "uv>=0.5"]
    if subprocess.run(fetch, capture_output=True, check=False).returncode != 0:
        return False
    # What uv built of an earlier checkout in the same place had its page there: this one's is built anew. What is built
    # without the page, beside this, is not taken for what is built with it.
    own = ["--refresh-package", "whence", "--config-setting", f"page={os.environ.get('WHENCE_PAGE') or 'wanted'}"]
    install = [python.with_name("uv"), "pip", "install", "--quiet", "--python", python, *own, *wanted]
    done = subprocess.run(install, env={**os.environ, **variables}, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        say("uv could not install it, so pip does; uv said: " + done.stderr.strip()[-500:])
    return done.returncode == 0


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
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    if not by_uv(python, ["-e", wanted, *release]) and subprocess.run([*pip, "-e", wanted, *release]).returncode != 0:
        sys.exit("The packages could not be installed; pip says why above.")
    stamp.write_text(json.dumps({"pyproject": digest, "extras": sorted(extras), "spark": spark}) + "\n")


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("extras", nargs="*", help="extras of pyproject.toml: dev, bench, lakes, ...")
    options.add_argument("--venv", default=".venv", help="the environment's folder, in the repository (.venv)")
    options.add_argument("--spark", help="a release of PySpark, such as 4.0; without it, the newest that whence takes")
    given = options.parse_args()
    main(set(given.extras), ROOT / given.venv, given.spark)
