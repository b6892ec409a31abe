"""What the commands have in common: their options, how they open a store, and how they print."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from whence.serve.view import View

StoreOption = Annotated[
    str | None, typer.Option("--store", help="A directory or a PostgreSQL URL, as attach takes it; default ./.whence.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print what the REST API would answer, and nothing else.")]
NamespaceOption = Annotated[
    str | None, typer.Option("--namespace", help="The dataset's namespace, where several go by its name.")
]
AsOfOption = Annotated[
    str | None, typer.Option("--as-of", help="As it was at this time, such as 2026-03-01T12:00:00Z.")
]


@contextmanager
def opened(store: str | None) -> Iterator[View]:
    """The store as its owner sees it: the command line has no policies."""
    from whence.serve.view import Service
    from whence.store import Store

    held = Store.at(store)
    try:
        yield Service(held).view()
    finally:
        held.close()


def moment(text: str | None, option: str) -> datetime | None:
    from whence.serve.times import moment as parse

    if text is None:
        return None
    try:
        return parse(text)
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} {error}.", param_hint=option) from error


def whole(answer: Callable[[str | None], dict[str, Any]]) -> dict[str, Any]:
    """All items of a list; `answer` gives one page after a cursor."""
    items: list[Any] = []
    cursor: str | None = None
    while True:
        page = answer(cursor)
        items += page["items"]
        cursor = page["next"]
        if cursor is None:
            return {"items": items, "next": None}


def put_json(value: Any) -> None:
    from whence.serve.jsons import dumps

    sys.stdout.write(dumps(value).decode("utf-8", "replace") + "\n")


def put_table(columns: list[str], rows: list[list[Any]], nothing: str) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from whence.model.text import visible

    if not rows:
        print(nothing)
        return
    is_terminal = sys.stdout.isatty()
    console = Console(highlight=False, markup=False, emoji=False, width=None if is_terminal else 10_000)
    table = Table(box=None, pad_edge=False, header_style="bold" if is_terminal else "")
    for name in columns:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*[Text("" if value is None else visible(str(value))) for value in row])
    console.print(table)


def at(value: datetime | None) -> str:
    return "" if value is None else value.strftime("%Y-%m-%d %H:%M:%S")
