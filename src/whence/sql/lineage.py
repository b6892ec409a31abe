"""The lineage of one query: built once, evaluated for the rows that are asked for."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace

from pyspark.sql import DataFrame

from whence.model import EXACT, Exactness, WhenceError
from whence.model.once import once
from whence.spark.round_trips import of_files
from whence.spark.texts import is_computed_before
from whence.sql.alike_branches import with_branches_merged
from whence.sql.asked_files import asked_files
from whence.sql.barren import mark_barren
from whence.sql.blocks import Block, Place, ReadingPlace
from whence.sql.builder import Builder, Built
from whence.sql.catalyst import Catalyst, Plan
from whence.sql.checkpoints import put_back
from whence.sql.columns import only_columns
from whence.sql.exchange import for_the_user, settle
from whence.sql.moments import at_one_moment
from whence.sql.recursion import unrolled
from whence.sql.rules import RULES
from whence.sql.sources import takes_parameters
from whence.sql.tree import Node, rebuild, tree_of
from whence.sql.versions import require_cached_alike, require_unchanged, told_apart
from whence.sql.wavering import Wavering
from whence.sql.writes import Passage, looked_through

_COMPUTED_BEFORE = (
    "its rows were computed when Spark made it, as the result of a SQL script (BEGIN ... END) is, and Spark does not "
    "tell what they were made from: ask about the query itself"
)


class SqlLineage:
    """The operators of a DataFrame's query as blocks and links.

    Making one checks that every operator has a rule; parts that must be computed to be known (which rows a LIMIT kept)
    are computed when `root` is first asked for."""

    def __init__(
        self,
        c: Catalyst,
        df: DataFrame,
        *,
        through: bool = True,
        columns: Sequence[str] | None = None,
        all_rows: bool = False,
        alike: bool = True,
        merges: bool = False,
    ) -> None:
        """`through`: whether the lineage goes on through tables that captured writes made (writes.py). `columns`: those
        that are asked about, where it is not the whole rows (columns.py). `all_rows`: nothing but all rows of the query
        is asked about, so of many appends only those are needed that hold what these come from (asked_files.py).
        `alike`: whether appends whose queries are alike are one query (alike_writes.py), and so, where `all_rows` or
        `merges` says it, branches of unions (alike_branches.py)."""
        self.c = c
        self._some = columns is not None
        self._all_rows, self.alike = all_rows, alike
        df = df if columns is None else _only(df, columns)
        self.frame = self.given = df
        self.passage = Passage([], alike=alike)
        self._made = made = c.made_at(df)
        if all_rows:
            self.passage.asked_files = lambda tree, leaf: asked_files(c, tree, leaf, made)
        tree = self._tree(c.plan_of(df), through)
        if any(node.kind == "CollectMetrics" for node in tree.walk()):
            self.frame = self.given = df = _unobserved(c, df)
            tree = self._tree(c.plan_of(df), through)
        settled = settle(c, only_columns(c, tree) if self._some else tree)
        self.tree, self._moments = at_one_moment(c, settled)
        if self.tree is not settled and self.passage.passed:
            self.frame = c.frame(c.at_this_moment(c.plan_of(df)))
        elif self.tree is not settled or self._is_written_down():
            self.frame = c.frame(for_the_user(c, self.tree))  # its rows are those that were written down, or are now
        self.tree = told_apart(c, self.tree)
        if all_rows:
            mark_barren(c, self.tree)
        self.merged = False
        if alike and (all_rows or merges):
            tree, self.tree = self.tree, with_branches_merged(c, self.tree)
            self.merged = tree is not self.tree
        self._builder = Builder(c, self.tree, RULES, some_columns=self._some)
        self._build(compute=False)
        self.require_unchanged()
        require_cached_alike(c, c.plan_of(df))

    def _tree(self, plan: Plan, through: bool) -> Node:
        c = self.c
        tree = looked_through(c, plan, self.passage) if through else tree_of(c, c.normalise(put_back(c, plan)))
        leaves = [node for node in tree.walk() if not node.children]
        if through and len(leaves) == 1 and leaves[0].kind == "LocalRelation" and is_computed_before(leaves[0].plan):
            self.passage.end("dataframe", _COMPUTED_BEFORE)
        new = unrolled(c, tree)
        # What the query reads once, a recursion reads in every round.
        self.in_rounds = new is not tree
        return new

    def _is_written_down(self) -> bool:
        return not self.passage.passed and any(n.fact is not None and not n.fact.certain for n in self.tree.walk())

    def with_tree(self, tree: Node) -> SqlLineage:
        """The lineage of the same query, the leaves of which (as many, in the same order) have other rows."""
        other = copy(self)
        leaves = [node for node in tree.walk() if not node.children]
        known = {leaf: replace(place, leaf=leaf) for leaf, place in zip(leaves, self.readings, strict=True)}
        other.tree = tree
        other._build(compute=False, known=known, built={})
        return other

    def _build(
        self,
        compute: bool,
        known: Mapping[Node, ReadingPlace] | None = None,
        built: dict[Node, Built] | None = None,
    ) -> None:
        known = {place.leaf: place for place in self._builder.readings} if known is None else known
        builder = Builder(
            *(self.c, self.tree, RULES),
            compute=compute,
            some_columns=self._some,
            known=known,
            built=self._builder.built if built is None else built,
        )
        self._root = builder.block(self.tree)
        self._builder = builder
        self._complete = not builder.deferred

    @property
    def root(self) -> Block:
        if not self._complete:
            with self.c.quietly():
                self._build(compute=True)
        return self._root

    @property
    def places(self) -> tuple[Place, ...]:
        _ = self.root
        return tuple(self._builder.places)

    @property
    def frozen(self) -> tuple[Place, ...]:
        """Operators that cannot be run again on a part of their rows."""
        _ = self.root
        return tuple(place for place in self._builder.places if place.node in self._builder.frozen and not place.barren)

    @property
    def counting(self) -> tuple[Place, ...]:
        """Operators that would count otherwise on the witnesses alone, since they count rows that are none."""
        _ = self.root
        return tuple(place for place in self._builder.places if place.node.counts_others and not place.barren)

    @property
    def paired(self) -> tuple[Place, ...]:
        """Operators that hold one row for several captured writes: each of these has its own witnesses."""
        return tuple(place for place in self._builder.places if takes_parameters(place.node) and not place.barren)

    @property
    def readings(self) -> tuple[ReadingPlace, ...]:
        return tuple(self._builder.readings)

    @property
    def exactness(self) -> Exactness:
        _ = self.root
        notes = (*self._moments, *self._builder.notes)
        return Exactness(tuple(dict.fromkeys(notes))) if notes else EXACT

    @property
    def wavering(self) -> Mapping[int, Wavering]:
        """The result's columns, by position, that the same rows may give another value of each time."""
        return self._builder.wavering.columns

    @property
    def moments(self) -> tuple[str, ...]:
        """What the query says of the moment in which it runs."""
        return tuple(self._moments)

    @property
    def reruns(self) -> tuple[str, ...]:
        """The user's functions in the query: whatever is not written down is computed again by a question."""

        def visit(node: Node) -> Iterator[str]:
            if node.fact is not None and not node.fact.certain:
                return
            yield from self.c.user_functions(node.plan) if node.kind not in ("Given", "Settled") else ()
            for below in (*node.children, *node.subqueries.values()):
                yield from visit(below)

        hidden = any(node.kind in ("Generate", "Given", "Settled") for node in self.tree.walk())
        if not hidden and not self.c.has_user_functions(self.tree.plan):
            return ()
        return tuple(dict.fromkeys(visit(self.tree)))

    @property
    def some_columns(self) -> bool:
        """Whether it is about some columns of the rows."""
        return self._some

    @property
    def narrowed(self) -> bool:
        """Whether appends are left out that the query's rows do not come from."""
        return self.passage.narrowed

    @once
    def whole(self) -> SqlLineage:
        """The same with every append, for what is not about the query's rows alone."""
        return SqlLineage(self.c, self.given, columns=self.given.columns if self._some else None, alike=self.alike)

    @once
    def one_by_one(self) -> SqlLineage:
        """The same with every append opened by itself."""
        some = self.given.columns if self._some else None
        return SqlLineage(self.c, self.given, columns=some, all_rows=self._all_rows, alike=False)

    def given_by(self, query: Plan) -> DataFrame:
        """The rows that the query of a captured write gives; what is written down of it is taken from there."""
        return self.c.frame(settle(self.c, tree_of(self.c, self.c.normalise(query))).plan)

    def require_unchanged(self) -> None:
        leaves = {id(of_files(reading.leaf.plan)): reading.leaf for reading in reversed(self._builder.readings)}
        for leaf in leaves.values():
            require_unchanged(self.c, leaf, self._made)
        for leaf in self.passage.followed:
            require_unchanged(self.c, leaf, self._made, followed=True)


def _only(df: DataFrame, columns: Sequence[str]) -> DataFrame:
    if isinstance(columns, str):
        raise WhenceError(f"columns is a list of names, as in columns=[{columns!r}].")
    if not isinstance(columns, Collection) or not all(isinstance(name, str) for name in columns):
        raise WhenceError(f"columns is a list of names, not {columns!r}.")
    for name in columns:
        if df.columns.count(name) != 1:
            what = "no column" if name not in df.columns else "several columns"
            raise WhenceError(f"The rows have {what} {name!r}; their columns are {', '.join(df.columns)}.")
    if not columns:
        raise WhenceError("columns names no column; leave it out to ask about whole rows.")
    return df.select(*["`" + name.replace("`", "``") + "`" for name in columns])


def _unobserved(c: Catalyst, df: DataFrame) -> DataFrame:
    """What the query gathers on the side (`df.observe`) is for the user's own run of it: a question reports nothing."""

    def bare(node: Node) -> Plan | None:
        return rebuild(c, node.children[0], bare) if node.kind == "CollectMetrics" else None

    return c.frame(rebuild(c, tree_of(c, c.plan_of(df)), bare))
