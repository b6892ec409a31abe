"""Cells and the contract's naive oracle: a relation as the records that it knows, and an operator that tells one."""

from __future__ import annotations

from itertools import product

import numpy as np

from contract.naive import touched, witnesses
from whence.arrays import Mode, Operator

Cell = tuple[int, ...]
Relation = dict[Cell, list[set[Cell]]]
"""Output cell -> for each input the cells that it depends on. A cell that is missing depends on nothing."""


def cells_of(shape: tuple[int, ...]) -> list[Cell]:
    return list(product(*(range(n) for n in shape)))


def made(relation: Relation) -> list[tuple[Cell, frozenset[tuple[int, Cell]]]]:
    """Each output cell, and the cells (input, cell) that made it."""
    return [
        (out, frozenset((i, cell) for i, cells in enumerate(behind) for cell in cells))
        for out, behind in relation.items()
    ]


def back(relation: Relation, cells: set[Cell], i: int) -> set[Cell]:
    return {cell for number, cell in witnesses(made(relation), cells) if number == i}


def forth(relation: Relation, cells: set[Cell], i: int) -> set[Cell]:
    return set(touched(made(relation), {(i, cell) for cell in cells}))


class Scripted(Operator):
    """Makes an array of this shape, and says of its lineage what the relation says.

    `how`: "region" writes each output cell's inputs in one lwrite, "pairs" writes with lwrite_many, "grouped" puts
    output cells with the same inputs into one region."""

    def __init__(self, shape, relation, modes, how="region", bulk=False, only=None):
        self.shape, self.relation, self.modes, self.how = shape, relation, set(modes), how
        self.runs = []
        if bulk:
            self.__class__ = BulkScripted
        if only == "f":
            self.__class__ = BulkForwardOnly if bulk else ForwardOnly
        if only == "b":
            self.__class__ = BulkBackwardOnly if bulk else BackwardOnly

    def supported_modes(self):
        return self.modes

    def run(self, *inputs, cur_modes):
        self.runs.append(cur_modes)
        if Mode.FULL in cur_modes and Mode.MAP not in self.modes:
            self._write_full(len(inputs))
        if Mode.PAY in cur_modes:
            self._write_payloads({out: behind for out, behind in self.relation.items() if any(behind)})
        if Mode.COMP in cur_modes:
            defaults = {out: [self.default(out, i, inputs[i].shape) for i in range(len(inputs))] for out in self.cells}
            nothing = [set() for _ in inputs]
            self._write_payloads(
                {o: self.relation.get(o, nothing) for o in self.cells if self.relation.get(o, nothing) != defaults[o]}
            )
        return np.arange(int(np.prod(self.shape)), dtype=float).reshape(self.shape)

    @property
    def cells(self):
        return cells_of(self.shape)

    def default(self, out, i, shape):
        """What Comp assumes: the cell of the same coordinates, where there is one."""
        cell = (out + (0,) * len(shape))[: len(shape)]
        return {cell} if all(0 <= c < n for c, n in zip(cell, shape, strict=True)) else set()

    def _write_full(self, inputs):
        if self.how == "pairs":
            for i in range(inputs):
                pairs = [(out, cell) for out, behind in self.relation.items() for cell in behind[i]]
                if pairs:
                    self.lwrite_many([out for out, _ in pairs], [cell for _, cell in pairs], i)
        elif self.how == "grouped":
            alike = {}
            for out, behind in self.relation.items():
                alike.setdefault(tuple(frozenset(cells) for cells in behind), []).append(out)
            for behind, outs in alike.items():
                self.lwrite(outs, *(list(cells) for cells in behind))
        else:
            for out, behind in self.relation.items():
                self.lwrite([out], *(sorted(cells) if cells else None for cells in behind))

    def _write_payloads(self, relation):
        alike = {}
        for out, behind in relation.items():
            alike.setdefault(tuple(tuple(sorted(cells)) for cells in behind), []).append(out)
        for behind, outs in alike.items():
            if self.how == "pairs":
                self.lwrite_many(outs, payload=[behind] * len(outs))
            else:
                self.lwrite(outs, payload=behind)

    def map_b(self, outcell, i):
        if Mode.COMP in self.modes and Mode.MAP not in self.modes:
            return self.default(outcell, i, self.input_shapes[i])
        ndim = len(self.input_shapes[i])
        outside = {(-1,) * ndim, (99,) * ndim} if ndim else set()
        return self.relation.get(outcell, [set()] * (i + 1))[i] | outside

    def map_f(self, incell, i):
        if Mode.COMP in self.modes and Mode.MAP not in self.modes:
            return [out for out in self.cells if incell in self.default(out, i, self.input_shapes[i])]
        return [out for out, behind in self.relation.items() if incell in behind[i]]

    def map_p(self, outcell, payload, i):
        return payload[i]


def in_bulk(name):
    def many(self, cells, *rest):
        if name == "map_p":
            payloads, i = rest
            found = [[row, cell] for row, p in enumerate(payloads) for cell in p[i]]
            ndim = len(self.input_shapes[i])
        else:
            (i,) = rest
            single = getattr(Scripted, name)
            found = [[row, cell] for row, at in enumerate(cells) for cell in single(self, tuple(map(int, at)), i)]
            ndim = len(self.input_shapes[i]) if name == "map_b" else len(self.output_shape)
        rows = np.array([row for row, _ in found], np.int64)
        return rows, np.array([cell for _, cell in found], np.int64).reshape(len(found), ndim)

    return many


class BulkScripted(Scripted):
    map_b_many, map_f_many, map_p_many = in_bulk("map_b"), in_bulk("map_f"), in_bulk("map_p")


class ForwardOnly(Scripted):
    map_b = Operator.map_b


class BackwardOnly(Scripted):
    map_f = Operator.map_f


class BulkForwardOnly(Scripted):
    map_f_many, map_p_many = in_bulk("map_f"), in_bulk("map_p")
    map_b = Operator.map_b


class BulkBackwardOnly(Scripted):
    map_b_many, map_p_many = in_bulk("map_b"), in_bulk("map_p")
    map_f = Operator.map_f
