"""What is answered, for the description of the API (OpenAPI); the answers themselves are made in answers/."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict

T = TypeVar("T")


class Shape(BaseModel):
    model_config = ConfigDict(extra="forbid")


class ParameterError(Shape):
    parameter: str
    detail: str


class Name(Shape):
    namespace: str
    name: str


class ProblemShape(Shape):
    """RFC 9457. `errors` on 422, `candidates` on 409."""

    type: str
    title: str
    status: int
    detail: str
    errors: list[ParameterError] = []
    candidates: list[Name] = []


class MaskedRef(Shape):
    id: str
    masked: Literal[True]


class Ref(Shape):
    id: str
    namespace: str
    name: str
    kind: str


class ColumnShape(Shape):
    name: str
    type: str


class DatasetShape(Ref):
    version: int
    created: datetime | None
    dropped: datetime | None
    columns: list[ColumnShape]


class DatasetAlone(DatasetShape):
    aliases: list[Name]


class Items(Shape, Generic[T]):
    items: list[T]
    next: str | None


class VersionShape(Shape):
    number: int
    how: str
    at: datetime
    run: str | None
    external: str | None
    columns: list[ColumnShape]


class MaskedRun(Shape):
    id: str
    kind: str
    status: str
    started: datetime | None
    ended: datetime | None
    inputs: list[Ref | MaskedRef]
    outputs: list[Ref | MaskedRef]
    masked: Literal[True]


class RunShape(Shape):
    id: str
    kind: str
    name: str
    status: str
    error: str | None
    started: datetime | None
    ended: datetime | None
    application: str
    details: dict[str, Any]
    inputs: list[Ref | MaskedRef]
    outputs: list[Ref | MaskedRef]


class OperatorShape(Shape):
    id: str
    name: str
    kind: str
    inside: str | None
    inputs: list[str]
    strategy: str | None
    details: dict[str, Any]


class RunAlone(RunShape):
    operators: list[OperatorShape]


class MaskedNode(MaskedRef):
    depth: int


class NodeShape(Ref):
    depth: int
    dropped: datetime | None
    failed: str | None


class ColumnNode(NodeShape):
    columns: list[str]


class EdgeShape(Shape):
    source: str
    target: str
    kind: str
    run: str
    at: datetime
    depth: int


class ColumnEdgeShape(EdgeShape):
    source_column: str | None
    target_column: str | None
    subtype: str
    masking: bool


class LineageShape(Shape):
    root: str
    nodes: list[NodeShape | ColumnNode | MaskedNode]
    edges: list[EdgeShape | ColumnEdgeShape]
    truncated: bool


class DiffShape(Shape):
    nodes: list[NodeShape | ColumnNode | MaskedNode]
    added: list[EdgeShape | ColumnEdgeShape]
    removed: list[EdgeShape | ColumnEdgeShape]
    changed: list[EdgeShape | ColumnEdgeShape]


class ImpactItem(Shape):
    degree: int
    dataset: Ref | MaskedRef
    columns: list[str] | None = None


class FoundRun(Shape):
    id: str
    name: str
    status: str


class SearchItem(Shape):
    type: Literal["dataset", "column", "run"]
    dataset: Ref | None
    column: str | None
    run: FoundRun | None


class HealthShape(Shape):
    status: Literal["ok"]
    version: str
