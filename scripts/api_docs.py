"""Writes docs/api.md: every public method of what a user holds, with its options, from the code itself."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "api.md"

_PLAIN = str | int | tuple | frozenset | dict  # a class's own constants

HEAD = """# Every method and option

Written from the code by `make docs`; a test holds it. What each is for stands in the pages on [SQL](sql.md),
[capture](capture.md), [RDDs](rdd.md), [actors](actors.md), [arrays](arrays.md), [debugging](debug.md),
[diagnose](diagnose.md) and [the catalogue](catalog.md).
"""


def described() -> list[tuple[str, str, type]]:
    import whence
    from whence.actors import Actor, ActorStore
    from whence.arrays import Operator, Workflow
    from whence.arrays.run import Run
    from whence.debug.everything import Everything
    from whence.debug.history import History
    from whence.debug.trace import Trace
    from whence.model.verdict import Verdict
    from whence.rdd.context import LineageContext
    from whence.rdd.trace import Traced
    from whence.store.catalog import Catalog

    return [
        ("Session", "`w = whence.attach(spark, store=None)`", whence.Session),
        ("Trace", "what `w.backward` and `w.forward` give", Trace),
        ("Verdict", "what `verify` gives", Verdict),
        ("Everything", "what `w.forward` without `to` gives", Everything),
        ("History", "what `w.history` gives", History),
        ("LineageContext", "`w.context`; besides, every method of a SparkContext", LineageContext),
        ("Traced", "what `rdd.getLineage()` gives; besides, every method of an RDD", Traced),
        ("Actor", "what `w.register` gives", Actor),
        ("ActorStore", "`w.actors`, or the door without Spark", ActorStore),
        ("Operator", "`whence.arrays.Operator`", Operator),
        ("Workflow", "`whence.arrays.Workflow`", Workflow),
        ("Run", "what `w.execute` gives", Run),
        ("Catalog", "`w.catalog`", Catalog),
    ]


def page() -> str:
    parts = [HEAD]
    for name, where, kind in described():
        parts.append(f"\n## {name}\n\n{where[0].upper()}{where[1:]}.\n\n| | |\n|---|---|\n")
        parts += [f"| `{call}` | {_cell(text)} |\n" for call, text in sorted(_members(kind))]
    return "".join(parts)


def _members(kind: type) -> list[tuple[str, str]]:
    found = []
    for name, member in vars(kind).items():
        if name.startswith("_"):
            continue
        call: Any = member.__func__ if isinstance(member, classmethod | staticmethod) else member
        if inspect.isfunction(call):
            if call.__module__.startswith("whence"):
                found.append((f"{name}{_signature(call)}", inspect.getdoc(call) or ""))
        elif getattr(member, "__doc__", None) is not None and not isinstance(
            member, str | int | tuple | frozenset | dict
        ):
            found.append((name, inspect.getdoc(member) or ""))
    return found


def _signature(call: Any) -> str:
    told = inspect.signature(call)
    parameters = [p.replace(annotation=inspect.Parameter.empty) for p in told.parameters.values() if p.name != "self"]
    return str(told.replace(parameters=parameters, return_annotation=inspect.Signature.empty))


def _cell(text: str) -> str:
    first = text.split("\n\n")[0].replace("\n", " ").strip()
    return first.replace("|", "\\|")


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(PAGE.read_text(encoding="utf-8") != page())
    PAGE.write_text(page(), encoding="utf-8")
