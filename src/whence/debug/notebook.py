"""The page's graph inside a notebook: one HTML document with the data in it, which asks nobody for anything.

The script and the style sheet are those of the web page, built with it (ui/, `src/notebook`) and read as files of the
package. Where they were not built, plain tables take their place.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from html import escape
from importlib.resources import files
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whence.debug.saving import PLACE, plain_rows
from whence.model import Dataset, WhenceError
from whence.model.lineage import ColumnEdge, Edge
from whence.model.text import readable

if TYPE_CHECKING:
    from whence.debug.trace import Trace
    from whence.store.catalog import Catalog, Moment, Named

MOST_DATASETS = 2000
FIRST_ROWS = 20
HEIGHT = 520
"""Pixels."""


@dataclass(frozen=True)
class Shown:
    """What a notebook shows where this stands last in a cell; `save` writes the same as a file of its own."""

    title: str
    html: str
    summary: str
    height: int = HEIGHT

    def save(self, path: str | Path) -> Path:
        """Write it as one HTML file that any browser opens, offline too."""
        target = Path(path)
        target.write_text(self.html, encoding="utf-8")
        return target

    def _repr_html_(self) -> str:
        # A frame of its own: neither can reach into the other.
        style = f"width: 100%; height: {self.height}px; border: 0"
        rights = "allow-scripts allow-downloads"
        frame = f'<iframe title="{escape(self.title)}" sandbox="{rights}" style="{style}"'
        return f'{frame} srcdoc="{escape(self.html)}"></iframe>'

    def __repr__(self) -> str:
        return f"<{self.summary}; a notebook shows it as a graph, .save('graph.html') writes it>"


def _require_pixels(height: object) -> None:
    if isinstance(height, bool) or not isinstance(height, Integral) or height < 1:
        raise WhenceError(f"height= is how many pixels high it is shown, a whole number from 1 on, not {height!r}.")


def show_trace(trace: Trace, height: int = HEIGHT) -> Shown:
    _require_pixels(height)
    counts = trace.step_counts()
    steps = [
        {
            "number": step.number,
            "operator": step.operator,
            "text": readable(step.text),
            "depth": step.depth,
            "rows": count,
        }
        for step, count in zip(trace.steps, counts, strict=True)
    ]
    sources = []
    for name, count in trace.witness_counts.items():
        rows, lines = trace.first_placed(name, FIRST_ROWS) if count else ([], [])
        columns, first = trace.columns_of(name), plain_rows(rows)
        if lines:
            columns, first = [PLACE, *columns], tuple((line, *row) for row, line in zip(first, lines, strict=True))
        sources.append({"name": name, "rows": count, "columns": columns, "first": first})
    title = f"{trace.direction} over {', '.join(trace.witness_counts) or 'no source'}"
    told = {"steps": steps, "sources": sources, "exact": trace.exact, "notes": list(trace.notes)}
    witnesses = sum(trace.witness_counts.values())
    summary = f"Trace {title}: {_many(len(steps), 'step')}, {_many(witnesses, 'witness', 'witnesses')}"
    return Shown(title, document(title, {"trace": told}) or trace._repr_html_(), summary, height)


def _many(count: int, one: str, more: str = "") -> str:
    return f"{count:,} {one if count == 1 else more or one + 's'}"


def show_lineage(
    catalog: Catalog,
    dataset: Named | None = None,
    direction: str = "both",
    depth: int | None = None,
    as_of: Moment | None = None,
    height: int = HEIGHT,
) -> Shown:
    """The lineage of one dataset; without one, all that the catalogue knows to hold now."""
    _require_pixels(height)
    ways = ("backward", "forward") if direction == "both" else (direction,)
    root: Dataset | None = None
    edges: list[Edge] = []
    links: list[ColumnEdge] = []
    if dataset is None:
        when = as_of if as_of is not None else datetime.now().astimezone()
        edges.extend(edge for edge in catalog.edges(as_of=when) if isinstance(edge, Edge))
        links.extend(link for link in catalog.edges(level="column", as_of=when) if isinstance(link, ColumnEdge))
    else:
        root = catalog.dataset(dataset, as_of)
        for way in ways:
            edges.extend(e for e in catalog.lineage(dataset, way, depth, as_of=as_of) if isinstance(e, Edge))
            found = catalog.lineage(dataset, way, depth, level="column", as_of=as_of)
            links.extend(link for link in found if isinstance(link, ColumnEdge))
    title = "The catalogue" if root is None else root.name
    told, truncated = _graph(root, edges, links)
    summary = f"Lineage of {title}: {_many(len(told['nodes']), 'dataset')}, {_many(len(told['edges']), 'edge')}"
    html = document(title, {"lineage": {**told, "truncated": truncated}}) or _edge_table(title, edges)
    return Shown(title, html, summary, height)


def _graph(root: Dataset | None, edges: list[Edge], links: list[ColumnEdge]) -> tuple[dict[str, Any], bool]:
    numbers: dict[Dataset, str] = {} if root is None else {root: "0"}
    known: dict[Dataset, Dataset] = {} if root is None else {root: root}
    for edge in edges:
        for end in (edge.source, edge.target):
            numbers.setdefault(end, str(len(numbers)))
            known.setdefault(end, end)
    truncated = len(numbers) > MOST_DATASETS
    kept = dict(list(numbers.items())[:MOST_DATASETS])
    nodes = [
        {
            "id": number,
            "namespace": dataset.namespace,
            "name": dataset.name,
            "kind": known[dataset].kind,
            "depth": 0,
            "dropped": None if known[dataset].dropped is None else str(known[dataset].dropped),
            "failed": None,
            "columns": list(known[dataset].columns),
        }
        for dataset, number in kept.items()
    ]
    # Equal edges of many runs stand once.
    lines = {(e.source, e.target, e.kind): _edge(e, kept) for e in edges if e.source in kept and e.target in kept}
    columns = {
        (c.source, c.source_column, c.target, c.target_column, c.kind): {
            **_edge(c, kept),
            "source_column": c.source_column,
            "target_column": c.target_column,
            "subtype": c.subtype,
        }
        for c in links
        if c.source in kept and c.target in kept
    }
    told = {"root": None if root is None else "0", "nodes": nodes, "edges": list(lines.values())}
    return {**told, "columns": list(columns.values())}, truncated


def _edge(edge: Edge | ColumnEdge, numbers: Mapping[Dataset, str]) -> dict[str, Any]:
    at = None if edge.at is None else edge.at.isoformat()
    ends = {"source": numbers[edge.source], "target": numbers[edge.target]}
    return {**ends, "kind": edge.kind, "run": edge.run, "at": at, "depth": 1}


def document(title: str, told: Mapping[str, Any]) -> str | None:
    """One HTML document with script, style and data in it; None where the page was not built."""
    built = files("whence") / "serve" / "page" / "notebook"
    script, style = built / "notebook.js", built / "notebook.css"
    if not script.is_file() or not style.is_file():
        return None
    # Nothing in a name or a value can end the element that it stands in.
    data = json.dumps({"title": title, **told}, default=str).replace("<", "\\u003c")
    code = script.read_text(encoding="utf-8").replace("</script", "<\\/script").replace("<!--", "<\\!--")
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f"<title>{escape(title)}</title><style>{style.read_text(encoding='utf-8')}</style></head>"
        '<body><div id="whence-page"></div>'
        f'<script type="application/json" id="whence-data">{data}</script><script>{code}</script></body></html>'
    )


def _edge_table(title: str, edges: Iterable[Edge]) -> str:
    pairs = dict.fromkeys((edge.source.name, edge.target.name, edge.kind) for edge in edges)
    rows = "".join(f"<tr>{''.join(f'<td>{escape(text)}</td>' for text in pair)}</tr>" for pair in pairs)
    head = "<tr><th>source</th><th>target</th><th>kind</th></tr>"
    return f"<h3>{escape(title)}</h3><table><thead>{head}</thead><tbody>{rows}</tbody></table>"
