"""A trace for the eye: the steps as a tree with row counts, the sources with their first rows, and if it is exact.

Operators in a row stand below each other; only where inputs meet the tree goes deeper. Projections are folded away."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from html import escape
from io import StringIO
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from whence.model import SourceChanged, WhenceError
from whence.model.html import html_table
from whence.model.text import readable, visible
from whence.progress import so_far, working

if TYPE_CHECKING:
    from pyspark.sql import Row

    from whence.debug.trace import Trace

FIRST_ROWS = 5
_WIDTH = 100
_DEEPEST = 8
"""Beyond this, inputs of joins of joins stand as deep as the join itself."""
_FOLDED = "Project"


@dataclass(frozen=True)
class _StepLine:
    operator: str
    text: str
    depth: int
    rows: int | None = None


@dataclass
class _Branch:
    """Operators in a row, and the branches of the last one's inputs."""

    steps: list[_StepLine] = field(default_factory=list)
    inputs: list[_Branch] = field(default_factory=list)


@dataclass(frozen=True)
class _SourceTable:
    name: str
    rows: int
    columns: tuple[str, ...]
    first: tuple[Row, ...]
    places: tuple[str, ...]


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
    """What takes its time is shown as it comes, where somebody waits for it: the tree, its counts, rows of sources."""
    top = title(trace.direction)
    with working("tracing"):
        steps = tuple(_StepLine(step.operator, step.text, step.depth) for step in trace.steps)
        so_far(shown := tree_lines(steps, top))
        steps = tuple(replace(step, rows=rows) for step, rows in zip(steps, _counts(trace), strict=True))
        so_far(shown := tree_lines(steps, top))
        sources: list[_SourceTable] = []
        with working("reading the first witness rows"):
            for name, count in trace.witness_counts.items():
                sources.append(_source(trace, name, count))
                so_far(shown := [*shown, *_source_lines(sources[-1])])
        return Picture(trace.direction, trace.widened, trace.ended, steps, tuple(sources), trace.reruns)


def _counts(trace: Trace) -> Sequence[int | None]:
    """None are shown where an earlier program's records are needed for one that nobody has any more."""
    try:
        return trace.step_counts()
    except SourceChanged:
        raise
    except WhenceError:
        return [None] * len(trace.steps)


def _source(trace: Trace, name: str, count: int) -> _SourceTable:
    columns = tuple(trace.columns_of(name))
    rows, places = trace.first_placed(name, FIRST_ROWS) if count else ([], [])
    return _SourceTable(name, count, columns, tuple(rows), tuple(place.rsplit("/", 1)[-1] for place in places))


def as_text(picture: Picture) -> str:
    lines = tree_lines(picture.steps, title(picture.direction))
    for source in picture.sources:
        lines += _source_lines(source)
    return "\n".join([*lines, "", _wrapped(_exactness(picture))])


def _source_lines(source: _SourceTable) -> list[str]:
    lines = ["", _wrapped(f"{visible(source.name)}: {many(source.rows, 'witness', 'witnesses')}")]
    return [*lines, _wrapped(_table(source))] if source.first else lines


def _wrapped(shown: str | Table) -> str:
    out = StringIO()
    console = Console(file=out, width=_WIDTH, force_terminal=False, highlight=False, markup=False, emoji=False)
    console.print(shown)
    return out.getvalue().rstrip("\n")


def title(direction: str) -> str:
    return "the rows asked for" if direction == "backward" else "the rows touched"


def tree_lines(steps: Sequence[_StepLine], top: str) -> list[str]:
    """The steps as lines of at most `_WIDTH` characters, each with its number of rows."""
    shown, folded = _without_projections(steps)
    lines = [top]

    def draw(branch: _Branch, before: str, last: bool, deep: int) -> None:
        for at, step in enumerate(branch.steps):
            edge = ("└── " if last else "├── ") if at == 0 else ("    " if last else "│   ")
            lines.append(_line(f"{before}{edge}", step))
        inside = before + ("    " if last else "│   ") if deep < _DEEPEST else before
        for at, below in enumerate(branch.inputs):
            draw(below, inside, at == len(branch.inputs) - 1, deep + 1)

    tops = _branches(shown)
    for at, branch in enumerate(tops):
        draw(branch, "", at == len(tops) - 1, 0)
    if folded:
        lines.append(f"({many(folded, 'projection is', 'projections are')} not shown; t.steps has all)")
    return lines


def _line(edge: str, step: _StepLine) -> str:
    count = "" if step.rows is None else f"  ({many(step.rows, 'row', 'rows')})"
    return edge + readable(step.text, max(_WIDTH - len(edge) - len(count), 20)) + count


def _without_projections(steps: Sequence[_StepLine]) -> tuple[list[_StepLine], int]:
    """What only picks and names columns is left out, unless there is nothing else."""
    kept: list[_StepLine] = []
    above: list[int] = []  # depths of the projections that the next step stands below
    for step in steps:
        while above and above[-1] >= step.depth:
            above.pop()
        if step.operator == _FOLDED:
            above.append(step.depth)
        else:
            kept.append(_StepLine(step.operator, step.text, step.depth - len(above), step.rows))
    return (kept, len(steps) - len(kept)) if kept else (list(steps), 0)


def _branches(steps: Sequence[_StepLine]) -> list[_Branch]:
    tops: list[_Branch] = []
    stack: list[tuple[int, _Branch]] = []
    for step in steps:
        while stack and stack[-1][0] >= step.depth:
            stack.pop()
        branch = _Branch([step])
        (stack[-1][1].inputs if stack else tops).append(branch)
        stack.append((step.depth, branch))
    for branch in tops:
        _join_chains(branch)
    return tops


def _join_chains(branch: _Branch) -> None:
    while len(branch.inputs) == 1:
        (only,) = branch.inputs
        branch.steps += only.steps
        branch.inputs = only.inputs
    for below in branch.inputs:
        _join_chains(below)


def _table(source: _SourceTable) -> Table:
    table = Table(box=None, pad_edge=False, header_style="")
    for name in (*(["place"] if source.places else []), *source.columns):
        table.add_column(Text(visible(name)))
    for at, row in enumerate(source.first):
        table.add_row(*[Text(visible(value)) for value in (*source.places[at : at + 1], *row)])
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


def many(count: int, one: str, more: str) -> str:
    return f"{count:,} {one if count == 1 else more}"


def as_html(picture: Picture) -> str:
    lines = tree_lines(picture.steps, title(picture.direction))
    parts = ['<div class="whence-trace" style="font-family: sans-serif; font-size: 90%">']
    parts.append(f'<pre style="font-size: 90%">{escape(chr(10).join(lines))}</pre>')
    for source in picture.sources:
        parts.append(f"<p><b>{escape(source.name)}</b>: {many(source.rows, 'witness', 'witnesses')}</p>")
        if source.first:
            columns = (*(["place"] if source.places else []), *source.columns)
            rows = [(*source.places[at : at + 1], *row) for at, row in enumerate(source.first)]
            parts.append(html_table(columns, rows, more=source.rows > len(source.first)))
    parts.append(f"<p>{'<br>'.join(escape(line) for line in _exactness(picture).splitlines())}</p></div>")
    return "".join(parts)
