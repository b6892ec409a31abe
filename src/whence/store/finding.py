"""Which datasets a name may mean."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sqlalchemy as sa

from whence.store.schema import aliases, datasets


def meant(
    connection: sa.Connection,
    namespace: str | None,
    name: str,
    when: float | None,
    sees: Callable[[str, str], bool] | None = None,
) -> dict[int, tuple[str, str]]:
    """Datasets with their present namespace and name. What is not seen is as if it were not there: no name of it hides
    another dataset, and looking for it takes as long as for one that does not exist."""
    query = sa.select(aliases.c.dataset, aliases.c.since, aliases.c.until, datasets.c.namespace, datasets.c.name).join(
        datasets, datasets.c.id == aliases.c.dataset
    )
    exact = aliases.c.name == name
    if namespace is not None:
        exact = exact & (aliases.c.namespace == namespace)

    def found(condition: sa.ColumnElement[bool]) -> list[Any]:
        rows = connection.execute(query.where(condition)).all()
        return [row for row in rows if sees is None or sees(row.namespace, row.name)]

    rows = found(exact)
    if not rows and namespace is None:
        clean = name.rstrip("/").removeprefix("file:").replace("//", "/")
        ends = aliases.c.name.endswith(f".{name}", autoescape=True) | (aliases.c.name == clean)
        rows = found(ends | aliases.c.name.endswith(f"/{name.strip('/')}", autoescape=True))
    if when is not None:
        then = [row for row in rows if row.since <= when and (row.until is None or row.until > when)]
    else:
        then = [row for row in rows if row.until is None]
    return {row.dataset: (row.namespace, row.name) for row in then or rows}
