"""DataFrames that a trace gives, where looking at them would run a function with an actor in it once more.

What a trace runs itself is tagged, and actors in it capture nothing (model/quiet.py); what the user runs is not. So
such rows are computed at once, and what the user gets is them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from whence.debug.guard.functions import python_functions
from whence.model.flow import Flow
from whence.sql.checkpoints import remember
from whence.sql.flow import SqlFlow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ACTORS = b"whence.actors"


def quiet(flow: Flow, rows: DataFrame) -> DataFrame:
    """`rows` that the flow's query gives; a later question about them goes on below them as before."""
    if not isinstance(flow, SqlFlow):
        return rows
    c = flow.lineage.c
    plan = c.plan_of(rows)
    if not c.has_user_functions(plan) and not flow.lineage.reruns:
        return rows
    commands = (placed.handle.command() for placed in python_functions(c, plan))
    if not any(_ACTORS in c.adapter.bytes_of(command) for command in commands):
        return rows
    with c.quietly():
        made = c.materialise(plan)
    remember(c, made, plan)
    return made
