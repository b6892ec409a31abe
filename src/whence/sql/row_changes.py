"""UPDATE, DELETE and MERGE as queries: what a table holds afterwards, from what it held before.

A row that is kept or changed comes from its former self, a changed one also from the row of the source that changed it;
a row that only stood in the same file as a changed one comes from itself alone, whatever the source holds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from pyspark.errors import AnalysisException

from whence.spark.lake_columns import computed, filled_in, generated, numbered
from whence.sql.catalyst import Attr, Catalyst, Expr, Plan, class_name
from whence.sql.tree import Node

_KINDS = {"UpdateTable": "update", "DeleteFromTable": "delete", "MergeIntoTable": "merge"}
# The table as it was, where it only decides which rows of a MERGE's source are new: nobody's witness.
AS_IT_WAS = "__whence_as_it_was"
# Rows of a table that only tell how it numbered them (numbered_rows.py): nobody's witnesses either.
AS_NUMBERED = "__whence_as_numbered"
_MATCHED = "__whence_matched"
# A column as it is named, by its parts, and what it becomes.
Set = tuple[Sequence[str], Expr]


class NotFollowed(Exception):
    """Says why, as the end of a sentence."""


def is_as_it_was(node: Node) -> bool:
    return node.kind == "SubqueryAlias" and str(node.plan.identifier().name()) == AS_IT_WAS


def is_no_witness(node: Node) -> bool:
    """Whether what stands below is read to tell something of other rows alone."""
    return node.kind == "SubqueryAlias" and str(node.plan.identifier().name()) in (AS_IT_WAS, AS_NUMBERED)


@dataclass(frozen=True, eq=False)
class Change:
    """`leaf` reads the table as it is before the command runs; `after` is the query for what it holds afterwards.

    `numbered`: columns that new rows have from the table, which numbers them; NULL in the query."""

    operation: str
    leaf: Plan
    after: Plan | None
    why: str | None = None
    numbered: tuple[str, ...] = ()


def table_leaf(c: Catalyst, name: str) -> Plan | None:
    """What reads a table, if it is one that keeps versions."""
    try:
        plan = c.plan_of(c.spark.table(name))
    except AnalysisException:
        return None
    leaf = _leaf(c, plan)
    return leaf if leaf is not None and c.version_of(leaf) is not None else None


def _leaf(c: Catalyst, plan: Plan) -> Plan | None:
    while class_name(plan) == "SubqueryAlias":
        plan = plan.child()
    return None if c.children(plan) else plan


@dataclass(frozen=True, eq=False)
class Clause:
    """THEN UPDATE, INSERT or DELETE. `sets`: the columns, as their names are written, and what they become; None where
    all columns become what the source has of the same names."""

    condition: Expr | None
    sets: Sequence[Set] | None = None
    deletes: bool = False


@dataclass(frozen=True, eq=False)
class Delete:
    condition: Expr


@dataclass(frozen=True, eq=False)
class Update:
    condition: Expr | None
    sets: Sequence[Set]


@dataclass(frozen=True, eq=False)
class Merge:
    """Clauses for rows that match, for rows of the source that match none, and for rows that match none of these."""

    source: Plan
    condition: Expr
    matched: Sequence[Clause]
    not_matched: Sequence[Clause]
    not_matched_by_source: Sequence[Clause]
    evolves: bool = False


Command = Delete | Update | Merge


def change_of(c: Catalyst, text: str) -> Change | None:
    """What a SQL text will do to a table that keeps versions; None if it does none of this."""
    plan = c.parsed(text)
    operation = _KINDS.get(class_name(plan))
    if operation is None:
        return None
    unresolved = plan.targetTable() if operation == "merge" else plan.table()
    aliases: list[Plan] = []
    while class_name(unresolved) == "SubqueryAlias":
        aliases.append(unresolved)
        unresolved = unresolved.child()
    if class_name(unresolved) != "UnresolvedRelation":
        return None
    parts = [str(part) for part in c.items(unresolved.multipartIdentifier())]
    name = quoted(parts)
    leaf = table_leaf(c, name)
    if leaf is None:
        return None
    return change_by(c, leaf, c.plan_of(c.spark.table(name)), parts, aliases, operation, lambda: _said(c, plan))


def quoted(parts: Sequence[str]) -> str:
    return ".".join(f"`{part.replace('`', '``')}`" for part in parts)


def change_by(
    c: Catalyst,
    leaf: Plan,
    target: Plan,
    parts: Sequence[str],
    aliases: Sequence[Plan],
    operation: str,
    said: Callable[[], Command],
) -> Change:
    """What a command will do to a table that `target` reads by way of `leaf`. `parts` is its name, `aliases` are
    what it is called in the command, the outermost first."""
    for alias in reversed(aliases):
        target = c.copy(alias, child=target)
    making = _Making(c, target, parts, {str(alias.identifier().name()).lower() for alias in aliases})
    try:
        after = c.plan_of(c.frame(making.after(said())))
        return Change(operation, leaf, after, numbered=tuple(sorted(making.left_to_table)))
    except NotFollowed as why:
        return Change(operation, leaf, None, str(why))
    except AnalysisException as problem:  # the command will say it, or it says more than a query can
        told = str(problem).split(" SQLSTATE")[0].splitlines()[0]
        return Change(operation, leaf, None, f"what its {operation.upper()} does cannot be told as a query ({told})")


def _said(c: Catalyst, plan: Plan) -> Command:
    """What the parser made of an UPDATE, a DELETE or a MERGE."""
    kind = class_name(plan)
    if kind == "DeleteFromTable":
        return Delete(plan.condition())
    if kind == "UpdateTable":
        return Update(_given(plan.condition()), _sets(c, plan.assignments()))
    return Merge(
        plan.sourceTable(),
        plan.mergeCondition(),
        clauses_of(c, plan.matchedActions()),
        clauses_of(c, plan.notMatchedActions()),
        clauses_of(c, plan.notMatchedBySourceActions()),
        evolves="withSchemaEvolution" in c.fields(plan) and bool(plan.withSchemaEvolution()),
    )


def clauses_of(c: Catalyst, actions: Any) -> list[Clause]:
    found = []
    for action in c.items(actions):
        kind, condition = class_name(action), _given(action.condition())
        if kind == "DeleteAction":
            found.append(Clause(condition, deletes=True))
        elif kind in ("UpdateStarAction", "InsertStarAction"):
            found.append(Clause(condition))
        elif kind in ("UpdateAction", "InsertAction"):
            found.append(Clause(condition, _sets(c, action.assignments())))
        else:
            raise NotFollowed(f"its MERGE has a {kind}")
    return found


def _given(option: Any) -> Expr | None:
    return option.get() if option.isDefined() else None


def _sets(c: Catalyst, assignments: Any) -> list[Set]:
    return [([str(part) for part in c.items(one.key().nameParts())], one.value()) for one in c.items(assignments)]


@dataclass(frozen=True, eq=False)
class _Clause:
    """WHEN ... THEN: `values` by column, as they become; None where the row is deleted."""

    condition: Expr | None
    values: dict[str, Expr] | None


@dataclass(frozen=True, eq=False)
class _Making:
    c: Catalyst
    target: Plan
    parts: Sequence[str]
    aliases: set[str]
    # Columns by which the table numbers its rows, where new rows have no value of their own for them.
    left_to_table: set[str] = field(default_factory=set)

    @property
    def columns(self) -> list[Attr]:
        return self.c.output(self.target)

    def after(self, command: Command) -> Plan:
        if isinstance(command, Delete):
            return self.c.filter(self.c.negation(self._holds(command.condition)), self.target)
        return self.update(command) if isinstance(command, Update) else self.merge(command)

    def update(self, said: Update) -> Plan:
        c = self.c
        values = self._moved(self._assigned(said.sets))
        condition = said.condition
        if condition is None:
            return c.project(self._shown(lambda a: values.get(str(a.name()).lower(), a)), self.target)
        if c.has_subquery(condition):  # each row once, but in two branches: a subquery stands in a filter
            changed = c.project(
                self._shown(lambda a: values.get(str(a.name()).lower(), a)), c.filter(condition, self.target)
            )
            others = c.filter(c.negation(self._holds(condition)), self.target)
            return self._together([changed, c.project(self._shown(lambda a: a), others)])

        def value(attr: Attr) -> Expr:
            new = values.get(str(attr.name()).lower())
            return attr if new is None else c.expression("If", self._holds(condition), self._cast(new, attr), attr)

        return c.project(self._shown(value), self.target)

    def merge(self, said: Merge) -> Plan:
        if said.evolves:
            raise NotFollowed("its MERGE changed the table's columns")
        parts = self._kept(said)
        if said.not_matched:
            parts.append(self._inserted(said))
        return self._together(parts)

    def _together(self, parts: Sequence[Plan]) -> Plan:
        # Each by itself: the analyzer gives what is read twice in one query other attributes.
        whole = [self.c.plan_of(self.c.frame(part)) for part in parts]
        return whole[0] if len(whole) == 1 else self.c.union(whole)

    # --- what a MERGE consists of

    def _source(self, unresolved: Plan) -> tuple[Plan, dict[str, Expr]]:
        """The source with a mark, and its columns by name, under attributes that no other reading has."""
        c = self.c
        plan = c.plan_of(c.frame(unresolved))
        alias = plan if class_name(plan) == "SubqueryAlias" else None
        fresh = [c.alias(a, a.name()) for a in c.output(plan)]
        marked = c.project([*fresh, c.alias(c.true, _MATCHED)], plan)
        given = {str(one.name()).lower(): one.toAttribute() for one in fresh}
        return marked if alias is None else c.copy(alias, child=marked), given

    def _clause(self, said: Clause, given: dict[str, Expr]) -> _Clause:
        if said.deletes:
            return _Clause(said.condition, None)
        if said.sets is not None:
            return _Clause(said.condition, self._assigned(said.sets))
        names = [str(a.name()).lower() for a in self.columns]
        if any(name not in given for name in names):
            raise NotFollowed("its MERGE has columns that the source has not")
        return _Clause(said.condition, {name: given[name] for name in names})

    def _changing(self, said: Clause, given: dict[str, Expr]) -> _Clause:
        clause = self._clause(said, given)
        return clause if clause.values is None else replace(clause, values=self._moved(clause.values))

    def _kept(self, said: Merge) -> list[Plan]:
        """The table's own rows, each with the row of the source that changed it, if one did."""
        c = self.c
        source, given = self._source(said.source)
        matched = [self._changing(one, given) for one in said.matched]
        gone = [self._changing(one, {}) for one in said.not_matched_by_source]
        if gone:
            return self._kept_or_gone(source, said.condition, matched, gone)
        if not matched:
            return [c.project(self._shown(lambda a: a), self.target)]
        joined = c.join(self.target, source, "leftouter", self._changes(said.condition, matched))
        there = c.is_not_null(c.unresolved(_MATCHED))
        return [self._after(joined, matched, there)]

    def _changes(self, condition: Expr, clauses: Sequence[_Clause]) -> Expr:
        if any(clause.condition is None for clause in clauses):
            return condition
        some = self.c.disjunction([clause.condition for clause in clauses if clause.condition is not None])
        return self.c.conjunction([condition, some])

    def _after(self, rows: Plan, clauses: Sequence[_Clause], there: Expr | None) -> Plan:
        """These rows of the table after the first clause that applies to each, if one does."""
        c = self.c

        def applies(clause: _Clause) -> Expr:
            tests = [test for test in (there, clause.condition) if test is not None]
            return self._holds(c.conjunction(tests))

        def value(attr: Attr) -> Expr:
            found: Expr = attr
            for clause in reversed(clauses):
                new = attr if clause.values is None else clause.values.get(str(attr.name()).lower(), attr)
                found = c.expression("If", applies(clause), self._cast(new, attr), found)
            return found

        if any(clause.values is None for clause in clauses):
            deleted = c.parse("false")
            for clause in reversed(clauses):
                this = c.parse("true" if clause.values is None else "false")
                deleted = c.expression("If", applies(clause), this, deleted)
            rows = c.filter(c.negation(deleted), rows)
        return c.project(self._shown(value), rows)

    def _kept_or_gone(
        self, source: Plan, condition: Expr, matched: Sequence[_Clause], gone: Sequence[_Clause]
    ) -> list[Plan]:
        """With WHEN NOT MATCHED BY SOURCE a row that is left alone is so thanks to its match in the source."""
        c = self.c
        parts: list[Plan] = []
        rest = self.target
        if matched:
            changes = self._changes(condition, matched)
            parts.append(self._after(c.join(self.target, source, "inner", changes), matched, None))
            rest = c.join(self.target, source, "leftanti", changes)
        if any(clause.condition is not None for clause in matched) or not matched:
            parts.append(c.project(self._shown(lambda a: a), c.join(rest, source, "leftsemi", condition)))
        parts.append(self._after(c.join(self.target, source, "leftanti", condition), gone, None))
        return parts

    def _inserted(self, said: Merge) -> Plan:
        """Rows of the source that met none of the table's."""
        c = self.c
        source, given = self._source(said.source)
        clauses = [self._clause(one, given) for one in said.not_matched]
        own_values = {name.lower() for name in filled_in(c, self._leaf)}
        by_number = {name.lower() for name in numbered(c, self._leaf)}
        there = c.join(source, self._as_it_was(self.target), "leftanti", said.condition)

        def value(attr: Attr) -> Expr:
            found = c.null(attr)
            name = str(attr.name()).lower()
            for clause in reversed(clauses):
                assert clause.values is not None
                own = clause.values.get(name, self._computed_of_new(name, clause.values))
                if own is None and name in by_number:
                    self.left_to_table.add(str(attr.name()))
                elif own is None and name in own_values:
                    raise NotFollowed(f"its column {attr.name()} was filled in by the table")
                new = self._cast(c.null(attr) if own is None else own, attr)
                found = (
                    new if clause.condition is None else c.expression("If", self._holds(clause.condition), new, found)
                )
            return found

        if all(clause.condition is not None for clause in clauses):
            some = c.disjunction([clause.condition for clause in clauses if clause.condition is not None])
            there = c.filter(some, there)
        return c.project(self._shown(value), there)

    def _as_it_was(self, plan: Plan) -> Plan:
        if class_name(plan) == "SubqueryAlias":
            return self.c.copy(plan, child=self._as_it_was(plan.child()))
        return self.c.subquery_alias(AS_IT_WAS, plan)

    # --- columns that the table computes

    @property
    def _leaf(self) -> Plan:
        leaf = _leaf(self.c, self.target)
        assert leaf is not None
        return leaf

    @cached_property
    def _generated(self) -> dict[str, str]:
        return {name.lower(): text for name, text in generated(self.c, self._leaf).items()}

    def _moved(self, values: dict[str, Expr]) -> dict[str, Expr]:
        """With these values for a row's columns, also what the table then computes of them."""
        attrs = {str(a.name()).lower(): a for a in self.columns}
        found = dict(values)
        for name, text in self._generated.items():
            new = self._computed(text, lambda of: values.get(of, attrs.get(of)))
            if name not in values and new is not None:
                found[name] = new
        return found

    def _computed_of_new(self, name: str, values: dict[str, Expr]) -> Expr | None:
        """What the table computes as this column of a row that it has not had; None if it does not."""
        text = self._generated.get(name)
        nulls = {str(a.name()).lower(): self.c.null(a) for a in self.columns}
        return None if text is None else self._computed(text, lambda of: values.get(of, nulls.get(of)))

    def _computed(self, text: str, value: Callable[[str], Expr | None]) -> Expr | None:
        attrs = {str(a.name()).lower(): a for a in self.columns}

        def column(name: str) -> Expr | None:
            found = value(name.lower())
            return None if found is None else self._cast(found, attrs[name.lower()])

        return computed(self.c, text, column)

    # --- expressions

    def _holds(self, condition: Expr) -> Expr:
        """True or false, never NULL."""
        return self.c.expression("EqualNullSafe", condition, self.c.true)

    def _cast(self, value: Expr, attr: Attr) -> Expr:
        return value if value is attr else self.c.cast(value, attr)

    def _shown(self, value: Callable[[Attr], Expr]) -> list[Expr]:
        return [self.c.alias(self._cast(value(attr), attr), attr.name()) for attr in self.columns]

    def _assigned(self, sets: Sequence[Set]) -> dict[str, Expr]:
        """The new values by column. Of `a.b.c` the first parts may name the table."""
        found: dict[str, Expr] = {}
        names = {str(a.name()).lower() for a in self.columns}
        for parts, value in sets:
            ahead = [part.lower() for part in parts[:-1]]
            own = [part.lower() for part in self.parts]
            of_table = not ahead or (len(ahead) == 1 and ahead[0] in self.aliases) or own[-len(ahead) :] == ahead
            if not of_table or parts[-1].lower() not in names:
                raise NotFollowed(f"it sets a field inside of a column ({'.'.join(parts)})")
            found[parts[-1].lower()] = value
        return found
