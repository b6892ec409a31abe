"""`whence datasets`, `runs`, `lineage`, `impact` and `search`."""

from __future__ import annotations

import sys
from enum import Enum
from typing import Annotated, Any

import typer

from whence.serve.commands.options import (
    AsOfOption,
    JsonOption,
    NamespaceOption,
    StoreOption,
    at,
    moment,
    opened,
    put_json,
    put_table,
    whole,
)

PAGE = 1000
EMPTY = "The catalogue is empty. whence.attach(spark, store=...) fills it with what a session does."


class Status(str, Enum):
    completed = "completed"
    failed = "failed"
    running = "running"


class Direction(str, Enum):
    backward = "backward"
    forward = "forward"
    both = "both"


class Level(str, Enum):
    dataset = "dataset"
    column = "column"


class Format(str, Enum):
    json = "json"
    csv = "csv"


class Type(str, Enum):
    dataset = "dataset"
    column = "column"
    run = "run"


def datasets(
    kind: Annotated[str | None, typer.Option(help="Only of this kind: table, view, path, topic, model, ...")] = None,
    namespace: Annotated[str | None, typer.Option(help="Only of this namespace.")] = None,
    dropped: Annotated[bool | None, typer.Option("--dropped/--no-dropped", help="Only those dropped, or not.")] = None,
    as_json: JsonOption = False,
    store: StoreOption = None,
) -> None:
    """List the datasets of the catalogue."""
    from whence.serve.answers import datasets as answers

    with opened(store) as view:
        found = whole(lambda cursor: answers.datasets(view, kind, namespace, dropped, PAGE, cursor))
    if as_json:
        put_json(found)
        return
    rows = [
        [d["namespace"], d["name"], d["kind"], d["version"], len(d["columns"]), "dropped" if d["dropped"] else ""]
        for d in found["items"]
    ]
    put_table(["namespace", "name", "kind", "version", "columns", ""], rows, EMPTY)


def runs(
    status: Annotated[Status | None, typer.Option(help="Only those that ended so.")] = None,
    kind: Annotated[str | None, typer.Option(help="Only of this kind: query, stream, ...")] = None,
    application: Annotated[str | None, typer.Option(help="Only of this application.")] = None,
    namespace: NamespaceOption = None,
    name: Annotated[str | None, typer.Option(help="Only those that read or wrote this dataset.")] = None,
    as_json: JsonOption = False,
    store: StoreOption = None,
) -> None:
    """List the runs that were observed, newest first."""
    from whence.serve.answers import runs as answers

    ended = None if status is None else status.value
    with opened(store) as view:
        found = whole(lambda cursor: answers.runs(view, ended, kind, application, namespace, name, PAGE, cursor))
    if as_json:
        put_json(found)
        return
    rows = [
        [at(r["started"]), r["status"], r["kind"], r["name"], _names(r["inputs"]), _names(r["outputs"]), r["id"]]
        for r in found["items"]
    ]
    put_table(["started", "status", "kind", "name", "inputs", "outputs", "id"], rows, EMPTY)


def _names(refs: list[dict[str, Any]]) -> str:
    return ", ".join(ref["name"] for ref in refs)


def lineage(
    name: Annotated[str, typer.Argument(help="Any name that the dataset goes by.")],
    namespace: NamespaceOption = None,
    direction: Annotated[Direction, typer.Option(help="What it is made from, what is made from it, or both.")] = (
        Direction.backward
    ),
    depth: Annotated[int, typer.Option(min=1, max=100, help="Steps away at most.")] = 3,
    level: Annotated[Level, typer.Option(help="Edges between datasets, or between their columns.")] = Level.dataset,
    column: Annotated[str | None, typer.Option(help="Only of this column; implies --level column.")] = None,
    indirect: Annotated[
        bool, typer.Option("--indirect/--no-indirect", help="Links that only decide about values: filters, joins, ...")
    ] = True,
    as_of: AsOfOption = None,
    limit: Annotated[int, typer.Option(min=1, max=20_000, help="Datasets at most; the nearest are given.")] = 2000,
    as_json: JsonOption = False,
    store: StoreOption = None,
) -> None:
    """Show the datasets behind one, or after it."""
    from whence.serve.answers.lineage import lineage as walk

    when = moment(as_of, "--as-of")
    with opened(store) as view:
        found = walk(view, name, namespace, direction.value, depth, level.value, column, indirect, when, limit)
    if as_json:
        put_json(found)
        return
    names = {node["id"]: node["name"] for node in found["nodes"]}
    if level is Level.column or column is not None:
        rows = [
            [e["depth"], names[e["source"]], e["source_column"], names[e["target"]], e["target_column"], e["kind"],
             e["subtype"]]
            for e in found["edges"]
        ]  # fmt: skip
        put_table(["depth", "source", "column", "target", "column", "kind", "subtype"], rows, "No lineage is known.")
    else:
        rows = [
            [e["depth"], names[e["source"]], names[e["target"]], e["kind"], e["run"], at(e["at"])]
            for e in found["edges"]
        ]
        put_table(["depth", "source", "target", "kind", "run", "at"], rows, "No lineage is known.")
    if found["truncated"]:
        print(f"whence: there are more; these are the nearest {len(names)}. --limit gives more.", file=sys.stderr)


def impact(
    name: Annotated[str, typer.Argument(help="Any name that the dataset goes by.")],
    namespace: NamespaceOption = None,
    column: Annotated[str | None, typer.Option(help="What comes after this column.")] = None,
    as_of: AsOfOption = None,
    depth: Annotated[int, typer.Option(min=1, max=100, help="Steps away at most.")] = 100,
    format: Annotated[Format | None, typer.Option(help="csv or json instead of a table.")] = None,
    as_json: JsonOption = False,
    store: StoreOption = None,
) -> None:
    """List everything that a change of a dataset reaches."""
    from whence.serve.answers import impact as answers

    when = moment(as_of, "--as-of")
    with opened(store) as view:
        if format is Format.csv:
            sys.stdout.write(answers.impact_csv(view, name, namespace, column, when, depth))
            return
        found = answers.impact(view, name, namespace, column, when, depth, limit=None)
    if as_json or format is Format.json:
        put_json(found)
        return
    rows = [
        [i["degree"], i["dataset"]["namespace"], i["dataset"]["name"], i["dataset"]["kind"],
         ", ".join(i.get("columns", ()))]
        for i in found["items"]
    ]  # fmt: skip
    put_table(["degree", "namespace", "name", "kind", "columns"], rows, "Nothing is made from it.")


def search(
    text: Annotated[str, typer.Argument(help="Words, each a part of the name.")],
    type: Annotated[Type | None, typer.Option(help="Only datasets, columns or runs.")] = None,
    as_json: JsonOption = False,
    store: StoreOption = None,
) -> None:
    """Find datasets, columns and runs by parts of their names."""
    from whence.serve.answers.search import search as find

    if not text:
        raise typer.BadParameter("must not be empty.", param_hint="TEXT")
    wanted = None if type is None else type.value
    with opened(store) as view:
        found = whole(lambda cursor: find(view, text, wanted, PAGE, cursor))
    if as_json:
        put_json(found)
        return
    rows = [
        [i["type"], (i["dataset"] or {}).get("namespace"), (i["dataset"] or i["run"])["name"],
         i["column"] or (i["run"] or {}).get("id")]
        for i in found["items"]
    ]  # fmt: skip
    put_table(["type", "namespace", "name", ""], rows, "Nothing is named so.")
