"""A server, and a page that is watched for what it should never do."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


@dataclass
class Server:
    url: str
    process: subprocess.Popen[str]


def start(folder: Path, *options: str) -> Server:
    command = [sys.executable, "-m", "whence.serve.cli", "serve", "--store", str(folder), "--port", "0", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    line = process.stdout.readline()
    assert "http://" in line, f"the server did not start: {line!r}"
    return Server(line.split()[-1].rstrip("/"), process)


def stop(server: Server) -> None:
    server.process.terminate()
    server.process.wait(60)


@dataclass
class Watched:
    """A page with what it should never do: log errors, or ask anybody but its server."""

    page: Any
    base: str
    errors: list[str] = field(default_factory=list)
    strangers: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.on("console", lambda message: message.type == "error" and self.errors.append(message.text))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", lambda request: self._asked(request.url))

    def _asked(self, url: str) -> None:
        if not url.startswith((self.base, "blob:" + self.base)):
            self.strangers.append(url)

    def open(self, address: str) -> Any:
        self.page.goto(self.base + address)
        return self.page

    def graph(self, address: str) -> Any:
        """Opens an address with a graph, and waits until it is laid out."""
        self.open(address)
        return self.laid_out()

    def laid_out(self) -> Any:
        from playwright.sync_api import expect

        region = self.page.get_by_role("region", name="Lineage graph")
        expect(region).to_have_attribute("aria-busy", "false")
        return region

    def dataset(self, name: str) -> Any:
        return self.page.get_by_role("button", name=name, exact=True)
