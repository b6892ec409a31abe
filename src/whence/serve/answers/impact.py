"""What is after a dataset or one of its columns, by degree."""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from datetime import datetime
from typing import Any

from whence.serve.answers.lineage import FORWARD, column_depths, column_walk, dataset_walk, require_column
from whence.serve.cursors import Cursors
from whence.serve.view import Json, View

HEADER = ("degree", "namespace", "name", "kind", "column")

Found = list[tuple[int, int, list[str] | None]]
"""(degree, dataset, its columns that are touched)"""


def impact(
    view: View,
    name: str,
    namespace: str | None = None,
    column: str | None = None,
    as_of: datetime | None = None,
    depth: int = 100,
    limit: int | None = 100,
    cursor: str | None = None,
) -> Json:
    root, found = _found(view, name, namespace, column, as_of, depth)
    cursors = Cursors(view.service.secret, "impact", root, column, as_of, depth)
    after = cursors.read(cursor)
    keyed = [(_key(view, degree, number), degree, number, columns) for degree, number, columns in found]
    left = [one for one in keyed if after is None or one[0] > tuple(after)]
    given = left if limit is None else left[:limit]
    items = []
    for _, degree, number, columns in given:
        item: Json = {"degree": degree, "dataset": view.ref(number)}
        if columns is not None:
            item["columns"] = columns if view.sees(number) else []
        items.append(item)
    return {"items": items, "next": cursors.write(list(given[-1][0])) if len(left) > len(given) else None}


def impact_csv(
    view: View,
    name: str,
    namespace: str | None = None,
    column: str | None = None,
    as_of: datetime | None = None,
    depth: int = 100,
) -> str:
    """All rows; with a column one for each column that is touched."""
    _, found = _found(view, name, namespace, column, as_of, depth)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(HEADER)
    for degree, number, columns in found:
        if not view.sees(number):
            writer.writerow((degree, "", "", "masked", ""))
            continue
        known = view.known(number)
        for one in columns if columns is not None else [""]:
            writer.writerow((degree, known.namespace, known.name, known.kind, one))
    return out.getvalue()


def _found(
    view: View, name: str, namespace: str | None, column: str | None, as_of: datetime | None, depth: int
) -> tuple[int, Found]:
    root = view.find(namespace, name, as_of)
    when = None if as_of is None else as_of.timestamp()
    touched: dict[int, set[str]] | None = None
    if column is None:
        depths = dataset_walk(view, root, FORWARD, depth, when).depths
    else:
        require_column(view, root, column)
        links = column_walk(view, root, FORWARD, depth, when, column)
        depths = column_depths(root, links)
        touched = defaultdict(set)
        for key in links:
            touched[key[2]].add(key[3])
    found: Found = [
        (degree, number, None if touched is None else sorted(touched[number]))
        for number, degree in depths.items()
        if number != root
    ]
    return root, sorted(found, key=lambda one: _key(view, one[0], one[1]))


def _key(view: View, degree: int, number: int) -> tuple[Any, ...]:
    """By degree, namespace and name; those that are masked after the others, in an order that tells nothing."""
    if view.sees(number):
        known = view.known(number)
        return degree, 0, known.namespace, known.name
    return degree, 1, view.masked_id(str(number)), ""
