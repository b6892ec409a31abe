from __future__ import annotations

from collections.abc import Sequence

from whence.sql import worker
from whence.sql.blocks import Annotated, Block, Lookup, make_lookup, repeated
from whence.sql.builder import Builder
from whence.sql.catalyst import Attr, Expr, Plan
from whence.sql.facts import ROWS
from whence.sql.pyfunctions import Wrap, names_rows, takes_iterator, wrapped
from whence.sql.rules.generate import generate
from whence.sql.tree import Node

_PARTITION_BITS = 33  # of a position, the bits below its partition's number


def map_batches(node: Node, build: Builder) -> Annotated:
    """mapInPandas, mapInArrow: the row, if the function gives the same for each row alone; else its batch or partition.

    What went in is computed and kept with its rows numbered, the function runs again on it, wrapped (see worker.py)."""
    c = build.c
    block = build.block(node.children[0], ordered=True)
    by_name = names_rows(build.c, node.plan.functionExpr())
    extra = [_new_attribute(build, name) for name in ("whence_first", "whence_last", "whence_how")]
    first, last, how = extra
    if by_name:
        extra += [_new_attribute(build, worker.INPUTS, "array<bigint>"), _new_attribute(build, "whence_output")]
    wrap: Wrap = worker.map_with_names if by_name else worker.map_with_intervals
    number = c.alias(c.position(), "whence_number")
    at = number.toAttribute()
    if not build.compute:
        build.deferred = True
        plan = c.extend(node.plan, [c.alias_as(c.null(attr), attr) for attr in extra])
        return _found(build, node, plan, make_lookup(c, node, plan, block, [first, last], c.true))
    kept = build.kept(node, "inputs", c.with_position(block.annotated.plan, number))
    inputs = [*c.output(node.children[0].plan), at]
    function = wrapped(c, node.plan.functionExpr(), wrap, extra, inputs)
    outputs = c.seq([*c.output(node.plan), *extra])
    run = c.copy(node.plan, functionExpr=function, output=outputs, child=c.project(inputs, kept))
    done = build.kept(node, ROWS, run)
    hows = {row[0] for row in c.frame(c.distinct(c.project([how], done))).collect()}
    _say(build, node, hows)
    if by_name and hows and hows <= {worker.BY_NAME, worker.BY_SHARED_NAME}:
        return _by_pairs(build, node, done, extra[-2:], Annotated(kept, block.annotated.links), block, at)
    below = Block(block.number, block.node, Annotated(kept, block.annotated.links))
    if hows <= {worker.BY_ROW}:
        condition, equal = c.equal(at, first), [(first, at)]
    else:
        bits = c.parse(str(_PARTITION_BITS))
        partitions = [c.expression("ShiftRight", attr, bits) for attr in (at, first)]
        between = (c.expression("GreaterThanOrEqual", at, first), c.expression("LessThanOrEqual", at, last))
        condition, equal = c.conjunction([c.equal(*partitions), *between]), []
    plan = done
    return _found(build, node, plan, make_lookup(c, node, plan, below, [first, last], condition, equal))


def _by_pairs(
    build: Builder, node: Node, done: Plan, told: Sequence[Attr], kept: Annotated, block: Block, at: Attr
) -> Annotated:
    """As an actor in the function told: any rows, not only neighbours."""
    c = build.c
    inputs, output = told
    one = c.alias(c.expression("Explode", inputs), "whence_input")
    pairs = c.plan_of(
        c.frame(c.project([c.alias(output, "whence_pair"), one], done))
    )  # analysed, so that the list is opened
    pair, number = c.output(pairs)
    joined = c.join(kept.plan, pairs, "inner", c.equal(at, number))
    below = Block(block.number, block.node, Annotated(joined, repeated(kept.links)))
    lookup = make_lookup(c, node, done, below, [output], c.equal(pair, output), [(output, pair)])
    return _found(build, node, done, lookup)


def _say(build: Builder, node: Node, hows: set[int]) -> None:
    name = node.plan.functionExpr().name()
    if worker.BY_SHARED_NAME in hows:
        build.note(
            node,
            f"the actor in {name} names rows by columns that do not tell them apart, so an output row's witnesses are "
            "all rows of such a name",
        )
    if hows & {worker.BY_NAME, worker.BY_SHARED_NAME} and not hows <= {worker.BY_NAME, worker.BY_SHARED_NAME}:
        build.note(
            node,
            f"the actor in {name} has not said of every output row what it came from, so an output row's witnesses are "
            "all rows from the first to the last that it may come from",
        )
    if worker.BY_BATCH in hows:
        build.note(
            node,
            f"{name} gives something else for a batch of rows than for each of its rows alone, so an output row's "
            "witnesses are the rows of its batch",
        )
    if worker.BY_RUN in hows:
        build.note(
            node,
            f"some partition has more than {worker.ONE_BY_ONE} rows, too many to give them to {name} one by one, so "
            f"an output row's witnesses there are a run of up to {worker.RUN} rows",
        )
    if worker.BY_PARTITION in hows:
        build.note(
            node,
            f"what {name} gives depends on more than one batch, so an output row's witnesses are all rows of its "
            "partition that the function had taken by then",
        )


def map_groups(node: Node, build: Builder) -> Annotated:
    """applyInPandas, applyInArrow: every row of the group, NULL keys being one group."""
    c = build.c
    child = node.children[0]
    block = build.block(child)
    hashes = c.group_hashes(c.items(node.plan.groupingAttributes()))
    extra = [_new_attribute(build, f"whence_group{i}") for i in range(len(hashes))]
    wide = _with_hashes(build, child, hashes)
    function = node.plan.functionExpr()
    wrap: Wrap = worker.grouped_iterator if takes_iterator(function) else worker.grouped
    plan = c.copy(
        node.plan,
        functionExpr=wrapped(c, function, wrap, extra, c.output(wide)[_keys(build, node) :]),
        output=c.seq([*c.output(node.plan), *extra]),
        child=wide,
    )
    pairs = list(zip(extra, hashes, strict=True))
    condition = c.conjunction([c.equal(h, attr) for attr, h in pairs])
    return _found(build, node, plan, make_lookup(c, node, plan, block, extra, condition, pairs))


def map_cogroups(node: Node, build: Builder) -> Annotated:
    """Cogrouped applyInPandas, applyInArrow: every row of the group on either side."""
    c = build.c
    lengths = (node.plan.leftGroupingLen(), node.plan.rightGroupingLen())
    wides: list[Plan] = []
    hashes: list[list[Expr]] = []
    for child, length in zip(node.children, lengths, strict=True):
        hashes.append(c.group_hashes(c.output(child.plan)[:length]))
        wides.append(_with_hashes(build, child, hashes[-1]))
    extra = [_new_attribute(build, f"whence_group{i}") for i in range(len(hashes[0]) + len(hashes[1]))]
    inputs = [a for wide, length in zip(wides, lengths, strict=True) for a in c.output(wide)[length:]]
    plan = c.copy(
        node.plan,
        functionExpr=wrapped(c, node.plan.functionExpr(), worker.cogrouped, extra, inputs),
        output=c.seq([*c.output(node.plan), *extra]),
        left=wides[0],
        right=wides[1],
    )
    sides = (extra[: len(hashes[0])], extra[len(hashes[0]) :])
    links: list[Lookup] = []
    for child, attrs, side in zip(node.children, sides, hashes, strict=True):
        pairs = list(zip(attrs, side, strict=True))
        condition = c.conjunction([c.equal(h, attr) for attr, h in pairs])
        found = make_lookup(c, node, plan, build.block(child), attrs, condition, pairs)
        plan = found.plan
        links.extend(link for link in found.links if isinstance(link, Lookup))
    return _found(build, node, plan, Annotated(plan, tuple(links)))


def generate_or_table_function(node: Node, build: Builder) -> Annotated:
    """The row that called the function.

    A function over a whole TABLE argument may give its rows when the next partition has begun, so Spark does not tell
    which rows they came from: all rows of the table."""
    if not _takes_table(build, node.plan.generator()):
        return generate(node, build)
    c = build.c
    build.note(
        node,
        f"{node.plan.generator().name()} takes a whole table and tells not which of its rows an output row came from, "
        "so an output row's witnesses are all rows of the table",
    )
    block = build.block(node.children[0], ordered=True)
    return _found(build, node, node.plan, make_lookup(c, node, node.plan, block, [], None))


def _takes_table(build: Builder, generator: Expr) -> bool:
    c = build.c
    if not c.is_a(generator, "org.apache.spark.sql.catalyst.expressions.PythonUDTF"):
        return False
    given = c.fields(generator).get("tableArguments")
    if given is None:  # before Spark 4.1: a table's rows come as one struct
        return any(a.dataType().typeName() == "struct" for a in c.children(generator))
    return given.isDefined() and any(c.items(given.get()))


def _with_hashes(build: Builder, child: Node, hashes: Sequence[Expr]) -> Plan:
    return build.c.extend(child.plan, [build.c.alias(h, f"whence_hash{i}") for i, h in enumerate(hashes)])


def _keys(build: Builder, node: Node) -> int:
    return len(build.c.items(node.plan.groupingAttributes()))


def _new_attribute(build: Builder, name: str, kind: str = "bigint") -> Attr:
    c = build.c
    value = c.long(0) if kind == "bigint" else c.parse(f"cast(null as {kind})")
    return c.alias(value, name).toAttribute().withNullability(True)


def _found(build: Builder, node: Node, plan: Plan, found: Annotated) -> Annotated:
    return Annotated(build.c.project([*build.c.output(node.plan), *found.attrs], found.plan), found.links)
