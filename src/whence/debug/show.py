"""A trace for the eye: the steps as a tree with row counts, the sources with their first rows, and if it is exact."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from io import StringIO
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from whence.model.text import readable, visible
from whence.progress import working

if TYPE_CHECKING:
    from pyspark.sql import Row

    from whence.debug.trace import Trace

FIRST_ROWS = 5
_WIDTH = 120


@dataclass(frozen=True)
class _StepLine:
    text: str
    depth: int
    rows: int


@dataclass(frozen=True)
class _SourceTable:
    name: str
    rows: int
    columns: tuple[str, ...]
    first: tuple[Row, ...]


@dataclass(frozen=True)
class Picture:
    """All that is shown, computed once for text and HTML alike."""

    direction: str
    widened: tuple[str, ...]
    ended: tuple[str, ...]
    steps: tuple[_StepLine, ...]
    sources: tuple[_SourceTable, ...]
    reruns: tuple[str, ...]


def picture_of(trace: Trace) -> Picture:
    counts = trace.step_counts()
    steps = tuple(
        _StepLine(readable(step.text), step.depth, count) for step, count in zip(trace.steps, counts, strict=True)
    )
    with working("reading the first witness rows"):
        sources = tuple(_source(trace, name, count) for name, count in trace.witness_counts.items())
    return Picture(trace.direction, trace.widened, trace.ended, steps, sources, trace.reruns)


def _source(trace: Trace, name: str, count: int) -> _SourceTable:
    frame = trace.sources[name]
    first = tuple(trace.first_rows(name, FIRST_ROWS)) if count else ()
    return _SourceTable(name, count, tuple(frame.columns), first)


def as_text(trace: Trace) -> str:
    picture = picture_of(trace)
    out = StringIO()
    console = Console(file=out, width=_WIDTH, force_terminal=False, highlight=False, markup=False, emoji=False)
    console.print(_tree(picture))
    for source in picture.sources:
        console.print()
        console.print(f"{visible(source.name)}: {_many(source.rows, 'witness', 'witnesses')}")
        if source.first:
            console.print(_table(source))
    console.print()
    console.print(_exactness(picture))
    return out.getvalue().rstrip()


def _tree(picture: Picture) -> Tree:
    title = "the rows asked for" if picture.direction == "backward" else "the rows touched"
    root = Tree(title)
    stack: list[tuple[int, Tree]] = [(-1, root)]
    for step in picture.steps:
        while stack[-1][0] >= step.depth:
            stack.pop()
        line = Text(f"{step.text}  ({_many(step.rows, 'row', 'rows')})")
        stack.append((step.depth, stack[-1][1].add(line)))
    return root


def _table(source: _SourceTable) -> Table:
    table = Table(box=None, pad_edge=False, header_style="")
    for name in source.columns:
        table.add_column(Text(visible(name)))
    for row in source.first:
        table.add_row(*[Text(visible(value)) for value in row])
    if source.rows > len(source.first):
        table.add_row("…")
    return table


def _exactness(picture: Picture) -> str:
    lines: list[str] = []
    if picture.widened:
        lines += ["NOT exact, there may be more rows here than needed:", *_list(picture.widened)]
    elif not picture.ended:
        lines.append("exact: these rows and no others")
    if picture.ended:
        first = "the way ends early" if picture.widened else "exact as far as it goes, but the way ends early"
        lines += [f"{first}:", *_list(picture.ended)]
    if picture.reruns:
        lines.append(f"run again for this answer, with whatever they do besides: {visible(', '.join(picture.reruns))}")
    return "\n".join(lines)


def _list(notes: tuple[str, ...]) -> list[str]:
    return [f"- {visible(note)}" for note in notes]


def _many(count: int, one: str, more: str) -> str:
    return f"{count:,} {one if count == 1 else more}"


def as_html(trace: Trace) -> str:
    picture = picture_of(trace)
    parts = ['<div class="whence-trace" style="font-family: sans-serif; font-size: 90%">']
    for step in picture.steps:
        parts.append(
            f'<div style="margin-left: {1.4 * step.depth:.1f}em"><code>{escape(step.text)}</code> '
            f'<span style="color: #777">{_many(step.rows, "row", "rows")}</span></div>'
        )
    for source in picture.sources:
        parts.append(
            f"<p><b>{escape(source.name)}</b>: {_many(source.rows, 'witness', 'witnesses')}</p>" + _html_table(source)
        )
    parts.append(f"<p>{'<br>'.join(escape(line) for line in _exactness(picture).splitlines())}</p></div>")
    return "".join(parts)


def _html_table(source: _SourceTable) -> str:
    if not source.first:
        return ""
    head = "".join(f"<th>{escape(c)}</th>" for c in source.columns)
    rows = "".join("<tr>" + "".join(f"<td>{escape(str(v))}</td>" for v in row) + "</tr>" for row in source.first)
    more = f'<tr><td colspan="{len(source.columns)}">…</td></tr>' if source.rows > len(source.first) else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}{more}</tbody></table>"
