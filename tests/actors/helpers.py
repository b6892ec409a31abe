"""Functions that other processes must be able to import."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any


def work_in_child(actor: Any, n: int) -> None:
    actor.capture(n, f"word {n}")
    actor.commit()


def double_in_a_process(name: str, conf: Mapping[str, Any]) -> str:
    code = f"""
from whence.actors import ActorStore
actor = ActorStore({conf["root"]!r}).register({name!r})
print(*[2 * n for n in range(4) if not actor.capture(n, 2 * n)])
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    return ran.stdout.strip()
