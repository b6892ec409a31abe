"""A DataFrame's query as text: the SQL that it was made from, and what was put on top of it.

Spark keeps with every operator the statement that it was parsed from, and where it stands in there. So the text is the
user's own, and the tables in it can be exchanged for views of other names at the very places where they are named."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from whence.model import WhenceError
from whence.spark.texts import is_table_name, parsed_query, plain_sql, span, sql_text, tables_in, view_name, view_text
from whence.sql.catalyst import Catalyst, Plan, class_name
from whence.sql.sources import SCANS, dataset_of
from whence.sql.tree import Node

# They choose or sort among the rows that are there: of the asked rows' witnesses alone nothing is left to choose.
_LEFT_OUT = ("SubqueryAlias", "Sort", "GlobalLimit", "LocalLimit", "ResolvedHint")
# Part of the statement itself: VALUES and range().
_IN_THE_TEXT = ("LocalRelation", "Range", "OneRowRelation")


class NoText(WhenceError):
    """Why a query cannot be told as SQL text."""


@dataclass(frozen=True)
class Statement:
    """`steps`: methods of the DataFrame that the text gives, each with its arguments; `columns`: its new names."""

    text: str
    steps: tuple[tuple[str, tuple[str, ...]], ...] = ()
    columns: tuple[str, ...] = ()


@dataclass(eq=False)
class QueryText:
    """`views`: by the names that the text has for them, those that come first needed by the later ones.
    `sources`: the names of sources that are read, each under its own name."""

    statement: Statement
    views: dict[str, Statement] = field(default_factory=dict)
    sources: set[str] = field(default_factory=set)


def query_text(c: Catalyst, plan: Plan, names: Mapping[str, str]) -> QueryText:
    """`names`: the name of each source, by the key of its dataset."""
    writing = _Writing(c, names)
    return QueryText(writing.statement(plan), writing.views, writing.sources)


class _Writing:
    def __init__(self, c: Catalyst, names: Mapping[str, str]) -> None:
        self._c = c
        self._names = names
        self.views: dict[str, Statement] = {}
        self.sources: set[str] = set()
        self._known: dict[str, str] = {}  # view texts that have a name already

    def statement(self, plan: Plan) -> Statement:
        steps: list[tuple[str, tuple[str, ...]]] = []
        node = plan
        ctes: list[Plan] = []  # Spark moves the WITH of a statement above whatever is put on top of it
        while (text := sql_text(node)) is None:
            kind = class_name(node)
            if kind == "WithCTE":
                ctes.append(node)
                node = node.plan()
                continue
            if kind == "View" or kind in SCANS:
                return Statement(f"SELECT * FROM {self._reference(node)}", tuple(reversed(steps)))
            if kind == "Filter":
                steps.append(("where", (plain_sql(self._c, node.condition()),)))
            elif kind == "Project":
                steps.append(("selectExpr", tuple(self._column(e) for e in self._c.items(node.projectList()))))
            elif kind not in _LEFT_OUT:
                raise NoText(f"its {kind} was made by DataFrame operations, not by SQL")
            (node,) = self._c.children(node)
        for cte in ctes:
            node = self._c.copy(cte, plan=node)
        again = parsed_query(self._c, text)
        if again is None:
            raise NoText("its SQL is no query of its own: it has parameters, or names that are gone by now")
        if not self._c.normalise(node).sameResult(self._c.normalise(again)):
            raise NoText("its SQL text alone means another query by now")
        return Statement(self._rewritten(text, node), tuple(reversed(steps)))

    def _column(self, expr: Plan) -> str:
        text = plain_sql(self._c, expr.child()) if class_name(expr) == "Alias" else plain_sql(self._c, expr)
        return f"{text} AS {_quoted(str(expr.name()))}"

    def _rewritten(self, text: str, plan: Plan) -> str:
        """The statement with every table and view in it under the name that it has here."""
        names: dict[tuple[str, ...], str] = {}
        for node, at in self._references(text, plan):
            names[tuple(self._c.name_parts(text[slice(*at)]))] = self._reference(node)
        found = text
        for parts, (first, last) in sorted(tables_in(self._c, text), key=lambda told: told[1], reverse=True):
            name = names.get(parts)
            if name is not None and not _means(text[first:last], name):
                found = found[:first] + name + found[last:]
        return found.strip()

    def _references(
        self, text: str, plan: Plan, above: tuple[tuple[int, int], ...] = ()
    ) -> Iterator[tuple[Plan, tuple[int, int]]]:
        """What is read, and where the text names it. `above`: the places of the names that stand right above it.

        Spark keeps the relations of tables, with the places that they had when first read, and gives those of
        subqueries the places of the expressions around them: only a name is a place to be taken."""
        own = span(plan) if sql_text(plan) == text else None
        places = above if own is None else (own, *above)
        if class_name(plan) == "View" or class_name(plan) in SCANS:
            names = [at for at in places if is_table_name(self._c, text[slice(*at)])]
            if not names and class_name(plan) not in _IN_THE_TEXT:
                raise NoText("it reads a table at a place that its SQL text does not tell")
            if names:
                yield plan, names[0]
            return
        subqueries = [subquery.plan() for subquery in self._c.subqueries(plan)]
        for below in (*self._c.children(plan), *subqueries):
            yield from self._references(text, below, places if class_name(plan) == "SubqueryAlias" else ())

    def _reference(self, node: Plan) -> str:
        """The name here of a table, a view or a path, quoted."""
        source = self._source(node)
        if source is not None:
            self.sources.add(source)
            return _quoted(source)
        if class_name(node) != "View":
            raise NoText("it reads something that is no source of the trace, such as what was checkpointed")
        name = view_name(node)
        text = view_text(node)
        child = node.child()
        key = f"{name}: {text if text is not None else child.semanticHash()}"
        if key not in self._known:
            made = self.statement(child) if text is None else Statement(self._rewritten(text, _inside(text, child)))
            columns = tuple(str(a.name()) for a in self._c.output(node))
            while name in self.views or name in self._names.values():
                name += "_"
            self.views[name] = Statement(made.text, made.steps, columns)
            self._known[key] = name
        return _quoted(self._known[key])

    def _source(self, node: Plan) -> str | None:
        view = None
        while class_name(node) in ("View", "SubqueryAlias"):
            if class_name(node) == "View":
                view = view_name(node)
            node = node.child()
        if class_name(node) not in SCANS:
            return None
        return self._names.get(dataset_of(self._c, Node(node, class_name(node), []), view).key)


def _inside(text: str, plan: Plan) -> Plan:
    """The operators of a view's own text: those above them give its columns their types."""
    while sql_text(plan) != text and class_name(plan) == "Project":
        plan = plan.child()
    return plan


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _means(text: str, quoted: str) -> bool:
    """Whether a table is called by this name already."""
    return text in (quoted, quoted[1:-1])
