"""A query in many worlds at once, each of which lacks one row of a source.

A part of the query takes one of these forms, and the operators above go on from there:

- `Fixed`: no world differs.
- `Removal`: rows that each come from one row of the source; in a world the rows of the missing one are missing.
- `Changed`: an operator that works group by group (or window by window) over such rows: the groups that differ in a
  world were computed for it, all others are the same in all worlds.
- `Full`: every row stands once for each world, under the world's number, by which every operator groups and joins.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from pyspark.sql import functions as F

from whence.model import WhenceError
from whence.sql import Catalyst, Node, Place, Reading, ReadingPlace, SqlLineage
from whence.sql.blocks import in_branch, told_by
from whence.sql.catalyst import Attr, Expr, Plan, class_name, id_of
from whence.sql.influence.leave_one_out import left_out

NO_WORLD = -1

# So many rows, over all worlds, are computed for one answer.
MOST_ROWS = 100_000_000
# Up to this many witnesses are sent to every executor: Spark does not know how few they are, and would sort the source.
SENT = 200_000

_SAME_ROWS = ("SubqueryAlias", "View", "ResolvedHint", "Sort", "RepartitionByExpression", "Repartition")
_ROW_BY_ROW = (*_SAME_ROWS, "Project", "Filter", "Generate", "Union", "Expand")
_CHOOSING = ("Filter", "GlobalLimit", "LocalLimit", "Offset")
_EITHER_SIDE = ("Inner", "Cross")
_LEFT_ONLY = ("LeftOuter", "LeftSemi", "LeftAnti", "LeftSingle")

# What tells a row of a form: the row of a reading, or the group of an operator.
Ids: TypeAlias = Mapping[ReadingPlace | Node, tuple[Attr, ...]]


class NoWorlds(Exception):
    """An operator that cannot be computed for all worlds at once."""


class TooManyRows(WhenceError):
    pass


@dataclass(frozen=True, eq=False)
class Fixed:
    plan: Plan


@dataclass(frozen=True, eq=False)
class Removal:
    plan: Plan
    missing_in: tuple[Attr, ...]
    ids: Ids


@dataclass(frozen=True, eq=False)
class Changed:
    """`affected` holds (world, keys): what `plan` has under these keys is, in that world, what `anew` has there."""

    plan: Plan
    keys: tuple[Attr, ...]
    affected: Plan
    anew: Plan
    world: Attr
    ids: Ids
    passes: tuple[Attr, ...] = ()


@dataclass(frozen=True, eq=False)
class Full:
    plan: Plan
    world: Attr
    ids: Ids
    passes: tuple[Attr, ...] = ()


Form: TypeAlias = Fixed | Removal | Changed | Full


class Worlds:
    """`worlds`: (identity of a row of the source..., number of the world that lacks it); one more, NO_WORLD, lacks
    none."""

    def __init__(
        self, lineage: SqlLineage, readings: Sequence[ReadingPlace], worlds: Plan, count: int, *, alone: bool
    ) -> None:
        """`alone`: whether the rows that have a world are all that the asked rows come from."""
        self._c: Catalyst = lineage.c
        self._places: dict[Node, Place] = {place.node: place for place in lineage.places}
        self._readings = {place.number for place in readings}
        self._leaves = {place.leaf for place in readings}
        self._worlds = worlds
        self._count = count
        self._alone = alone and len(readings) == 1

    def form(self, node: Node, top: bool = True) -> Form:
        """`top`: filters and limits only choose which rows were asked about; rows that they would drop in a world are
        told with what the filters say of them."""
        if node.barren:  # whatever is missing, no row of it is asked about
            return Fixed(self._c.filter(self._c.parse("false"), node.plan))
        if not self._differs(node):
            return Fixed(node.plan)
        if any(self._differs(below) for below in node.subqueries.values()) or node.kind == "Settled":
            raise NoWorlds
        if self._row_by_row(node):
            return self._removal(node)
        if top and node.kind in _CHOOSING:
            below = self.form(node.children[0])
            return self._noted(below, node.plan.condition()) if node.kind == "Filter" else below
        if node.kind in _SAME_ROWS:
            return self.form(node.children[0], top)
        if node.kind == "Project":
            return self._projected(node, self.form(node.children[0], top))
        forms = [self.form(child, top=False) for child in node.children]
        if len(forms) == 1 and isinstance(forms[0], Removal):
            made = self._of_groups(node, forms[0])
            if made is not None:
                return made
        if node.kind == "Filter" and isinstance(forms[0], Changed):
            kept = [self._c.filter(node.plan.condition(), plan) for plan in (forms[0].plan, forms[0].anew)]
            return replace(forms[0], plan=kept[0], anew=kept[1])
        return self._in_full(node, forms)

    # --- which form

    def _differs(self, node: Node) -> bool:
        return any(below in self._leaves for below in node.walk())

    def _row_by_row(self, node: Node) -> bool:
        """Whether the rows that a missing row of the source takes along are just those that carry its identity."""
        if node not in self._places or any(self._differs(below) for below in node.subqueries.values()):
            return False
        if node in self._leaves:
            return True
        differing = [child for child in node.children if not child.barren and self._differs(child)]
        if node.kind == "Join":
            kind = str(node.plan.joinType().toString())
            side = 1 if kind == "RightOuter" else 0
            one_sided = kind in _LEFT_ONLY or kind == "RightOuter" or kind.startswith("ExistenceJoin")
            if not (kind in _EITHER_SIDE or (one_sided and differing == [node.children[side]])):
                return False
        elif node.kind not in _ROW_BY_ROW:
            return False
        return all(self._row_by_row(child) for child in differing)

    def _removal(self, node: Node) -> Removal:
        c = self._c
        annotated = self._places[node].annotated
        plan = annotated.plan
        missing: list[Attr] = []
        ids: dict[ReadingPlace | Node, tuple[Attr, ...]] = {}
        for link in annotated.links:
            if not isinstance(link, Reading):
                ids[link.node] = told_by(link)
                continue
            ids[link.place] = told_by(link)
            if link.place.number not in self._readings:
                continue
            *theirs, number = [c.alias(a, "whence_world") for a in c.output(self._worlds)]
            pairs = [c.equal(a, other.toAttribute()) for a, other in zip(link.attrs, theirs, strict=True)]
            same = c.conjunction([*pairs, *in_branch(c, link.when)])
            kind = "inner" if self._alone and link.always else "leftouter"
            worlds = c.project([*theirs, number], self._worlds)
            if self._count <= SENT:
                worlds = c.plan_of(F.broadcast(c.frame(worlds)))
            plan = c.join(plan, worlds, kind, same)
            missing.append(number.toAttribute())
        if not missing:
            raise NoWorlds
        carried = _once([*c.output(node.plan), *missing, *[a for attrs in ids.values() for a in attrs]])
        return Removal(c.project(carried, plan), tuple(missing), ids)

    # --- group by group

    def _needed(self, node: Node, below: Removal) -> Plan:
        """What a grouping needs of its rows: Spark would read the other columns too, since the rows are kept."""
        c = self._c
        if node.kind != "Aggregate":
            return below.plan
        wanted = c.references(node.plan) | {id_of(a) for a in below.missing_in}
        wanted |= {id_of(a) for attrs in below.ids.values() for a in attrs}
        return c.project([a for a in c.output(below.plan) if id_of(a) in wanted], below.plan)

    def _of_groups(self, node: Node, below: Removal) -> Changed | None:
        c = self._c
        if node.kind == "Aggregate":
            keys = c.items(node.plan.groupingExpressions())
        elif node.kind == "Window":
            keys = c.items(node.plan.partitionSpec())
        elif node.kind == "Distinct":
            keys = c.output(node.children[0].plan)
        else:
            return None
        below = replace(below, plan=c.plan_of(c.materialise(self._needed(node, below))))
        affected = self._affected(below, keys)
        if node.kind != "Aggregate":
            return self._recomputed(node, below, keys, affected)
        named = [c.alias(key, "whence_group") for key in keys]
        outputs = c.items(node.plan.aggregateExpressions())
        base = c.copy(node.plan, aggregateExpressions=c.seq([*outputs, *named]), child=below.plan)
        attrs = tuple(name.toAttribute() for name in named)
        calls = [call for output in outputs for call in _calls(c, output)]
        if len(below.missing_in) == 1:
            found = left_out(c, below.plan, below.missing_in[0], keys, calls)
            if found is not None:
                results = dict(zip(map(_result_id, calls), found.results, strict=True))
                told = [_told(c, output, results, list(zip(keys, found.keys, strict=True))) for output in outputs]
                own = [
                    c.alias_as(e.child() if class_name(e) == "Alias" else e, a)
                    for e, a in zip(told, [o.toAttribute() for o in outputs], strict=True)
                ]
                again = [c.alias_as(key, a) for key, a in zip(found.keys, attrs, strict=True)]
                world = c.alias(found.v, "whence_world")
                anew = c.project([*own, *again, world], found.plan)
                return Changed(base, attrs, affected, anew, world.toAttribute(), {node: attrs})
        return self._recomputed(node, below, keys, affected, (base, attrs))

    def _affected(self, below: Removal, keys: Sequence[Expr]) -> Plan:
        """(world, keys) of each group that a world's missing row stood in."""
        c = self._c
        parts = [
            c.project(
                [c.alias(number, "whence_world"), *[c.alias(key, "whence_key") for key in keys]],
                c.filter(c.is_not_null(number), below.plan),
            )
            for number in below.missing_in
        ]
        return c.plan_of(c.materialise(c.distinct(parts[0] if len(parts) == 1 else c.union(parts))))

    def _recomputed(
        self,
        node: Node,
        below: Removal,
        keys: Sequence[Expr],
        affected: Plan,
        base: tuple[Plan, tuple[Attr, ...]] | None = None,
    ) -> Changed:
        """The groups that differ, each with the rows it has in its world. `base`: the groups, and their keys there."""
        c = self._c
        self._require_few(below, keys, affected)
        world, *others = [c.alias(a, "whence_world") for a in c.output(affected)]
        there = c.conjunction(
            [
                *[c.same(key, other.toAttribute()) for key, other in zip(keys, others, strict=True)],
                *[c.negation(c.same(number, world.toAttribute())) for number in below.missing_in],
            ]
        )
        rows = c.join(below.plan, c.project([world, *others], affected), "inner", there)
        here = Full(c.project([*c.output(below.plan), world.toAttribute()], rows), world.toAttribute(), below.ids)
        anew = self._in_full(node, [here])
        if base is None:
            named = [c.alias(key, "whence_key") for key in keys]
            whole = node.plan if node.kind == "Window" else c.distinct(c.project(c.output(node.plan), below.plan))
            whole = c.with_children(whole, [below.plan]) if node.kind == "Window" else whole
            base = c.extend(whole, named), tuple(n.toAttribute() for n in named)
        plan, attrs = base
        if node.kind == "Window":
            return Changed(plan, attrs, affected, anew.plan, anew.world, anew.ids)
        again = [c.alias_as(key, attr) for key, attr in zip(anew.ids[node], attrs, strict=True)]
        told = c.project([*c.output(node.plan), *again, anew.world], anew.plan)
        return Changed(plan, attrs, affected, told, anew.world, {node: attrs})

    def _require_few(self, below: Removal, keys: Sequence[Expr], affected: Plan) -> None:
        c = self._c
        names = [f"k{i}" for i in range(len(keys))]
        named = [c.alias(key, name) for key, name in zip(keys, names, strict=True)]
        sizes = c.frame(c.project(named or [c.alias(c.true, "one")], below.plan)).groupBy(*names).count()
        mine = c.frame(affected).toDF("world", *[f"of_{name}" for name in names])
        together = [F.col(name).eqNullSafe(F.col(f"of_{name}")) for name in names] or [F.lit(True)]
        self._bounded(int(sizes.join(mine, together).agg(F.sum("count")).first()[0] or 0))  # type: ignore[index]

    def _bounded(self, rows: int) -> None:
        if rows > MOST_ROWS:
            raise TooManyRows(
                f"The influence of {self._count:,} rows would need the query to be computed over {rows:,} rows in all, "
                f"once without each of them; the bound is {MOST_ROWS:,}. Ask about fewer output rows, or about a "
                "column that is a sum, count, average, extreme, percentile, variance or distinct count of its rows."
            )

    # --- rows above groups

    def _noted(self, below: Form, condition: Expr) -> Form:
        if not isinstance(below, Changed | Full):
            return below
        c = self._c
        passes = c.alias(condition, "whence_passes")
        noted = (*below.passes, passes.toAttribute())
        if isinstance(below, Full):
            return replace(below, plan=c.extend(below.plan, [passes]), passes=noted)
        return replace(below, plan=c.extend(below.plan, [passes]), anew=c.extend(below.anew, [passes]), passes=noted)

    def _projected(self, node: Node, below: Form) -> Form:
        c = self._c
        exprs = c.items(node.plan.projectList())
        if isinstance(below, Fixed | Removal):
            return self._removal(node) if isinstance(below, Removal) and node in self._places else self._bad()
        ids = [a for attrs in below.ids.values() for a in attrs]
        if isinstance(below, Full):
            return replace(below, plan=c.project(_once([*exprs, *ids, below.world, *below.passes]), below.plan))
        return replace(
            below,
            plan=c.project(_once([*exprs, *ids, *below.keys, *below.passes]), below.plan),
            anew=c.project(_once([*exprs, *ids, below.world, *below.passes]), below.anew),
        )

    def _bad(self) -> Form:
        raise NoWorlds

    # --- every row in every world

    def full(self, form: Form) -> Full:
        c = self._c
        if isinstance(form, Full):
            return form
        world = c.alias(c.output(self._worlds)[-1], "whence_world")
        numbers = c.project([world], self._worlds)
        number = world.toAttribute()
        rows = c.plan_of(c.materialise(form.plan))
        self._bounded(c.frame(rows).count() * self._count)
        if isinstance(form, Fixed):
            return Full(c.join(rows, numbers, "cross", None), number, {})
        if isinstance(form, Removal):
            there = c.conjunction([c.negation(c.same(a, number)) for a in form.missing_in])
            return Full(c.join(rows, numbers, "inner", there), number, form.ids)
        others = [c.alias(a, "whence_world") for a in c.output(form.affected)]
        gone = c.conjunction([c.same(a, o.toAttribute()) for a, o in zip((number, *form.keys), others, strict=True)])
        same = c.join(c.join(rows, numbers, "cross", None), c.project(others, form.affected), "leftanti", gone)
        columns = [a for a in c.output(form.anew) if id_of(a) != id_of(form.world)]
        fresh = [c.alias(a, "whence_anew") for a in (*columns, form.world)]
        both = c.union([c.project([*columns, number], same), c.project(fresh, form.anew)])
        return Full(both, number, form.ids, form.passes)

    def _in_full(self, node: Node, forms: Sequence[Form]) -> Full:
        if node.kind not in _IN_FULL:
            raise NoWorlds
        return _IN_FULL[node.kind](self, node, forms)

    def _aggregate(self, node: Node, forms: Sequence[Form]) -> Full:
        c = self._c
        below = self.full(forms[0])
        keys = c.items(node.plan.groupingExpressions())
        named = [c.alias(key, "whence_group") for key in keys]
        outputs = c.items(node.plan.aggregateExpressions())
        plan = c.copy(
            node.plan,
            groupingExpressions=c.seq([*keys, below.world]),
            aggregateExpressions=c.seq([*outputs, *named, below.world]),
            child=below.plan,
        )
        attrs = tuple(name.toAttribute() for name in named)
        if not keys:  # an aggregate without keys has a row in a world without rows too
            world = c.alias(c.output(self._worlds)[-1], "whence_world")
            nothing = c.copy(node.plan, child=c.filter(c.parse("false"), node.children[0].plan))
            other = [c.alias(a, "whence_of_nothing") for a in c.output(node.plan)]
            mine = c.alias(below.world, "whence_mine")
            left = c.join(
                c.project([world], self._worlds), c.project([mine], plan), "leftanti",
                c.equal(world.toAttribute(), mine.toAttribute()),
            )  # fmt: skip
            empty = c.join(c.project(other, nothing), left, "cross", None)
            plan = c.union([plan, c.project([*[o.toAttribute() for o in other], world.toAttribute()], empty)])
        return Full(plan, below.world, {node: attrs})

    def _window(self, node: Node, forms: Sequence[Form]) -> Full:
        c = self._c
        below = self.full(forms[0])
        partition = c.seq([*c.items(node.plan.partitionSpec()), below.world])
        return replace(below, plan=c.copy(node.plan, partitionSpec=partition, child=below.plan))

    def _distinct(self, node: Node, forms: Sequence[Form]) -> Full:
        c = self._c
        below = self.full(forms[0])
        columns = c.output(node.plan)
        named = [c.alias(a, "whence_group") for a in columns]
        plan = c.extend(c.distinct(c.project([*columns, below.world], below.plan)), named)
        return Full(plan, below.world, {node: tuple(n.toAttribute() for n in named)})

    def _filter(self, node: Node, forms: Sequence[Form]) -> Full:
        below = self.full(forms[0])
        return replace(below, plan=self._c.filter(node.plan.condition(), below.plan))

    def _join(self, node: Node, forms: Sequence[Form]) -> Full:
        c = self._c
        kind = str(node.plan.joinType().toString())
        left, right = (f if isinstance(f, Fixed) and kind in _EITHER_SIDE else self.full(f) for f in forms)
        condition = [node.plan.condition().get()] if node.plan.condition().isDefined() else []
        if isinstance(left, Full) and isinstance(right, Full):
            if kind not in (*_EITHER_SIDE, *_LEFT_ONLY, "RightOuter", "FullOuter") or kind == "LeftSingle":
                raise NoWorlds
            condition.append(c.equal(left.world, right.world))
        plan = c.copy(
            node.plan, left=left.plan, right=right.plan,
            condition=c.some(c.conjunction(condition)) if condition else c.none(),
        )  # fmt: skip
        if kind == "Cross" and condition:
            plan = c.join(left.plan, right.plan, "inner", c.conjunction(condition))
        if not isinstance(left, Full):
            assert isinstance(right, Full)
            return replace(right, plan=plan)
        if not isinstance(right, Full):
            return replace(left, plan=plan)
        if kind in ("LeftSemi", "LeftAnti"):
            return replace(left, plan=plan)
        world = left.world
        if kind in ("RightOuter", "FullOuter"):
            either = c.alias(c.expression("Coalesce", c.seq([left.world, right.world])), "whence_world")
            plan, world = c.extend(plan, [either]), either.toAttribute()
        return Full(plan, world, {**left.ids, **right.ids})

    def _union(self, node: Node, forms: Sequence[Form]) -> Full:
        """Of branches in several forms: enough for what is aggregated above; which row is which is not told."""
        c = self._c
        sides = [self.full(form) for form in forms]
        children = zip(node.children, sides, strict=True)
        plan = c.union([c.project([*c.output(child.plan), side.world], side.plan) for child, side in children])
        *own, number = c.output(plan)
        world = c.alias(number, "whence_world")
        pairs = zip(own, c.output(node.plan), strict=True)
        named = [a if id_of(a) == id_of(outer) else c.alias_as(a, outer) for a, outer in pairs]
        return Full(c.project([*named, world], plan), world.toAttribute(), {node: ()})


_IN_FULL: Mapping[str, Callable[[Worlds, Node, Sequence[Form]], Full]] = {
    "Aggregate": Worlds._aggregate,
    "Window": Worlds._window,
    "Distinct": Worlds._distinct,
    "Filter": Worlds._filter,
    "Join": Worlds._join,
    "Union": Worlds._union,
}


def _once(exprs: Sequence[Expr]) -> list[Expr]:
    """Each attribute once."""
    return list({id_of(e): e for e in reversed(exprs)}.values())[::-1]


def _calls(c: Catalyst, expr: Expr) -> list[Expr]:
    if class_name(expr) == "AggregateExpression":
        return [expr]
    return [call for child in c.children(expr) for call in _calls(c, child)]


def _result_id(call: Expr) -> int:
    return int(call.resultId().id())


def _told(c: Catalyst, expr: Expr, results: Mapping[int, Attr], keys: Sequence[tuple[Expr, Attr]]) -> Expr:
    """An output of an aggregate with its functions and keys exchanged for what is known of them."""
    if class_name(expr) == "AggregateExpression":
        return results[_result_id(expr)]
    for key, known in keys:
        if expr.semanticEquals(key):
            return known
    children = c.children(expr)
    if not children:
        return expr
    return expr.withNewChildren(c.seq([_told(c, child, results, keys) for child in children]))
