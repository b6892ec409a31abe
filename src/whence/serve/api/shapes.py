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


class OtherShape(Shape):
    namespace: str | None
    name: str


class QuestionShape(Shape):
    question: Literal["backward", "forward", "why_not", "sample"]
    namespace: str | None
    name: str | None
    where: str | None
    to: OtherShape | None
    limit: int | None


class StepShape(Shape):
    number: int
    operator: str
    text: str | None
    depth: int
    rows: int | None


class SourceShape(Shape):
    number: int
    dataset: Ref | MaskedRef
    rows: int | None
    columns: list[ColumnShape]


class TraceShape(Shape):
    id: str
    name: str | None
    status: Literal["queued", "running", "done", "failed"]
    progress: float
    question: QuestionShape
    asked: datetime
    finished: datetime | None
    exact: bool | None
    notes: list[str]
    error: str | None
    steps: list[StepShape]
    sources: list[SourceShape]
    masked: Literal[True] = True


class RowsShape(Shape):
    columns: list[ColumnShape]
    items: list[list[Any]]
    next: str | None


class CauseShape(Shape):
    conditions: list[list[Any]]
    status: str
    confidence: float | None


class DiagnosisShape(Shape):
    id: str
    name: str | None
    created: datetime
    executions: int
    parameters: dict[str, list[Any]]
    causes: list[CauseShape]


class OutcomeShape(Shape):
    config: dict[str, Any]
    succeeded: bool


class AttributeShape(Shape):
    name: str
    type: str
    optional: bool
    indexed: bool
    unique: bool
    cardinality: str


class TypeShape(Shape):
    name: str
    attributes: list[AttributeShape]
    supertypes: list[str]


class EntityShape(Shape):
    type: str
    qualified_name: str
    attributes: dict[str, Any]


class AuditShape(Shape):
    at: datetime
    who: str | None
    action: str
    status: int
    target: str | None


class Accepted(Shape):
    accepted: int


class EventShape(BaseModel):
    """An OpenLineage run event, spec 2-0-2."""

    model_config = ConfigDict(extra="allow")

    eventTime: datetime  # noqa: N815
    eventType: str  # noqa: N815
    run: dict[str, Any]
    job: dict[str, Any]
    inputs: list[dict[str, Any]] = []
    outputs: list[dict[str, Any]] = []
