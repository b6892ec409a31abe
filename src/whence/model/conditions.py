"""Conditions that somebody else wrote, to be run in a user's session: comparisons of columns, and nothing more.

A SQL condition can read other tables (subqueries) and run code (`reflect`, the user's own functions). So what may stand
in one is listed here, token by token; everything else is refused.
"""

from __future__ import annotations

import re

from whence.model.errors import WhenceError

MOST_CHARACTERS = 10_000
FUNCTIONS = frozenset(
    [
        "abs", "array_contains", "bigint", "boolean", "cast", "ceil", "ceiling", "coalesce", "concat",
        "contains", "date", "date_add", "date_sub", "datediff", "day", "dayofmonth", "decimal", "double",
        "element_at", "endswith", "float", "floor", "get_json_object", "greatest", "hour", "if", "ifnull",
        "int", "isnan", "isnotnull", "isnull", "least", "length", "lower", "ltrim", "minute", "mod", "month",
        "nullif", "nvl", "pmod", "round", "rtrim", "second", "sign", "size", "smallint", "startswith",
        "string", "substr", "substring", "timestamp", "tinyint", "to_date", "to_timestamp", "trim",
        "try_cast", "upper", "year",
    ]
)  # fmt: skip
_BEFORE_PARENTHESIS = frozenset(
    [
        "and", "or", "not", "in", "like", "ilike", "between", "is", "case", "when", "then", "else", "end",
        "null", "true", "false", "as",
    ]
)  # fmt: skip
_FORBIDDEN = frozenset(
    [
        "select", "from", "table", "values", "with", "exists", "over", "lateral", "transform", "map",
        "reduce", "union", "intersect", "except", "join", "where", "using", "rlike", "regexp", "reflect",
        "java_method", "try_reflect",
    ]
)  # fmt: skip
_TOKEN = re.compile(
    r"""
    (?P<space>\s+)
    | (?P<text>'(?:\\.|''|[^'\\])*'|"(?:\\.|""|[^"\\])*")
    | (?P<quoted>`(?:``|[^`])*`)
    | (?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?[a-zA-Z]{0,2})
    | (?P<word>[^\W\d]\w*)
    | (?P<operator><=>|<=|>=|<>|!=|==|\|\||[=<>+\-*/%!(),.\[\]])
    """,
    re.VERBOSE | re.DOTALL,
)


class BadCondition(WhenceError):
    """A condition that is not run."""


def check_condition(text: str) -> str:
    """The condition itself, when it only compares columns."""
    if len(text) > MOST_CHARACTERS:
        raise BadCondition(f"The condition is longer than {MOST_CHARACTERS:,} characters.")
    place, before, depth = 0, ("", ""), 0
    while place < len(text):
        found = _TOKEN.match(text, place)
        if found is None:
            raise BadCondition(f"The condition holds {text[place]!r}, which may not stand in one.")
        kind, token = str(found.lastgroup), found.group()
        place = found.end()
        if kind == "space":
            continue
        if text.startswith(("--", "/*"), found.start()):
            raise BadCondition("The condition holds a comment, which may not stand in one.")
        if kind == "word" and token.lower() in _FORBIDDEN and before != ("operator", "."):
            raise BadCondition(f"The condition holds {token!r}: it may compare columns, and nothing more.")
        if token == "(":
            depth += 1
            _check_call(before)
        elif token == ")":
            depth -= 1
            if depth < 0:
                raise BadCondition("The condition has a parenthesis too many.")
        before = (kind, token)
    if depth or before == ("", ""):
        raise BadCondition("The condition is not whole.")
    return text


def _check_call(before: tuple[str, str]) -> None:
    kind, token = before
    if kind == "quoted" or (kind == "word" and token.lower() not in FUNCTIONS | _BEFORE_PARENTHESIS):
        raise BadCondition(f"The condition calls {token}; it may call {', '.join(sorted(FUNCTIONS))}.")
