"""OpenLineage: the catalogue's runs as events of spec 2-0-2, and events of other tools into the catalogue.

Sending goes through the official client (`pip install whence[openlineage]`), so HTTP, files and Kafka are
its transports.
"""

from __future__ import annotations

import re
import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timezone
from typing import Any

from whence.model import COMPLETED, FAILED, RUNNING, Dataset, Run
from whence.model.lineage import (
    DIRECT,
    EVERY_COLUMN,
    INPUT,
    OUTPUT,
    Change,
    ColumnEdge,
    ColumnLink,
    DatasetUse,
    DatasetVersion,
    Link,
    Observation,
    Seen,
    Use,
)
from whence.model.redact import redact
from whence.store.catalog import Catalog
from whence.version import __version__

PRODUCER = f"https://pypi.org/project/whence/{__version__}"
NAMESPACE = "whence"

_LIFECYCLE = {
    "overwrite": "OVERWRITE",
    "restore": "OVERWRITE",
    "create": "CREATE",
    "define": "CREATE",
    "drop": "DROP",
    "rename": "RENAME",
    "truncate": "TRUNCATE",
    "alter": "ALTER",
}


def emit(catalog: Catalog, client: Any, since: datetime | None = None, namespace: str = NAMESPACE) -> datetime | None:
    """Send the runs that started after `since`; the result is the `since` of the next call."""
    last = since
    for run in catalog.runs():
        if run.kind == "application" or (since is not None and run.started is not None and run.started <= since):
            continue
        for event in events_of(catalog, run, namespace):
            client.emit(event)
        if run.started is not None and (last is None or run.started > last):
            last = run.started
    return last


def events_of(catalog: Catalog, run: Run, namespace: str = NAMESPACE) -> Iterator[Any]:
    """START, and COMPLETE or FAIL with everything that is known. A run that goes on has a RUNNING event."""
    from openlineage.client import event_v2 as ol

    builder = _Builder(catalog, run, namespace)
    ends = {COMPLETED: ol.RunState.COMPLETE, FAILED: ol.RunState.FAIL, RUNNING: ol.RunState.RUNNING}
    started = run.started or run.ended or datetime.now(timezone.utc)
    yield builder.event(ol.RunState.START, started, full=False)
    yield builder.event(ends.get(run.status, ol.RunState.OTHER), run.ended or started, full=True)


def event_of(catalog: Catalog, run: Run, is_end: bool, at: datetime, namespace: str = NAMESPACE) -> dict[str, Any]:
    """One of these events as JSON has it."""
    from openlineage.client import event_v2 as ol
    from openlineage.client.serde import Serde

    ends = {COMPLETED: ol.RunState.COMPLETE, FAILED: ol.RunState.FAIL, RUNNING: ol.RunState.RUNNING}
    state = ends.get(run.status, ol.RunState.OTHER) if is_end else ol.RunState.START
    told: dict[str, Any] = Serde.to_dict(_Builder(catalog, run, namespace).event(state, at, full=is_end))
    return told


def run_uuid(run_id: str) -> str:
    try:
        return str(uuid.UUID(run_id))
    except ValueError:
        return str(uuid.uuid5(uuid.NAMESPACE_URL, f"whence:{run_id}"))


class _Builder:
    def __init__(self, catalog: Catalog, run: Run, namespace: str) -> None:
        self._catalog = catalog
        self._run = run
        self._namespace = namespace
        self._inputs = catalog.inputs(run)
        self._outputs = catalog.outputs(run)
        self._columns = [e for e in catalog.edges("column", run=run, expand=False) if isinstance(e, ColumnEdge)]

    def event(self, state: Any, at: datetime, full: bool) -> Any:
        from openlineage.client import event_v2 as ol

        changed = {v.dataset: v for v in self._catalog.changed_by(self._run)}
        return ol.RunEvent(
            eventTime=at.isoformat(),
            eventType=state,
            run=ol.Run(runId=run_uuid(self._run.id), facets=self._run_facets()),
            job=ol.Job(namespace=self._job_namespace(), name=self._job_name(), facets=self._job_facets()),
            inputs=[self._input(use) for use in self._inputs] if full else [],
            outputs=[self._output(use, changed.get(use.dataset)) for use in self._outputs] if full else [],
            producer=PRODUCER,
        )

    def _input(self, use: DatasetUse) -> Any:
        from openlineage.client import event_v2 as ol
        from openlineage.client import facet_v2 as f

        d = use.dataset
        counted: dict[str, Any] = {}
        if use.rows is not None or use.bytes is not None:
            facet = f.input_statistics_input_dataset.InputStatisticsInputDatasetFacet
            counted["inputStatistics"] = facet(rowCount=use.rows, size=use.bytes)
        return ol.InputDataset(d.namespace, d.name, inputFacets=counted, facets=self._facets(d, None))

    def _output(self, use: DatasetUse, change: DatasetVersion | None) -> Any:
        from openlineage.client import event_v2 as ol
        from openlineage.client import facet_v2 as f

        d = use.dataset
        counted: dict[str, Any] = {}
        if use.rows is not None or use.bytes is not None:
            facet = f.output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet
            counted["outputStatistics"] = facet(rowCount=use.rows, size=use.bytes)
        facets = {**self._facets(d, change), **self._lineage(d)}
        return ol.OutputDataset(d.namespace, d.name, outputFacets=counted, facets=facets)

    def _job_namespace(self) -> str:
        job = str(self._run.details.get("job") or "")
        came_in = self._run.kind == "openlineage" and job.endswith(f"/{self._run.name}")
        return job.removesuffix(f"/{self._run.name}") if came_in else self._namespace

    def _job_name(self) -> str:
        if self._run.kind == "openlineage" and self._run.name:
            return self._run.name
        what = str(self._run.details.get("command") or self._run.details.get("action") or self._run.kind)
        what = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", what.removesuffix("Command")).lower()
        target = self._outputs[0].dataset if self._outputs else None
        return f"{what}.{target.name.strip('/').replace('/', '_')}" if target else what

    def _run_facets(self) -> dict[str, Any]:
        from openlineage.client import facet_v2 as f

        facets: dict[str, Any] = {
            "processing_engine": f.processing_engine_run.ProcessingEngineRunFacet(
                version=__version__, name="whence", openlineageAdapterVersion=__version__
            )
        }
        told = self._run.details.get("parent")
        if isinstance(told, Mapping):
            facets["parent"] = f.parent_run.ParentRunFacet(
                run=f.parent_run.Run(runId=run_uuid(str(told.get("run")))),
                job=f.parent_run.Job(namespace=str(told.get("namespace")), name=str(told.get("name"))),
            )
        elif self._run.application:
            facets["parent"] = f.parent_run.ParentRunFacet(
                run=f.parent_run.Run(runId=run_uuid(self._run.application)),
                job=f.parent_run.Job(namespace=self._namespace, name=self._run.application),
            )
        if self._run.error:
            facets["errorMessage"] = f.error_message_run.ErrorMessageRunFacet(
                message=redact(self._run.error), programmingLanguage="PYTHON"
            )
        return facets

    def _job_facets(self) -> dict[str, Any]:
        from openlineage.client import facet_v2 as f

        stream = self._run.kind == "stream"
        facets: dict[str, Any] = {
            "jobType": f.job_type_job.JobTypeJobFacet(
                processingType="STREAMING" if stream else "BATCH", integration="SPARK", jobType=self._run.kind.upper()
            )
        }
        if self._run.details.get("sql"):
            facets["sql"] = f.sql_job.SQLJobFacet(query=redact(str(self._run.details["sql"])))
        return facets

    def _facets(self, dataset: Dataset, change: DatasetVersion | None) -> dict[str, Any]:
        from openlineage.client import facet_v2 as f

        facets: dict[str, Any] = {}
        columns = change.columns if change and change.columns else tuple((c, "") for c in dataset.columns)
        if columns:
            fields = [f.schema_dataset.SchemaDatasetFacetFields(name=n, type=t or None) for n, t in columns]
            facets["schema"] = f.schema_dataset.SchemaDatasetFacet(fields=fields)
        others = [a for a in self._catalog.aliases((dataset.namespace, dataset.name)) if a != tuple(dataset)]
        if others:
            kinds = [
                f.symlinks_dataset.Identifier(ns, name, "TABLE" if "/" not in name else "LOCATION")
                for ns, name in others
            ]
            facets["symlinks"] = f.symlinks_dataset.SymlinksDatasetFacet(identifiers=kinds)
        if change is not None:
            version = change.external or str(change.number)
            facets["version"] = f.dataset_version_dataset.DatasetVersionDatasetFacet(datasetVersion=version)
            if change.how in _LIFECYCLE:
                state = f.lifecycle_state_change_dataset.LifecycleStateChange[_LIFECYCLE[change.how]]
                facets["lifecycleStateChange"] = f.lifecycle_state_change_dataset.LifecycleStateChangeDatasetFacet(
                    lifecycleStateChange=state
                )
        return facets

    def _lineage(self, dataset: Dataset) -> dict[str, Any]:
        from openlineage.client.facet_v2 import column_lineage_dataset as c

        by_column: dict[str, dict[tuple[Dataset, str], list[Any]]] = defaultdict(lambda: defaultdict(list))
        for e in self._columns:
            if e.target == dataset:
                transformation = c.Transformation(type=e.kind, subtype=e.subtype, masking=e.masking, description="")
                by_column[e.target_column][(e.source, e.source_column)].append(transformation)
        if not by_column:
            return {}

        def fields(column: str) -> list[Any]:
            return [
                c.InputField(namespace=d.namespace, name=d.name, field=name, transformations=found)
                for (d, name), found in by_column[column].items()
            ]

        every = fields(EVERY_COLUMN) if EVERY_COLUMN in by_column else []
        named = {name: c.Fields(inputFields=fields(name)) for name in by_column if name != EVERY_COLUMN}
        return {"columnLineage": c.ColumnLineageDatasetFacet(fields=named, dataset=every)}


_STATES = {
    "START": RUNNING,
    "RUNNING": RUNNING,
    "COMPLETE": COMPLETED,
    "FAIL": FAILED,
    "ABORT": FAILED,
    "OTHER": RUNNING,
}
_CHANGES = {"OVERWRITE": "overwrite", "CREATE": "create", "DROP": "drop", "TRUNCATE": "truncate", "ALTER": "alter"}


_ENDS = frozenset(["COMPLETE", "FAIL", "ABORT"])


def read(catalog: Catalog, events: Iterable[Mapping[str, Any]]) -> int:
    """Take events of other tools into the catalogue; the number of runs that were in them.

    The events of one run add up, as the specification says, over any number of calls and in any order: inputs may come
    with its start and outputs with its end. The same event again changes nothing.
    """
    gathered: dict[str, list[Mapping[str, Any]]] = {}
    for event in events:
        run = event.get("run") or {}
        if run.get("runId") and event.get("job"):
            gathered.setdefault(str(run["runId"]), []).append(_needed(event))
    catalog.record_events(gathered, _observation)
    return len(gathered)


def _needed(event: Mapping[str, Any]) -> dict[str, Any]:
    """An event cut to what is read from it."""

    def facets(held: Any, *names: str) -> dict[str, Any]:
        return {name: held[name] for name in names if isinstance(held, Mapping) and held.get(name)}

    def dataset(held: Mapping[str, Any], counted: str, statistics: str) -> dict[str, Any]:
        kept = ("schema", "symlinks", "version", "lifecycleStateChange", "columnLineage")
        return {
            "namespace": held["namespace"],
            "name": held["name"],
            "facets": facets(held.get("facets"), *kept),
            "counted": facets(held.get(counted), statistics).get(statistics) or {},
        }

    run, job = event.get("run") or {}, event.get("job") or {}
    return {
        "eventTime": event.get("eventTime"),
        "eventType": str(event.get("eventType") or "OTHER").upper(),
        "producer": event.get("producer"),
        "run": {"facets": facets(run.get("facets"), "parent", "errorMessage")},
        "job": {
            "namespace": job.get("namespace"),
            "name": job.get("name"),
            "facets": facets(job.get("facets"), "sql"),
        },
        "inputs": [dataset(d, "inputFacets", "inputStatistics") for d in event.get("inputs") or ()],
        "outputs": [dataset(d, "outputFacets", "outputStatistics") for d in event.get("outputs") or ()],
    }


def _when(event: Mapping[str, Any]) -> tuple[datetime, int]:
    """Events of one moment: the start first, the end last."""
    kind = event["eventType"]
    return _time(event.get("eventTime")), 0 if kind == "START" else 2 if kind in _ENDS else 1


def _observation(run_id: str, events: list[Mapping[str, Any]]) -> Observation:
    events = sorted(events, key=_when)
    datasets: dict[tuple[str, str], dict[str, Any]] = {}
    used: dict[str, dict[tuple[str, str], dict[str, Any]]] = {"inputs": {}, "outputs": {}}
    run_facets: dict[str, Any] = {}
    job_facets: dict[str, Any] = {}
    for event in events:
        for key, into in used.items():
            for dataset in event[key]:
                name = (str(dataset["namespace"]), str(dataset["name"]))
                into.setdefault(name, {}).update(dataset["counted"])
                datasets.setdefault(name, {}).update(dataset["facets"])
        run_facets.update(event["run"]["facets"])
        job_facets.update(event["job"]["facets"])
    kinds = [event["eventType"] for event in events]
    status = next((_STATES[kind] for kind in reversed(kinds) if kind in _ENDS), RUNNING)
    places = {name: place for place, name in enumerate(datasets)}
    seen = [_seen(name, facets) for name, facets in datasets.items()]
    uses = [Use(places[name], INPUT, *_counts(held)) for name, held in used["inputs"].items()]
    uses += [Use(places[name], OUTPUT, *_counts(held)) for name, held in used["outputs"].items()]
    changes: list[Change] = []
    links: list[Link] = []
    columns: list[ColumnLink] = []
    has_begun = any(kind != "START" for kind in kinds)  # what only started has made nothing yet
    for target in used["outputs"] if has_begun else ():
        state = str((datasets[target].get("lifecycleStateChange") or {}).get("lifecycleStateChange", ""))
        how = _CHANGES.get(state.upper(), "append")
        changes.append(Change(places[target], "overwrite" if how == "create" and used["inputs"] else how))
        links += [Link(places[source], places[target], "write") for source in used["inputs"]]
        for link in _column_links(datasets[target].get("columnLineage") or {}, places[target], places, seen):
            columns.append(link)
            if Link(link.source, link.target, "write") not in links:
                links.append(Link(link.source, link.target, "write"))
    first, last = events[0], events[-1]
    job = last["job"]
    details: dict[str, object] = {"job": f"{job.get('namespace')}/{job.get('name')}", "producer": last.get("producer")}
    if "sql" in job_facets:
        details["sql"] = job_facets["sql"].get("query")
    parent = run_facets.get("parent") or {}
    started_by = parent.get("job") or {}
    if started_by.get("name"):
        details["parent"] = {
            "namespace": str(started_by.get("namespace", "")),
            "name": str(started_by["name"]),
            "run": str((parent.get("run") or {}).get("runId", "")),
        }
    run = Run(
        run_id,
        "openlineage",
        str(job.get("name") or ""),
        status,
        (run_facets.get("errorMessage") or {}).get("message"),
        _time(first.get("eventTime")),
        None if status == RUNNING else _time(last.get("eventTime")),
        str(started_by.get("name", "")),
        details,
    )
    found = tuple(dict.fromkeys(columns))
    return Observation(run, tuple(seen), tuple(changes), tuple(links), found, tuple(uses))


def _counts(held: Mapping[str, Any]) -> tuple[int | None, int | None]:
    rows, size = held.get("rowCount"), held.get("size")
    return rows if isinstance(rows, int) else None, size if isinstance(size, int) else None


def _seen(name: tuple[str, str], facets: Mapping[str, Any]) -> Seen:
    fields = (facets.get("schema") or {}).get("fields") or ()
    columns = tuple((str(f["name"]), str(f.get("type") or "")) for f in fields)
    links = (facets.get("symlinks") or {}).get("identifiers") or ()
    aliases = tuple((str(i["namespace"]), str(i["name"])) for i in links)
    kind = (
        "path" if name[1].startswith("/") or name[0] == "file" else "topic" if name[0].startswith("kafka") else "table"
    )
    version = (facets.get("version") or {}).get("datasetVersion")
    return Seen(*name, kind, columns, aliases, version)


def _column_links(
    facet: Mapping[str, Any], target: int, places: dict[tuple[str, str], int], seen: list[Seen]
) -> Iterator[ColumnLink]:
    every = [(EVERY_COLUMN, facet.get("dataset") or ())]
    named = [(name, field.get("inputFields") or ()) for name, field in (facet.get("fields") or {}).items()]
    for column, inputs in [*named, *every]:
        for given in inputs:
            name = (str(given["namespace"]), str(given["name"]))
            if name not in places:
                places[name] = len(seen)
                seen.append(_seen(name, {}))
            for found in given.get("transformations") or ({"type": DIRECT, "subtype": "TRANSFORMATION"},):
                kind = str(found.get("type") or DIRECT)
                subtype = str(found.get("subtype") or "TRANSFORMATION")
                masking = bool(found.get("masking"))
                yield ColumnLink(places[name], str(given["field"]), target, column, kind, subtype, masking)


def _time(text: object) -> datetime:
    if not text:
        return datetime.now(timezone.utc)
    found = datetime.fromisoformat(re.sub(r"(\.\d{6})\d+", r"\1", str(text)).replace("Z", "+00:00"))
    return found if found.tzinfo else found.replace(tzinfo=timezone.utc)
