"""Plans that differ in nothing but constants, as one plan with parameters: the driver's half of Alike.java."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError

from whence.spark.allowed import CLASSES
from whence.spark.catalyst import Attr, Catalyst, Plan
from whence.spark.janino import object_of

# A table of parameters has the number of the plan in front.
PLAN = "__whence_plan"
# Each plan is compared with the first of every group until it meets its own.
_MOST_GROUPS = 20


@dataclass(frozen=True, eq=False)
class Alike:
    """`members`: which plans these are. `template`: the plan of all of them, with an attribute of `parameters` for each
    constant in which they differ; `parameters` has a row for each."""

    members: Sequence[int]
    template: Plan
    parameters: Plan

    def columns(self, c: Catalyst) -> list[Attr]:
        """Those of `parameters` that stand for constants."""
        return c.output(self.parameters)[1:]


def alike(c: Catalyst, contents: Sequence[bytes], least: int) -> list[Alike]:
    """Plans as bytes, which must be known to be ours, by their form: of each that `least` of them have, one plan.

    What cannot be read, or has no plan for all of its form, is in none."""
    try:
        reader = object_of(c.spark, "Alike")
        told = str(
            reader.read(bytearray().join(contents), " ".join(str(len(one)) for one in contents), CLASSES, _MOST_GROUPS)
        )
    except (Py4JError, Py4JJavaError):  # whoever opens them one by one says which of them, and why
        return []
    return _by_form(c, reader, told, least)


def alike_here(c: Catalyst, plans: Sequence[Plan], least: int) -> list[Alike]:
    """The same of plans of this session, which read the same."""
    try:
        reader = object_of(c.spark, "Alike")
        told = str(reader.group(c.seq(plans), _MOST_GROUPS))
    except Py4JError:
        return []
    return _by_form(c, reader, told, least)


def _by_form(c: Catalyst, reader: Any, told: str, least: int) -> list[Alike]:
    by_form: dict[int, list[int]] = {}
    for number, form in enumerate(told.split(" ")):
        by_form.setdefault(int(form), []).append(number)
    found = [_one(c, reader, form, numbers) for form, numbers in by_form.items() if form >= 0 and len(numbers) >= least]
    return [one for one in found if one is not None]


def _one(c: Catalyst, reader: Any, form: int, members: Sequence[int]) -> Alike | None:
    constants = [reader.constant(form, at) for at in range(reader.columns(form))]
    named = [c.alias(constant, f"parameter_{n}").toAttribute() for n, constant in enumerate(constants, 1)]
    columns = [attr.withNullability(True) for attr in named]
    number = c.alias(c.long(0), PLAN).toAttribute()
    try:
        template = reader.template(form, c.seq(columns))
        if not template.resolved():  # an argument that must be a constant
            return None
    except Py4JJavaError:
        return None
    return Alike(members, template, c.local_table([number, *columns], reader.rows(form)))
