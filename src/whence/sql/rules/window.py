"""Windows: the row and the rows of its frame; for lag and lead the row and the one it looks at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from whence.model import NonDeterministic
from whence.model.operators import RANKS_BEFORE, RANKS_WHOLE
from whence.sql.blocks import Annotated, Block, make_lookup
from whence.sql.builder import Builder
from whence.sql.catalyst import Attr, Catalyst, Expr, class_name, id_of
from whence.sql.certainty import by_position as is_by_position
from whence.sql.certainty import is_rows, is_unbounded
from whence.sql.facts import ROWS
from whence.sql.tree import Node, place_of

# Spark itself finds out how to add a distance to these.
_TIMES = ("date", "timestamp", "timestamp_ntz")


@dataclass(frozen=True, eq=False)
class _Row:
    """What is known of a row: the values it is ordered by, and its number in the partition."""

    order: Sequence[Expr]
    position: Expr | None


def window(node: Node, build: Builder) -> Annotated:
    c = build.c
    partition, orders = c.items(node.plan.partitionSpec()), c.items(node.plan.orderSpec())
    functions = [alias.child() for alias in c.items(node.plan.windowExpressions())]
    fact = build.fact_of(node)
    by_position = fact is not None or any(is_by_position(c, f) for f in functions)
    numbering = orders or [c.ascending(c.number(1))]  # which Spark insists on, and leaves all rows tied
    number = c.alias(c.row_number(partition, numbering), "whence_position") if by_position else None

    def numbered(child: Annotated) -> Annotated:
        if number is None or fact is not None:
            return child
        plan = c.window([number], partition, numbering, child.plan)
        return Annotated(c.project([*c.output(child.plan), number.toAttribute()], plan), child.links)

    block = build.block(node.children[0], numbered)
    rows = c.with_children(node.plan, [block.annotated.plan])
    if fact is not None and number is not None:
        # The numbers that this one evaluation gave, in the same pass as the window's own functions.
        both = c.copy(node.plan, windowExpressions=c.seq([*c.items(node.plan.windowExpressions()), number]))
        rows = build.kept(node, ROWS, c.with_children(both, [block.annotated.plan]))
        inside = [*c.output(block.node.plan), *block.annotated.attrs, number.toAttribute()]
        block = Block(block.number, block.node, Annotated(c.project(inside, rows), block.annotated.links))
    elif by_position or node in build.wavering.decides:
        _require_no_ties(node, build, block, [*partition, *[o.child() for o in orders]])
    inner = _Row([o.child() for o in orders], None if number is None else number.toAttribute())
    same_partition = [c.alias(p, "whence_partition") for p in partition]
    order_values = [c.alias(o, "whence_order") for o in inner.order]
    position = [] if inner.position is None else [c.alias(inner.position, "whence_position")]
    identity = [c.alias(a, "whence_id") for a in block.annotated.attrs]
    outer = _Row([a.toAttribute() for a in order_values], position[0].toAttribute() if position else None)

    node.counts_others = any(_passes_over(c, f) for f in functions)
    frames = [_frame(build, node, f, orders, inner, outer) for f in functions]
    wanted = _wanted(c, frames, inner, outer, block, identity)
    keys = [*same_partition, *order_values, *position, *identity]
    plan = c.extend(rows, keys)
    pairs = [(alias.toAttribute(), expr) for alias, expr in zip(same_partition, partition, strict=True)]
    condition = [c.same(expr, attr) for attr, expr in pairs] + ([] if wanted is None else [wanted])
    carried = _used(c, condition, keys)
    known = {id_of(a) for a in carried}
    # Rows of one partition may look up the same rows; what they are themselves tells them apart.
    apart = [a for a in (alias.toAttribute() for alias in identity) if id_of(a) not in known]
    where = c.conjunction(condition) if condition else None
    found = make_lookup(c, node, plan, block, carried, where, pairs, apart)
    return Annotated(c.project([*c.output(node.plan), *found.attrs], found.plan), found.links)


def _used(c: Catalyst, condition: Sequence[Expr], keys: Sequence[Expr]) -> list[Attr]:
    used: set[int] = set().union(*[c.references(part) for part in condition])
    attrs = [key.toAttribute() for key in keys]
    return [a for a in attrs if id_of(a) in used]


def _wanted(
    c: Catalyst, frames: Sequence[Expr | None], inner: _Row, outer: _Row, block: Block, identity: Sequence[Expr]
) -> Expr | None:
    """The row itself or a row of one of the frames; None when a frame is the whole partition."""
    if any(frame is None for frame in frames):
        return None
    if inner.position is not None and outer.position is not None:
        itself = c.equal(inner.position, outer.position)
    else:
        ids = [i.toAttribute() for i in identity]
        itself = c.conjunction([c.same(a, i) for a, i in zip(block.annotated.attrs, ids, strict=True)])
    return c.disjunction([itself, *[frame for frame in frames if frame is not None]])


def _frame(
    build: Builder, node: Node, expression: Expr, orders: Sequence[Expr], inner: _Row, outer: _Row
) -> Expr | None:
    """The condition under which a row is in the frame of the outer row; None for the whole partition."""
    c = build.c
    function, frame = expression.windowFunction(), expression.windowSpec().frameSpecification()
    name = class_name(function)
    if name in RANKS_WHOLE:
        return None
    if name == "RowNumber" and inner.position is not None and outer.position is not None:
        return c.expression("LessThan", inner.position, outer.position)
    if name in RANKS_BEFORE:
        return _before(c, inner.order, outer.order, orders)
    if name in ("Lag", "Lead"):
        return _offset(build, node, function, inner, outer)
    if is_unbounded(frame):
        return None
    if is_rows(frame):
        return _rows_frame(c, frame, inner, outer)
    return _range_frame(build, node, frame, orders, inner, outer)


def _before(c: Catalyst, ones: Sequence[Expr], others: Sequence[Expr], orders: Sequence[Expr]) -> Expr:
    """Strictly before, column by column."""
    result = c.parse("false")
    for one, other, order in reversed(list(zip(ones, others, orders, strict=True))):
        ties = c.conjunction([c.same(one, other), result])
        result = c.disjunction([c.sorts_before(one, other, order), ties])
    return result


def _offset(build: Builder, node: Node, function: Expr, inner: _Row, outer: _Row) -> Expr:
    c = build.c
    assert inner.position is not None
    assert outer.position is not None
    # Spark keeps lag's offset as a negative number.
    distance = int(function.offset().eval(None))
    if not function.ignoreNulls():
        return c.equal(inner.position, c.add(outer.position, c.parse(str(distance))))
    build.note(node, "lag and lead that skip NULLs look at any row on their side, so all of these are counted in")
    side = "LessThanOrEqual" if distance < 0 else "GreaterThanOrEqual"
    return c.expression(side, inner.position, outer.position)


def _passes_over(c: Catalyst, expression: Expr) -> bool:
    """Whether rows between the row and its frame are counted though they are no witnesses (`lag(v, 2)`)."""
    function, frame = expression.windowFunction(), expression.windowSpec().frameSpecification()
    if class_name(function) in ("Lag", "Lead"):
        return abs(int(function.offset().eval(None))) > 1
    if not is_rows(frame):
        return False
    lower, upper = (_distance(bound) for bound in (frame.lower(), frame.upper()))
    return (lower is not None and lower > 1) or (upper is not None and upper < -1)


def _distance(bound: Expr) -> int | None:
    kind = class_name(bound)
    if kind in ("UnboundedPreceding", "UnboundedFollowing"):
        return None
    return 0 if kind == "CurrentRow" else int(bound.eval(None))


def _rows_frame(c: Catalyst, frame: Expr, inner: _Row, outer: _Row) -> Expr:
    tests = []
    assert inner.position is not None
    assert outer.position is not None
    for bound, test in ((frame.lower(), "GreaterThanOrEqual"), (frame.upper(), "LessThanOrEqual")):
        if (distance := _distance(bound)) is None:
            continue
        tests.append(c.expression(test, inner.position, c.add(outer.position, c.parse(str(distance)))))
    return c.conjunction(tests)


def _range_frame(
    build: Builder, node: Node, frame: Expr, orders: Sequence[Expr], inner: _Row, outer: _Row
) -> Expr | None:
    c = build.c
    tests = []
    for bound, is_lower in ((frame.lower(), True), (frame.upper(), False)):
        kind = class_name(bound)
        if kind in ("UnboundedPreceding", "UnboundedFollowing"):
            continue
        edge = outer.order
        if kind != "CurrentRow":
            moved = _moved(c, outer.order[0], bound, orders[0])
            if moved is None:
                build.note(node, "a RANGE over values of this type is widened to the whole partition")
                return None
            edge = [moved]
        one, other = (inner.order, edge) if is_lower else (edge, inner.order)
        tests.append(c.negation(_before(c, one, other, orders)))
    return c.conjunction(tests)


def _moved(c: Catalyst, value: Expr, bound: Expr, order: Expr) -> Expr | None:
    if not c.is_numeric(value) and value.dataType().catalogString() not in _TIMES:
        return None
    distance = bound if order.direction().sql() == "ASC" else c.negative(bound)
    return c.add(value, distance)


def _require_no_ties(node: Node, build: Builder, block: Block, keys: Sequence[Expr]) -> None:
    if not build.compute:
        build.deferred = True
        return
    c = build.c
    names = [c.alias(key, f"k{i}") for i, key in enumerate(keys)]
    frame = c.frame(c.project(names, block.annotated.plan)) if names else None
    tied = (
        block.annotated.links and c.frame(c.limit(2, block.annotated.plan)).count() > 1
        if frame is None
        else frame.groupBy(*frame.columns).count().where("count > 1").limit(1).count()
    )
    if tied:
        raise NonDeterministic(
            "This window goes by the position of rows, but its ORDER BY leaves rows tied: which of them came first "
            "cannot be worked out afterwards. Add columns to the ORDER BY until it is unique, or compute the result "
            "under `with w.capture():`.\n"
            f"It stands here in the query:\n{place_of(build.root, node)}"
        )
