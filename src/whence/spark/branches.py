"""Branches of a union that may become one query over a table of their constants: the driver's half of Branches.java."""

from __future__ import annotations

from py4j.protocol import Py4JError

from whence.spark.alike import Alike, alike_here
from whence.spark.catalyst import Catalyst, Plan
from whence.spark.janino import object_of


def alike_branches(c: Catalyst, query: Plan, branches: list[Plan], least: int) -> list[tuple[Alike, Plan]]:
    """Those of a query's branches that are `least` of one form, and the plan of all of them. It asks for nothing that
    may fail on rows of which no branch asks it."""
    try:
        rules = object_of(c.spark, "Branches")
        if not rules.mayAsk(query):
            return []
        found = []
        for form in alike_here(c, branches, least):
            columns = c.seq(form.columns(c))
            if rules.mayCompute(form.template, columns):
                hinted = rules.hinted(form.template, columns, form.parameters.data())
                found += [] if hinted is None else [(form, hinted)]
        return found
    except Py4JError:
        return []
