"""Writes one observation into the catalogue: names become datasets, changes become versions, links become edges."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cache

import sqlalchemy as sa

from whence.model import FAILED
from whence.model.lineage import INPUT, OUTPUT, Change, Observation, Seen
from whence.store.changes import forget_copies
from whence.store.rows import inserting
from whence.store.schema import OPEN, aliases, datasets, edges, mapping_columns, mappings, uses, versions

_REPLACES = ("overwrite", "define", "truncate", "drop", "create", "restore")
"""Changes after which a dataset no longer holds what was in it before."""
_KEEPS_COLUMNS = ("alter", "append", "merge", "update", "delete", "truncate", "drop", "rename", "restore")


@dataclass
class _Known:
    id: int
    kind: str
    version: int
    namespace: str
    name: str


@dataclass
class Names:
    """What names were found to mean, and the datasets' current versions, for as long as one transaction lasts."""

    meant: dict[tuple[str, str], int | None] = field(default_factory=dict)
    known: dict[int, _Known] = field(default_factory=dict)

    def forget(self) -> None:
        self.meant.clear()
        self.known.clear()


@cache
def _using(dialect: str) -> sa.Executable:
    insert = inserting(dialect, uses)
    more = insert.excluded
    known = {
        "version": sa.func.coalesce(uses.c.version, more.version),
        "rows": sa.func.coalesce(more.rows, uses.c.rows),
        "bytes": sa.func.coalesce(more.bytes, uses.c.bytes),
    }
    statement: sa.Executable = insert.on_conflict_do_update(index_elements=["run", "dataset", "role"], set_=known)
    return statement


def record(
    connection: sa.Connection, observation: Observation, at: float, names: Names, change: int, again: bool = False
) -> None:
    """The run itself must already be written. A run that failed made nothing; what it read and was to write is kept.

    `change`: the count of this transaction.
    `again`: there may be earlier observations of this run. Then only what is new in this one is added, so that an
    observation recorded twice is recorded once.
    """
    if not observation.datasets:
        return
    writer = _Writer(connection, observation, at, names, change)
    if again and writer.has_renamed():
        return  # its names mean other datasets by now
    writer.resolve()
    if observation.run.status == FAILED:
        writer.use({}, {})
    else:
        writer.write(again)


class _Writer:
    def __init__(
        self, connection: sa.Connection, observation: Observation, at: float, names: Names, change: int
    ) -> None:
        self._c = connection
        self._o = observation
        self._at = at
        self._change = change
        self._names: Names | None = names
        self._found: dict[int, _Known] = {}

    def resolve(self) -> None:
        for place, seen in enumerate(self._o.datasets):
            if not self._is_new_name(place):
                self._found[place] = self._resolve(seen)

    def write(self, again: bool) -> None:
        observation = self._o
        made = self._made() if again else {}
        known_reads = self._known_reads() if again else {}
        before: dict[int, int] = {}
        for place in observation.inputs:
            number = self._found[place].id
            if number in known_reads:
                before[place] = known_reads[number]
            elif number in made:
                before[place] = made[number] - 1  # what it made itself is not what it read
            else:
                before[place] = self._read_version(place)
        after: dict[int, int] = {}
        mapping = self._mappings()
        done: set[int] = set()
        for change in observation.changes:
            if self._found[change.dataset].id in made:
                after[change.dataset] = self._amend(change, made[self._found[change.dataset].id])
                continue
            version = self._apply(change, before, mapping)
            if version is not None:
                after[change.dataset] = version
            else:
                done.add(change.dataset)
        linked = self._linked() if again else set()
        rows = []
        for link in dict.fromkeys(observation.links):
            source, target = self._found[link.source], self._found[link.target]
            if link.target in done or (source.id, target.id, link.kind) in linked:
                continue
            number = after.get(link.target, max(target.version, 1))
            closed, closed_at = self._closed(target, number)
            rows.append(
                {
                    "run": observation.run.id,
                    "source": source.id,
                    "source_version": before[link.source],
                    "target": target.id,
                    "target_version": number,
                    "closed": closed,
                    "closed_at": closed_at,
                    "kind": link.kind,
                    "mapping": mapping.get(link.target),
                    "at": self._at,
                    "changed": self._change,
                }
            )
            if link.target not in after and target.version == 0:
                after[link.target] = self._add_version(link.target, "append")
        if rows:
            self._c.execute(edges.insert(), rows)
        for place, number in mapping.items() if again else ():
            # what an earlier observation of this run linked without its columns
            self._c.execute(
                edges.update()
                .where(
                    edges.c.run == observation.run.id,
                    edges.c.target == self._found[place].id,
                    edges.c.mapping.is_(None),
                )
                .values(mapping=number, changed=self._change)
            )
        self.use(before, after)

    def use(self, before: dict[int, int], after: dict[int, int]) -> None:
        """Write down what the run read and wrote. Where this observation is silent, an earlier one holds."""
        counted = {(use.dataset, use.role): use for use in self._o.uses}
        rows: dict[tuple[int, str], dict[str, object]] = {}
        for role, places, numbers in ((INPUT, self._o.inputs, before), (OUTPUT, self._o.outputs, after)):
            for place in places:
                if place not in self._found:
                    continue  # the new name of what is renamed
                known, use = self._found[place], counted.get((place, role))
                version = numbers.get(place, known.version if role == INPUT and known.version else None)
                rows[known.id, role] = {
                    "run": self._o.run.id,
                    "dataset": known.id,
                    "role": role,
                    "version": version,
                    "rows": use.rows if use else None,
                    "bytes": use.bytes if use else None,
                }
        if rows:
            self._c.execute(_using(self._c.dialect.name), list(rows.values()))

    def has_renamed(self) -> bool:
        query = sa.select(versions.c.number).where(versions.c.run == self._o.run.id, versions.c.how == "rename")
        return self._c.execute(query.limit(1)).first() is not None

    def _made(self) -> dict[int, int]:
        """The versions that this run has made before, by dataset."""
        query = sa.select(versions.c.dataset, sa.func.max(versions.c.number))
        query = query.where(versions.c.run == self._o.run.id, versions.c.how != "seen").group_by(versions.c.dataset)
        return {row[0]: row[1] for row in self._c.execute(query)}

    def _known_reads(self) -> dict[int, int]:
        query = sa.select(uses.c.dataset, uses.c.version).where(uses.c.run == self._o.run.id, uses.c.role == INPUT)
        return {row[0]: row[1] for row in self._c.execute(query) if row[1] is not None}

    def _linked(self) -> set[tuple[int, int, str]]:
        query = sa.select(edges.c.source, edges.c.target, edges.c.kind).where(edges.c.run == self._o.run.id)
        return {(row[0], row[1], row[2]) for row in self._c.execute(query)}

    def _closed(self, target: _Known, number: int) -> tuple[int, float | None]:
        """Where an edge into this version ends: at the next version that replaces what was there."""
        if number >= target.version:
            return OPEN, None
        query = sa.select(versions.c.number, versions.c.at).where(
            versions.c.dataset == target.id, versions.c.number > number, versions.c.how.in_(_REPLACES)
        )
        row = self._c.execute(query.order_by(versions.c.number).limit(1)).first()
        return (OPEN, None) if row is None else (row.number, row.at)

    def _amend(self, change: Change, number: int) -> int:
        """A later observation of the same run knows more of the version it made."""
        known, seen = self._found[change.dataset], self._o.datasets[change.dataset]
        row = self._c.execute(
            sa.select(versions).where(versions.c.dataset == known.id, versions.c.number == number)
        ).one()
        values: dict[str, object] = {}
        if seen.columns and not row.columns:
            values["columns"] = [list(c) for c in seen.columns]
        if change.how in _REPLACES and row.how not in _REPLACES:
            values["how"] = change.how
            self._close(known, number)
        if values:
            self._c.execute(
                versions.update().where(versions.c.dataset == known.id, versions.c.number == number).values(values)
            )
        return number

    def _close(self, known: _Known, number: int) -> None:
        """This version replaces what was there before it."""
        self._c.execute(
            edges.update()
            .where(edges.c.target == known.id, edges.c.target_version < number, edges.c.closed > number)
            .values(closed=number, closed_at=self._at, changed=self._change)
        )

    def _is_new_name(self, place: int) -> bool:
        return any(change.to == place for change in self._o.changes)

    def _resolve(self, seen: Seen) -> _Known:
        known = self._lookup(seen.namespace, seen.name)
        if known is None:
            for namespace, name in seen.aliases:
                other = self._lookup(namespace, name)
                unnamed = other is not None and other.namespace == "spark-ml"
                if other is None or (other.kind != "path" and seen.kind != "path" and not unnamed):
                    continue
                known = other
                if unnamed or (other.kind == "path" and seen.kind != "path"):
                    # a path that turns out to be a table, a model that is saved: the new name is the better one
                    self._forget()
                    self._c.execute(
                        datasets.update()
                        .where(datasets.c.id == other.id)
                        .values(namespace=seen.namespace, name=seen.name, kind=seen.kind, changed=self._change)
                    )
                    self._add_alias(other.id, seen.namespace, seen.name)
                break
        if known is None:
            inserted = self._c.execute(
                datasets.insert().values(
                    namespace=seen.namespace,
                    name=seen.name,
                    kind=seen.kind,
                    created=self._at,
                    version=0,
                    changed=self._change,
                )
            )
            known = _Known(int(inserted.inserted_primary_key[0]), seen.kind, 0, seen.namespace, seen.name)  # type: ignore[index]
            if self._names is not None:
                self._names.known[known.id] = known
            self._add_alias(known.id, seen.namespace, seen.name)
        for namespace, name in seen.aliases:
            other = self._lookup(namespace, name)
            if other is None:
                self._add_alias(known.id, namespace, name)
            elif other.id != known.id and other.kind == "path":
                self._absorb(known, other)
        return known

    def _absorb(self, known: _Known, other: _Known) -> None:
        """A table and its path, seen apart, turn out to be one: the path's edges go to the table."""
        self._forget()
        forget_copies(self._c)
        shift = known.version
        self._c.execute(
            edges.update()
            .where(edges.c.target == other.id)
            .values(
                target=known.id,
                target_version=edges.c.target_version + shift,
                closed=sa.case((edges.c.closed == OPEN, OPEN), else_=edges.c.closed + shift),
            )
        )
        self._c.execute(
            edges.update()
            .where(edges.c.source == other.id)
            .values(source=known.id, source_version=edges.c.source_version + shift)
        )
        self._c.execute(mapping_columns.update().where(mapping_columns.c.source == other.id).values(source=known.id))
        self._c.execute(
            versions.update()
            .where(versions.c.dataset == other.id)
            .values(dataset=known.id, number=versions.c.number + shift)
        )
        both = sa.select(uses.c.run).where(uses.c.dataset == known.id).scalar_subquery()
        self._c.execute(
            uses.update()
            .where(uses.c.dataset == other.id, uses.c.run.not_in(both))
            .values(dataset=known.id, version=uses.c.version + shift)
        )
        self._c.execute(aliases.update().where(aliases.c.dataset == other.id).values(dataset=known.id))
        self._c.execute(datasets.delete().where(datasets.c.id == other.id))
        known.version += other.version
        self._found.update({place: known for place, held in self._found.items() if held.id == other.id})
        self._c.execute(
            datasets.update().where(datasets.c.id == known.id).values(version=known.version, changed=self._change)
        )

    def _forget(self) -> None:
        """Names change their meaning: nothing is remembered from before, nor kept until this observation is written."""
        if self._names is not None:
            self._names.forget()
            self._names = None

    def _lookup(self, namespace: str, name: str) -> _Known | None:
        names = self._names
        if names is None:
            return self._read(namespace, name)
        if (namespace, name) in names.meant:
            number = names.meant[(namespace, name)]
            return None if number is None else names.known[number]
        found = self._read(namespace, name)
        names.meant[(namespace, name)] = None if found is None else found.id
        return None if found is None else names.known.setdefault(found.id, found)

    def _read(self, namespace: str, name: str) -> _Known | None:
        row = self._c.execute(
            sa.select(datasets.c.id, datasets.c.kind, datasets.c.version, datasets.c.namespace, datasets.c.name)
            .join(aliases, aliases.c.dataset == datasets.c.id)
            .where(aliases.c.name == name, aliases.c.namespace == namespace, aliases.c.until.is_(None))
        ).first()
        return None if row is None else _Known(row.id, row.kind, row.version, row.namespace, row.name)

    def _add_alias(self, dataset: int, namespace: str, name: str) -> None:
        self._c.execute(aliases.insert(), {"dataset": dataset, "namespace": namespace, "name": name, "since": self._at})
        if self._names is not None:
            self._names.meant[(namespace, name)] = dataset

    def _read_version(self, place: int) -> int:
        """The version that was read. A dataset never seen before, or changed by others meanwhile, gets one now."""
        known, external = self._found[place], self._o.datasets[place].version
        if external is not None:
            found = self._c.execute(
                sa.select(sa.func.max(versions.c.number)).where(
                    versions.c.dataset == known.id, versions.c.external == external
                )
            ).scalar()
            if found is not None:
                return int(found)
        if known.version == 0 or external is not None:
            return self._add_version(place, "seen", external)
        return known.version

    def _add_version(self, place: int, how: str, external: str | None = None) -> int:
        known, seen = self._found[place], self._o.datasets[place]
        known.version += 1
        columns = [list(c) for c in seen.columns]
        if how in _KEEPS_COLUMNS and (not columns or columns[0][0].startswith("+")):
            columns = self._columns_before(known) + [[c[0].lstrip("+"), c[1]] for c in columns]
        row = {
            "dataset": known.id,
            "number": known.version,
            "run": self._o.run.id,
            "at": self._at,
            "how": how,
            "external": external,
            "columns": columns,
        }
        self._c.execute(versions.insert(), row)
        dropped = self._at if how == "drop" else None
        self._c.execute(
            datasets.update()
            .where(datasets.c.id == known.id)
            .values(version=known.version, dropped=dropped, changed=self._change)
        )
        return known.version

    def _columns_before(self, known: _Known) -> list[list[str]]:
        found = self._c.execute(
            sa.select(versions.c.columns)
            .where(versions.c.dataset == known.id, versions.c.number < known.version)
            .order_by(versions.c.number.desc())
            .limit(1)
        ).scalar()
        return list(found or [])

    def _apply(self, change: Change, before: dict[int, int], mapping: dict[int, int]) -> int | None:
        """The new version of the changed dataset; None when nothing changed at all."""
        known = self._found[change.dataset]
        if change.how == "rename" and change.to is not None:
            self._rename(known, self._o.datasets[change.to])
            return self._add_version(change.dataset, "rename")
        if change.how == "define" and self._is_defined_so(change.dataset, mapping.get(change.dataset)):
            return None
        external = change.version
        if change.how != "restore":  # which reads an older version than the one that was there
            external = external or self._o.datasets[change.dataset].version
        number = self._add_version(change.dataset, change.how, external)
        if change.how in _REPLACES:
            self._close(known, number)
        return number

    def _is_defined_so(self, place: int, mapping: int | None) -> bool:
        known = self._found[place]
        held = self._c.execute(
            sa.select(edges.c.source, edges.c.mapping).where(edges.c.target == known.id, edges.c.closed == OPEN)
        ).all()
        wanted = {self._found[link.source].id for link in self._o.links if link.target == place}
        return {row.source for row in held} == wanted and {row.mapping for row in held} == {mapping}

    def _rename(self, known: _Known, to: Seen) -> None:
        self._forget()
        taken = self._lookup(to.namespace, to.name)
        if taken is not None and taken.id != known.id:
            name = f"{taken.name} (until {self._at:.3f})"
            self._c.execute(datasets.update().where(datasets.c.id == taken.id).values(name=name, changed=self._change))
            self._end_alias(taken.id, to.namespace, to.name)
            self._add_alias(taken.id, taken.namespace, name)
        short = known.name.rpartition(".")[2]
        held = self._c.execute(sa.select(aliases).where(aliases.c.dataset == known.id, aliases.c.until.is_(None))).all()
        for row in held:
            if row.name.replace("/", ".").rpartition(".")[2] == short:
                self._end_alias(known.id, row.namespace, row.name)
        self._c.execute(
            datasets.update()
            .where(datasets.c.id == known.id)
            .values(namespace=to.namespace, name=to.name, changed=self._change)
        )
        self._add_alias(known.id, to.namespace, to.name)
        for namespace, name in to.aliases:
            if self._lookup(namespace, name) is None:
                self._add_alias(known.id, namespace, name)

    def _end_alias(self, dataset: int, namespace: str, name: str) -> None:
        self._c.execute(
            aliases.update()
            .where(aliases.c.dataset == dataset, aliases.c.namespace == namespace, aliases.c.name == name)
            .values(until=self._at)
        )

    def _mappings(self) -> dict[int, int]:
        """One mapping for each dataset written, found again by its digest when the same was seen before."""
        by_target: dict[int, list[tuple[int, str, str, str, str, int]]] = defaultdict(list)
        for c in self._o.columns:
            source = self._found[c.source].id
            by_target[c.target].append((source, c.source_column, c.target_column, c.kind, c.subtype, int(c.masking)))
        found = {}
        for place, links in by_target.items():
            links.sort()
            text = json.dumps([self._found[place].id, links], separators=(",", ":"))
            digest = hashlib.sha256(text.encode()).hexdigest()
            number = self._c.execute(sa.select(mappings.c.id).where(mappings.c.digest == digest)).scalar()
            if number is None:
                number = self._c.execute(mappings.insert().values(digest=digest)).inserted_primary_key[0]  # type: ignore[index]
                names = ("source", "source_column", "target_column", "kind", "subtype", "masking")
                rows = [{"mapping": number, **dict(zip(names, link, strict=True))} for link in links]
                self._c.execute(mapping_columns.insert(), rows)
            found[place] = int(number)
        return found
