"""The one naive oracle: programs over lists of (k, v) records that carry along which source records made each.

Too simple to be wrong: lists, nested loops, one function for each operator. A program is a tree of operators; every
front end translates the same program into its own words (front_ends.py)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

Value = tuple[int, int]
Source = tuple[str, int]
"""A record of a source: the table's name, and the record's number in it."""
Made = tuple[Value, frozenset[Source]]
Tables = dict[str, list[Value]]


class Program:
    inputs: tuple[Program, ...] = ()

    def run(self, tables: Tables) -> list[Made]:
        return self.put_out([program.run(tables) for program in self.inputs])

    def put_out(self, given: list[list[Made]]) -> list[Made]:
        raise NotImplementedError

    def walk(self) -> Iterator[Program]:
        for program in self.inputs:
            yield from program.walk()
        yield self


@dataclass(frozen=True)
class Read(Program):
    table: str

    def run(self, tables: Tables) -> list[Made]:
        return [(value, frozenset([(self.table, number)])) for number, value in enumerate(tables[self.table])]


@dataclass(frozen=True)
class OfOne(Program):
    of: Program

    @property
    def inputs(self) -> tuple[Program, ...]:  # type: ignore[override]
        return (self.of,)


@dataclass(frozen=True)
class OfTwo(Program):
    left: Program
    right: Program

    @property
    def inputs(self) -> tuple[Program, ...]:  # type: ignore[override]
        return (self.left, self.right)


@dataclass(frozen=True)
class Keep(OfOne):
    """Records whose value is at least `least`."""

    least: int

    def put_out(self, given: list[list[Made]]) -> list[Made]:
        return [((k, v), made) for (k, v), made in given[0] if v >= self.least]


@dataclass(frozen=True)
class Change(OfOne):
    """The key modulo two, the value plus `more`."""

    more: int

    def put_out(self, given: list[list[Made]]) -> list[Made]:
        return [((k % 2, v + self.more), made) for (k, v), made in given[0]]


@dataclass(frozen=True)
class Repeat(OfOne):
    """Each record as often as its key says: none, once or twice, the second time one more."""

    def put_out(self, given: list[list[Made]]) -> list[Made]:
        return [((k, v + i), made) for (k, v), made in given[0] for i in range(k % 3)]


@dataclass(frozen=True)
class Both(OfTwo):
    def put_out(self, given: list[list[Made]]) -> list[Made]:
        return [*given[0], *given[1]]


@dataclass(frozen=True)
class Meet(OfTwo):
    """Records of equal keys, their values added."""

    def put_out(self, given: list[list[Made]]) -> list[Made]:
        return [((k, v + x), a | b) for (k, v), a in given[0] for (j, x), b in given[1] if j == k]


@dataclass(frozen=True)
class Total(OfOne):
    """The sum of the values of each key."""

    def put_out(self, given: list[list[Made]]) -> list[Made]:
        keys = sorted({k for (k, _), _ in given[0]})
        return [
            (
                (key, sum(v for (k, v), _ in given[0] if k == key)),
                frozenset().union(*[made for (k, _), made in given[0] if k == key]),
            )
            for key in keys
        ]


@dataclass(frozen=True)
class Once(OfOne):
    """Each value once; all its duplicates made it."""

    def put_out(self, given: list[list[Made]]) -> list[Made]:
        values = sorted({value for value, _ in given[0]})
        return [(value, frozenset().union(*[made for v, made in given[0] if v == value])) for value in values]


V, S = TypeVar("V"), TypeVar("S")


def witnesses(made: list[tuple[V, frozenset[S]]], asked: set[V]) -> set[S]:
    return {source for value, sources in made for source in sources if value in asked}


def touched(made: list[tuple[V, frozenset[S]]], seeds: set[S]) -> list[V]:
    return [value for value, sources in made if sources & seeds]
