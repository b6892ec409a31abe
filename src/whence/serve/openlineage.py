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
    Change,
    ColumnEdge,
    ColumnLink,
    DatasetVersion,
    Edge,
    Link,
    Observation,
    Seen,
)
from whence.model.redact import redact
from whence.store.catalog import Catalog
from whence.version import __version__

PRODUCER = f"https://pypi.org/project/whence/{__version__}"
NAMESPACE = "whence"

_LIFECYCLE = {
    "overwrite": "OVERWRITE",
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
        self._edges: list[Edge] = [e for e in catalog.edges(run=run) if isinstance(e, Edge)]
        self._columns = [e for e in catalog.edges("column", run=run, expand=False) if isinstance(e, ColumnEdge)]

    def event(self, state: Any, at: datetime, full: bool) -> Any:
        from openlineage.client import event_v2 as ol

        inputs = {e.source: e.source_version for e in self._edges}
        outputs = {e.target: e.target_version for e in self._edges if e.target.kind != "application"}
        changed = {v.dataset: v for v in self._catalog.changed_by(self._run)}
        outputs.update({d: v.number for d, v in changed.items() if v.how != "seen"})
        return ol.RunEvent(
            eventTime=at.isoformat(),
            eventType=state,
            run=ol.Run(runId=run_uuid(self._run.id), facets=self._run_facets()),
            job=ol.Job(namespace=self._namespace, name=self._job_name(outputs), facets=self._job_facets()),
            inputs=[ol.InputDataset(namespace=d.namespace, name=d.name, facets=self._facets(d, None)) for d in inputs]
            if full
            else [],
            outputs=[
                ol.OutputDataset(
                    namespace=d.namespace, name=d.name, facets={**self._facets(d, changed.get(d)), **self._lineage(d)}
                )
                for d in outputs
            ]
            if full
            else [],
            producer=PRODUCER,
        )

    def _job_name(self, outputs: Mapping[Dataset, int]) -> str:
        what = str(self._run.details.get("command") or self._run.details.get("action") or self._run.kind)
        what = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", what.removesuffix("Command")).lower()
        target = next(iter(outputs), None)
        return f"{what}.{target.name.strip('/').replace('/', '_')}" if target else what

    def _run_facets(self) -> dict[str, Any]:
        from openlineage.client import facet_v2 as f

        facets: dict[str, Any] = {
            "processing_engine": f.processing_engine_run.ProcessingEngineRunFacet(
                version=__version__, name="whence", openlineageAdapterVersion=__version__
            )
        }
        if self._run.application:
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


def read(catalog: Catalog, events: Iterable[Mapping[str, Any]]) -> int:
    """Take events of other tools into the catalogue; the number of runs that were in them.

    The events of one run add up, as the specification says; inputs may come with its start and outputs with its end.
    """
    gathered: dict[str, list[Mapping[str, Any]]] = {}
    for event in events:
        run = event.get("run") or {}
        if run.get("runId") and event.get("job"):
            gathered.setdefault(str(run["runId"]), []).append(event)
    for run_id, some in gathered.items():
        catalog.record(_observation(run_id, some))
    return len(gathered)


def _observation(run_id: str, events: list[Mapping[str, Any]]) -> Observation:
    events = sorted(events, key=lambda e: str(e.get("eventTime", "")))
    datasets: dict[tuple[str, str], Mapping[str, Any]] = {}
    inputs: dict[tuple[str, str], None] = {}
    outputs: dict[tuple[str, str], None] = {}
    run_facets: dict[str, Any] = {}
    job_facets: dict[str, Any] = {}
    status = RUNNING
    for event in events:
        for key, into in (("inputs", inputs), ("outputs", outputs)):
            for dataset in event.get(key) or ():
                name = (str(dataset["namespace"]), str(dataset["name"]))
                into[name] = None
                datasets[name] = {**datasets.get(name, {}), **(dataset.get("facets") or {})}
        run_facets.update((event.get("run") or {}).get("facets") or {})
        job_facets.update((event.get("job") or {}).get("facets") or {})
        status = _STATES.get(str(event.get("eventType", "OTHER")).upper(), status)
    places = {name: place for place, name in enumerate(datasets)}
    seen = [_seen(name, facets) for name, facets in datasets.items()]
    changes, links, columns = [], [], []
    for target in outputs:
        state = str((datasets[target].get("lifecycleStateChange") or {}).get("lifecycleStateChange", ""))
        how = _CHANGES.get(state.upper(), "append")
        changes.append(Change(places[target], "overwrite" if how == "create" and inputs else how))
        links += [Link(places[source], places[target], "write") for source in inputs]
        for link in _column_links(datasets[target].get("columnLineage") or {}, places[target], places, seen):
            columns.append(link)
            if Link(link.source, link.target, "write") not in links:
                links.append(Link(link.source, link.target, "write"))
    first, last = events[0], events[-1]
    job = last["job"]
    details: dict[str, object] = {"job": f"{job.get('namespace')}/{job.get('name')}", "producer": last.get("producer")}
    if "sql" in job_facets:
        details["sql"] = job_facets["sql"].get("query")
    parent = ((run_facets.get("parent") or {}).get("job") or {}).get("name", "")
    error = (run_facets.get("errorMessage") or {}).get("message")
    run = Run(
        run_id,
        "openlineage",
        str(job.get("name", "")),
        status,
        error,
        _time(first.get("eventTime")),
        None if status == RUNNING else _time(last.get("eventTime")),
        str(parent),
        details,
    )
    return Observation(run, tuple(seen), tuple(changes), tuple(links), tuple(dict.fromkeys(columns)))


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
