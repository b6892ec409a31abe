"""The parameters of questions: what is not known, empty or given twice is refused, never ignored."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from whence.serve.times import moment


def _whole(value: Any) -> Any:
    if isinstance(value, str) and not re.fullmatch(r"-?[0-9]{1,18}", value, re.ASCII):
        raise ValueError("must be a whole number")
    return value


def _yes(value: Any) -> Any:
    if isinstance(value, str):
        if value not in ("true", "false"):
            raise ValueError("must be true or false")
        return value == "true"
    return value


def _moment(value: Any) -> Any:
    return moment(value) if isinstance(value, str) else value


Text = Annotated[str, Field(min_length=1)]
Page = Annotated[int, Field(ge=1, le=1000), BeforeValidator(_whole)]
Depth = Annotated[int, Field(ge=1, le=100), BeforeValidator(_whole)]
Nodes = Annotated[int, Field(ge=1, le=20_000), BeforeValidator(_whole)]
Source = Annotated[int, Field(ge=0, le=1_000_000), BeforeValidator(_whole)]
Yes = Annotated[bool, BeforeValidator(_yes)]
Time = Annotated[
    datetime, BeforeValidator(_moment), WithJsonSchema({"type": "string", "format": "date-time"}, mode="validation")
]
Level = Literal["dataset", "column"]


class Asked(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Paged(Asked):
    limit: Page = 100
    cursor: Text | None = None


class Named(Asked):
    name: Text
    namespace: Text | None = None


class DatasetsAsked(Paged):
    kind: Text | None = None
    namespace: Text | None = None
    dropped: Yes | None = None


class DatasetAsked(Named):
    as_of: Time | None = None


class VersionsAsked(Named, Paged):
    pass


class RunsAsked(Paged):
    status: Literal["completed", "failed", "running"] | None = None
    kind: Text | None = None
    application: Text | None = None
    namespace: Text | None = None
    name: Text | None = None


class LineageAsked(Named):
    direction: Literal["backward", "forward", "both"] = "backward"
    depth: Depth = 3
    level: Level = "dataset"
    column: Text | None = None
    indirect: Yes = True
    as_of: Time | None = None
    limit: Nodes = 2000


class DiffAsked(Asked):
    before: Time
    after: Time
    namespace: Text | None = None
    name: Text | None = None
    level: Level = "dataset"


class ImpactAsked(Named, Paged):
    column: Text | None = None
    as_of: Time | None = None
    depth: Depth = 100
    format: Literal["json", "csv"] = "json"


class SearchAsked(Paged):
    q: Text
    type: Literal["dataset", "column", "run"] | None = None


class RowsAsked(Paged):
    source: Source


class EntitiesAsked(Paged):
    type: Text | None = None


class EventsAsked(Paged):
    since: Time | None = None
