"""`whence export` and `import`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from whence.model import WhenceError
from whence.serve.commands.options import StoreOption, moment, opened, put_json

_BATCH = 500


def export(
    since: Annotated[str | None, typer.Option(help="Only events from this time on.")] = None,
    store: StoreOption = None,
) -> None:
    """Write the runs as OpenLineage events, one JSON object in a line."""
    from whence.serve.answers.events import events

    when = moment(since, "--since")
    with opened(store) as view:
        cursor: str | None = None
        while True:
            page = events(view, when, 1000, cursor)
            for event in page["items"]:
                put_json(event)
            cursor = page["next"]
            if cursor is None:
                return


def take(
    file: Annotated[str, typer.Argument(help="JSON lines of OpenLineage run events; - is standard input.")],
    store: StoreOption = None,
) -> None:
    """Read OpenLineage events into the catalogue."""
    try:
        from whence.serve.api.bodies import events_of
    except ImportError as error:
        raise WhenceError(f"Reading events needs more packages: pip install 'whence[serve]' ({error}).") from error
    from whence.serve.answers.events import take as write

    with opened(store) as view:
        count, batch = 0, []
        for number, line in enumerate(_lines(file), 1):
            if not line.strip():
                continue
            try:
                batch += events_of(json.loads(line))
            except ValueError as error:
                raise WhenceError(f"Line {number} of {file} is not JSON: {error}. {_said(count)}") from error
            except WhenceError as error:
                raise WhenceError(f"Line {number} of {file} is no run event: {error} {_said(count)}") from error
            if len(batch) >= _BATCH:
                count += write(view, batch)
                batch = []
        count += write(view, batch) if batch else 0
    print(_said(count))


def _said(count: int) -> str:
    return f"{count} {'event was' if count == 1 else 'events were'} imported."


def _lines(file: str) -> Any:
    if file == "-":
        yield from sys.stdin.buffer
        return
    try:
        with Path(file).open("rb") as held:
            yield from held
    except OSError as error:
        raise WhenceError(f"{file} cannot be read: {error.strerror}.") from error
