"""Tables for notebooks. Everything in them is text of others: shown, and never obeyed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from whence.model.text import visible


def html_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, more: bool = False) -> str:
    """`more`: there are rows that are not shown."""
    head = "".join(f"<th>{cell(name)}</th>" for name in columns)
    body = "".join("<tr>" + "".join(f"<td>{cell(value)}</td>" for value in row) + "</tr>" for row in rows)
    rest = f'<tr><td colspan="{max(len(columns), 1)}">…</td></tr>' if more else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}{rest}</tbody></table>"


def cell(value: object) -> str:
    return escape(visible(value))


def paragraph(text: str) -> str:
    return "<p>" + "<br>".join(cell(line) for line in text.splitlines()) + "</p>"


def rows_table(rows: Sequence[object], most: int = 20) -> str:
    """Rows of one shape, under the names of their columns where they have them."""
    first = rows[0] if rows else ()
    names = list(getattr(first, "__fields__", ())) or [f"column {n + 1}" for n in range(_width(first))]
    return html_table(names, [row if isinstance(row, tuple) else (row,) for row in rows[:most]], more=len(rows) > most)


def _width(row: object) -> int:
    return len(row) if isinstance(row, tuple) else 1
