"""What is sent: read within bounds, as JSON, and checked."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

import orjson
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    StrictStr,
    TypeAdapter,
    ValidationError,
    WithJsonSchema,
)
from starlette.requests import ClientDisconnect, Request

from whence.serve.problems import Problem, invalids
from whence.serve.times import moment

MOST_BYTES = 10_000_000


async def body_of(request: Request) -> Any:
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media != "application/json":
        raise Problem(415, "The body must be application/json.")
    too_large = Problem(413, f"The body is larger than {MOST_BYTES:,} bytes.")
    told = request.headers.get("content-length", "")
    if told.isdigit() and int(told) > MOST_BYTES:
        raise too_large
    held = bytearray()
    try:
        async for chunk in request.stream():
            held += chunk
            if len(held) > MOST_BYTES:
                raise too_large
    except ClientDisconnect as error:
        raise Problem(400, "The body ended early.") from error
    try:
        return orjson.loads(bytes(held))
    except orjson.JSONDecodeError as error:
        raise Problem(400, "The body is not JSON.") from error


def checked(adapter: TypeAdapter[Any], value: Any) -> Any:
    try:
        return adapter.validate_python(value)
    except ValidationError as error:
        told = [(".".join(map(str, one["loc"])) or "body", str(one["msg"])) for one in error.errors()[:20]]
        raise invalids([(place, why.removeprefix("Value error, ")) for place, why in told]) from error


def _moment(text: str) -> str:
    return moment(text).isoformat()


def _uuid(text: str) -> str:
    if not re.fullmatch(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", text, re.ASCII):
        raise ValueError("must be a UUID")
    return text


# PostgreSQL keeps no NUL character, in SQLite it would end a text
Kept = Annotated[StrictStr, Field(pattern=r"^[^\x00]*$")]
KeptText = Annotated[StrictStr, Field(pattern=r"^[^\x00]+$", min_length=1)]
EventTime = Annotated[
    StrictStr, AfterValidator(_moment), WithJsonSchema({"type": "string", "format": "date-time"}, mode="validation")
]
RunId = Annotated[
    StrictStr, AfterValidator(_uuid), WithJsonSchema({"type": "string", "format": "uuid"}, mode="validation")
]
Count = Annotated[StrictInt, Field(ge=0, le=2**63 - 1)]


class Open(BaseModel):
    """Of OpenLineage's objects what whence reads; they may hold more."""

    model_config = ConfigDict(extra="allow")


class Transformation(Open):
    type: Literal["DIRECT", "INDIRECT"]
    subtype: Kept | None = None
    masking: StrictBool | None = None


class InputField(Open):
    namespace: KeptText
    name: KeptText
    field: KeptText
    transformations: list[Transformation] | None = None


class Fields(Open):
    inputFields: list[InputField]  # noqa: N815


class ColumnLineage(Open):
    fields: dict[KeptText, Fields] | None = None
    dataset: list[InputField] | None = None


class SchemaField(Open):
    name: KeptText
    type: Kept | None = None


class SchemaFacet(Open):
    fields: list[SchemaField] | None = None


class Identifier(Open):
    namespace: KeptText
    name: KeptText


class Symlinks(Open):
    identifiers: list[Identifier] | None = None


class VersionFacet(Open):
    datasetVersion: Kept  # noqa: N815


class Lifecycle(Open):
    lifecycleStateChange: Kept  # noqa: N815


class DatasetFacets(Open):
    # `schema` is a method of pydantic's
    columns: Annotated[SchemaFacet | None, Field(alias="schema")] = None
    symlinks: Symlinks | None = None
    version: VersionFacet | None = None
    lifecycleStateChange: Lifecycle | None = None  # noqa: N815
    columnLineage: ColumnLineage | None = None  # noqa: N815


class Statistics(Open):
    rowCount: Count | None = None  # noqa: N815
    size: Count | None = None


class InputFacets(Open):
    inputStatistics: Statistics | None = None  # noqa: N815


class OutputFacets(Open):
    outputStatistics: Statistics | None = None  # noqa: N815


class EventDataset(Open):
    namespace: KeptText
    name: KeptText
    facets: DatasetFacets | None = None


class EventInput(EventDataset):
    inputFacets: InputFacets | None = None  # noqa: N815


class EventOutput(EventDataset):
    outputFacets: OutputFacets | None = None  # noqa: N815


class ErrorMessage(Open):
    message: Kept


class ParentJob(Open):
    namespace: Kept
    name: Kept


class ParentRun(Open):
    runId: Kept  # noqa: N815


class Parent(Open):
    job: ParentJob
    run: ParentRun


class RunFacets(Open):
    parent: Parent | None = None
    errorMessage: ErrorMessage | None = None  # noqa: N815


class EventRun(Open):
    runId: RunId  # noqa: N815
    facets: RunFacets | None = None


class SqlFacet(Open):
    query: Kept


class JobFacets(Open):
    sql: SqlFacet | None = None


class EventJob(Open):
    namespace: KeptText
    name: KeptText
    facets: JobFacets | None = None


class RunEvent(Open):
    """An OpenLineage run event, spec 2-0-2."""

    eventTime: EventTime  # noqa: N815
    eventType: Literal["START", "RUNNING", "COMPLETE", "ABORT", "FAIL", "OTHER"] | None = None  # noqa: N815
    producer: Kept | None = None
    run: EventRun
    job: EventJob
    inputs: list[EventInput] | None = None
    outputs: list[EventOutput] | None = None


EVENTS: TypeAdapter[Any] = TypeAdapter(RunEvent | list[RunEvent])


def events_of(value: Any) -> list[dict[str, Any]]:
    """Run events as whence reads them, from one or a list of them."""
    found = checked(EVENTS_LIST if isinstance(value, list) else ONE_EVENT, value)
    return [one.model_dump(by_alias=True, exclude_none=True) for one in (found if isinstance(found, list) else [found])]


ONE_EVENT: TypeAdapter[Any] = TypeAdapter(RunEvent)
EVENTS_LIST: TypeAdapter[Any] = TypeAdapter(list[RunEvent])


class Closed(BaseModel):
    model_config = ConfigDict(extra="forbid")


class OtherDataset(Closed):
    namespace: KeptText | None = None
    name: KeptText


class OneDataset(Closed):
    """A question about rows of one dataset."""

    question: Literal["backward", "sample"]
    namespace: KeptText | None = None
    name: KeptText
    where: KeptText | None = None
    limit: Annotated[StrictInt, Field(ge=1, le=1000)] | None = None


class TwoDatasets(OneDataset):
    """A question about rows of one dataset on their way into another."""

    question: Literal["forward", "why_not"]  # type: ignore[assignment]
    to: OtherDataset


Asking = Annotated[OneDataset | TwoDatasets, Field(discriminator="question")]
ASKING: TypeAdapter[Any] = TypeAdapter(Asking)


class SignIn(Closed):
    token: Annotated[StrictStr, Field(min_length=1, max_length=20_000)]


SIGN_IN: TypeAdapter[Any] = TypeAdapter(SignIn)


def described(adapter: TypeAdapter[Any]) -> dict[str, Any]:
    """A request body for OpenAPI, whose schemas stand in the components."""
    schema = adapter.json_schema(ref_template="#/components/schemas/{model}")
    schema.pop("$defs", None)
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def schemas() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for adapter in (EVENTS, ASKING, SIGN_IN):
        found.update(adapter.json_schema(ref_template="#/components/schemas/{model}").get("$defs", {}))
    return found
