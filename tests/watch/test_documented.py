"""docs/catalog.md lists what gets column lineage: the list is what the rules are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from whence.watch.commands import COMMANDS, Effect
from whence.watch.nodes import NODES, Reading, _opaque
from whence.watch.sources import Place

PAGE = (Path(__file__).parents[2] / "docs" / "catalog.md").read_text()
SECTION = PAGE.partition("## What gets column lineage")[2].partition("\n## ")[0]


def listed(heading: str) -> list[str]:
    """The names under a heading in bold, up to the next one."""
    text = SECTION.partition(f"**{heading}")[2].partition("**")[2].partition("\n\n")[0]
    return [name for name in re.findall(r"`(\w+)`", text) if name != "ALTER"]


@pytest.mark.parametrize(
    ("heading", "names"),
    [
        ("Operators, to the column", {n for n, rule in NODES.items() if rule is not _opaque}),
        ("Operators, from every column to every column", {n for n, rule in NODES.items() if rule is _opaque}),
    ],
)
def test_operators(heading: str, names: set[str]) -> None:
    found = listed(heading)
    assert len(found) == len(set(found))
    assert set(found) == names


def test_commands() -> None:
    linking, others = set(listed("Commands that link columns")), set(listed("Commands that change a dataset"))
    assert linking | others == set(COMMANDS)
    assert linking & others == set()


@pytest.mark.parametrize("name", sorted(n for n in COMMANDS if n in listed("Commands that change a dataset")))
def test_commands_without_a_query_link_no_columns(name: str) -> None:
    table = {"table": "t", "database": "d", "location": "/t"}
    fields = {
        "table": table, "sourceTable": table, "targetTable": table, "tableName": table, "oldName": table,
        "newName": table, "path": "/p", "name": "d", "databaseName": "d",
    }  # fmt: skip
    effects: list[Effect] = COMMANDS[name](Reading(Place()), fields, {"c": name, "f": fields})
    assert all(effect.query is None and not effect.columns for effect in effects)
