"""Builds the web page (ui/) into the package while a wheel, an sdist or an editable install is made.

Needs node and npm, and npm's registry for the packages that ui/package-lock.json names. Where they are missing the
package is made without the page, and says so: `whence serve` then shows a plain page of its own. WHENCE_PAGE=skip
leaves the page out on purpose, WHENCE_PAGE=require makes its absence an error (for releases).
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PAGE = Path("src/whence/serve/page")
STAMP = "built-from"
SOURCES = ("src", "index.html", "package.json", "package-lock.json", "tsconfig.json", "vite.config.ts")
LEAST_NODE = (20, 19)


class PageHook(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        wish = os.environ.get("WHENCE_PAGE", "")
        root = Path(self.root)
        if wish == "skip" or not (root / "ui").is_dir():
            return
        missing = build(root, self.app.display_info)
        if missing and wish == "require":
            raise RuntimeError(missing)
        if missing:
            self.app.display_warning(f"{missing} `whence serve` will show a plain page instead of the graph.")


def build(root: Path, say: Any) -> str | None:
    """Makes the page unless it is there already, made from the same sources; gives the reason where it cannot."""
    ui, page = root / "ui", root / PAGE
    digest = digest_of(ui)
    stamp = page / STAMP
    if stamp.exists() and stamp.read_text() == digest:
        return None
    npm = shutil.which("npm")
    if npm is None or not new_enough():
        return f"The web page is not built: node {'.'.join(map(str, LEAST_NODE))} or newer and npm are needed for it."
    say("building the web page with npm; the first time this takes half a minute")
    # Not `npm ci`: it refuses a lock file that was made on another kind of machine, which lacks this one's binaries.
    fetch = [npm, "install", "--no-save", "--no-audit", "--no-fund", "--loglevel=error"]
    for command in (fetch, [npm, "run", "--silent", "build"]):
        done = subprocess.run(command, cwd=ui, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            said = (done.stderr or done.stdout).strip()[-2000:]
            return f"The web page is not built: `{' '.join(['npm', *command[1:]])}` failed:\n{said}\n"
    stamp.write_text(digest)
    return None


def new_enough() -> bool:
    node = shutil.which("node")
    if node is None:
        return False
    said = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout.strip().lstrip("v")
    parts = said.split(".")
    return len(parts) >= 2 and all(p.isdigit() for p in parts[:2]) and (int(parts[0]), int(parts[1])) >= LEAST_NODE


def digest_of(ui: Path) -> str:
    digest = hashlib.sha256()
    for name in (*SOURCES, "vite.notebook.config.ts"):
        path = ui / name
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file():
                digest.update(str(file.relative_to(ui)).encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()


if __name__ == "__main__":
    print(build(Path(__file__).resolve().parents[1], print) or "The web page is built.")
