"""Types, entities and relationships (SAC, section III), the built-in types and those of the user."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

import sqlalchemy as sa

from whence.model.errors import StoreError
from whence.model.types import BUILT_IN, Attribute, Entity, EntityType, Relationship
from whence.store.schema import entities, relationships, types

Read = Callable[[sa.Select[Any]], list[Any]]
Write = Callable[[Callable[[sa.Connection], object]], None]


class Entities:
    def __init__(self, read: Read, write: Write) -> None:
        self._read = read
        self._write = write

    def types(self) -> dict[str, EntityType]:
        found = {t.name: t for t in BUILT_IN}
        for row in self._read(sa.select(types)):
            definition = dict(row.definition)
            attributes = tuple(Attribute(**a) for a in definition.pop("attributes"))
            supertypes = tuple(definition.pop("supertypes"))
            found[row.name] = EntityType(row.name, attributes, supertypes, definition.get("description", ""))
        return found

    def add_type(self, added: EntityType) -> None:
        known = self.types()
        if added.name in known:
            if known[added.name] == added:
                return
            raise StoreError(f"There is already a type {added.name!r} of another form.")
        missing = [name for name in added.supertypes if name not in known]
        if missing:
            raise StoreError(f"The type {added.name!r} builds on {missing[0]!r}, which the catalogue does not know.")
        definition = dataclasses.asdict(added)
        name = definition.pop("name")
        self._write(lambda c: c.execute(types.insert().values(name=name, definition=definition)))

    def attributes(self, name: str) -> tuple[Attribute, ...]:
        """A type's own attributes and those of its supertypes."""
        known = self.types()
        if name not in known:
            raise StoreError(f"The catalogue knows no type {name!r}. Add it with add_type(EntityType({name!r}, ...)).")
        found: dict[str, Attribute] = {}
        for supertype in known[name].supertypes:
            found.update({a.name: a for a in self.attributes(supertype)})
        found.update({a.name: a for a in known[name].attributes})
        return tuple(found.values())

    def add(self, entity: Entity) -> None:
        """Write an entity down, or new attributes of one that is there. Its attributes must be those of its type."""
        allowed = {a.name: a for a in self.attributes(entity.type)}
        values = {"qualifiedName": entity.qualified_name, **entity.attributes}
        for name, value in values.items():
            if name not in allowed:
                raise StoreError(f"The type {entity.type!r} has no attribute {name!r}; it has {', '.join(allowed)}.")
            many = allowed[name].cardinality != "SINGLE"
            if many != isinstance(value, (list, tuple, set)) and not allowed[name].type.startswith(("map", "array")):
                raise StoreError(
                    f"{entity.type}.{name} is {'many-valued' if many else 'a single value'}: got {value!r}."
                )
        missing = [a.name for a in allowed.values() if not a.optional and a.name not in values]
        if missing:
            raise StoreError(f"An entity of type {entity.type!r} needs the attribute {missing[0]!r}.")
        self._require_unique(entity, allowed, values)
        now = datetime.now(timezone.utc).timestamp()
        here = (entities.c.type == entity.type, entities.c.qualified_name == entity.qualified_name)
        kept = {k: sorted(v) if isinstance(v, set) else v for k, v in entity.attributes.items()}

        def work(connection: sa.Connection) -> None:
            if connection.execute(sa.select(entities.c.id).where(*here)).first():
                connection.execute(entities.update().where(*here).values(attributes=kept, deleted=None))
            else:
                row = {"type": entity.type, "qualified_name": entity.qualified_name, "attributes": kept, "created": now}
                connection.execute(entities.insert().values(row))

        self._write(work)

    def _require_unique(self, entity: Entity, allowed: dict[str, Attribute], values: dict[str, object]) -> None:
        unique = [a.name for a in allowed.values() if a.unique and a.name != "qualifiedName" and a.name in values]
        for other in self.list(entity.type) if unique else ():
            for name in unique:
                if other.qualified_name != entity.qualified_name and other.attributes.get(name) == values[name]:
                    raise StoreError(
                        f"{entity.type}.{name} is unique, and {other.qualified_name!r} has that value already."
                    )

    def list(self, type: str | None = None, deleted: bool = False) -> tuple[Entity, ...]:
        query = sa.select(entities).order_by(entities.c.type, entities.c.qualified_name)
        if type is not None:
            query = query.where(entities.c.type == type)
        if not deleted:
            query = query.where(entities.c.deleted.is_(None))
        return tuple(_entity(row) for row in self._read(query))

    def get(self, type: str, qualified_name: str) -> Entity | None:
        query = sa.select(entities).where(entities.c.type == type, entities.c.qualified_name == qualified_name)
        found = self._read(query)
        return _entity(found[0]) if found else None

    def delete(self, type: str, qualified_name: str) -> None:
        """The entity stays, marked with the time of its end."""
        now = datetime.now(timezone.utc).timestamp()
        here = (entities.c.type == type, entities.c.qualified_name == qualified_name)
        self._write(lambda c: c.execute(entities.update().where(*here).values(deleted=now)))

    def relate(self, relationship: Relationship) -> None:
        def work(connection: sa.Connection) -> None:
            ends = [self._id(connection, end) for end in (relationship.source, relationship.target)]
            row = {"kind": relationship.kind, "attributes": dict(relationship.attributes)}
            connection.execute(relationships.insert().values(source=ends[0], target=ends[1], **row))

        self._write(work)

    def relationships(self, kind: str | None = None) -> tuple[Relationship, ...]:
        one, two = entities.alias(), entities.alias()
        query = (
            sa.select(
                relationships, one.c.type.label("t1"), one.c.qualified_name.label("n1"), two.c.type.label("t2"),
                two.c.qualified_name.label("n2"),
            )
            .join(one, one.c.id == relationships.c.source)
            .join(two, two.c.id == relationships.c.target)
            .order_by(relationships.c.id)
        )  # fmt: skip
        if kind is not None:
            query = query.where(relationships.c.kind == kind)
        return tuple(Relationship(r.kind, (r.t1, r.n1), (r.t2, r.n2), r.attributes) for r in self._read(query))

    def _id(self, connection: sa.Connection, end: tuple[str, str]) -> int:
        query = sa.select(entities.c.id).where(entities.c.type == end[0], entities.c.qualified_name == end[1])
        found = connection.execute(query).scalar()
        if found is None:
            raise StoreError(f"The catalogue has no entity {end[1]!r} of type {end[0]!r} to relate.")
        return int(found)


def _entity(row: Any) -> Entity:
    created = datetime.fromtimestamp(row.created, timezone.utc)
    deleted = None if row.deleted is None else datetime.fromtimestamp(row.deleted, timezone.utc)
    return Entity(row.type, row.qualified_name, row.attributes, created, deleted)
