"""A pipeline that is a command: `python train.py {params}`, or with single places such as `--lr {lr}`."""

from __future__ import annotations

import re
import shlex
import subprocess
from typing import Any

from whence.debug.diagnose.errors import DiagnoseError
from whence.debug.diagnose.space import Config


class ScriptFailed(Exception):
    """The command's exit code was not 0."""


class Script:
    """Calling it runs the command; {params} becomes `--name value` for each parameter that has no place of its own."""

    def __init__(self, command: str, names: tuple[str, ...], timeout: float | None = None) -> None:
        self.words, self.timeout = shlex.split(command), timeout
        self.placed = [n for n in names if any(f"{{{n}}}" in w for w in self.words)]
        unknown = {p for w in self.words for p in re.findall(r"{(\w+)}", w)} - {*names, "params"}
        if unknown:
            raise DiagnoseError(
                f"The script names {{{min(unknown)}}}, which is no parameter of the space ({', '.join(names)})."
            )
        if "{params}" not in self.words and len(self.placed) < len(names):
            missing = next(n for n in names if n not in self.placed)
            raise DiagnoseError(
                f"The script has no place for the parameter {missing!r}: add {{params}} or {{{missing}}} to it."
            )

    def line(self, config: Config) -> list[str]:
        found: list[str] = []
        for word in self.words:
            if word == "{params}":
                for name, value in config.items():
                    if name not in self.placed:
                        found += [f"--{name}", str(value)]
            else:
                found.append(re.sub(r"{(\w+)}", lambda m: str(config[m[1]]), word))
        return found

    def __call__(self, config: Config) -> Any:
        try:
            done = subprocess.run(
                self.line(config), capture_output=True, text=True, errors="replace", timeout=self.timeout, check=False
            )
        except subprocess.TimeoutExpired:
            raise TimeoutError("the command took too long") from None
        if done.returncode:
            said = (done.stderr.strip() or done.stdout.strip() or "it said nothing").splitlines()[-1]
            raise ScriptFailed(f"exit code {done.returncode}: {said}")
        return True
