"""The models that gave columns of rows, and what they were trained on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame

from whence.model.flow import Framed, Records
from whence.sql.trained import UntoldTraining, attributes_of

if TYPE_CHECKING:
    from whence.sql.catalyst import Catalyst


def models_behind(
    c: Catalyst, known: Mapping[int, Any], asked: Records, trained_on: Callable[[str], DataFrame | None]
) -> dict[str, DataFrame]:
    """By name, the rows that each was trained on. `known`: trainings by the attributes that their models gave."""
    numbers = attributes_of(c, asked.frame()) if isinstance(asked, Framed) else set()
    found: dict[str, DataFrame] = {}
    for training in dict.fromkeys(known[number] for number in sorted(numbers) if number in known):
        name = training.path or training.model
        while name in found:
            name += "'"
        rows = training.frame
        if rows is None and training.path is not None:
            rows = trained_on(training.path)
        if rows is None:
            raise UntoldTraining(name, "it was trained where whence was not attached, or with another store")
        found[name] = rows
    return found
