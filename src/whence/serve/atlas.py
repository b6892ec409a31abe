"""Apache Atlas: the catalogue as Atlas v2 entities and processes, by REST (official client) or as Kafka notifications.

`type_definitions()` is what Atlas must know first: SAC's spark_* types. The external types (fs_path, hdfs_path,
kafka_topic, hbase_table, rdbms_table, hive_table, aws_s3_*) ship with Atlas itself.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from typing import Any

from whence.model import Dataset, Run
from whence.model.lineage import ColumnEdge, Edge
from whence.model.redact import redact
from whence.model.types import BUILT_IN, Attribute
from whence.store.catalog import Catalog

HOOK_TOPIC = "ATLAS_HOOK"

_EXTERNAL = {
    "Referenceable", "Asset", "DataSet", "Process", "fs_path", "hdfs_path", "aws_s3_bucket", "aws_s3_pseudo_dir",
    "hbase_table", "kafka_topic", "rdbms_table", "hive_table",
}  # fmt: skip


def type_definitions() -> dict[str, Any]:
    return {
        "enumDefs": [],
        "structDefs": [],
        "classificationDefs": [],
        "relationshipDefs": [],
        "entityDefs": [
            {
                "name": t.name,
                "superTypes": list(t.supertypes),
                "typeVersion": "1.0",
                "serviceType": "spark",
                "attributeDefs": [_attribute(a) for a in t.attributes],
            }
            for t in BUILT_IN
            if t.name not in _EXTERNAL
        ],
    }


def _attribute(a: Attribute) -> dict[str, Any]:
    many = a.cardinality != "SINGLE"
    return {
        "name": a.name,
        "typeName": a.type,
        "cardinality": a.cardinality,
        "isIndexable": a.indexed,
        "isOptional": a.optional,
        "isUnique": a.unique,
        "valuesMinCount": 0 if a.optional else 1,
        "valuesMaxCount": 2147483647 if many else 1,
    }


def type_of(dataset: Dataset) -> str:
    if dataset.kind in ("table", "view"):
        return "hive_table" if dataset.namespace.startswith("hive://") else "spark_table"
    if dataset.kind == "path":
        if dataset.namespace.startswith("hdfs://"):
            return "hdfs_path"
        return "aws_s3_pseudo_dir" if dataset.namespace.startswith("s3://") else "fs_path"
    return {
        "database": "spark_db",
        "topic": "kafka_topic",
        "rdbms": "rdbms_table",
        "hbase": "hbase_table",
        "model": "spark_ml_model",
        "pipeline": "spark_ml_pipeline",
    }.get(dataset.kind, "fs_path")


def qualified_name(dataset: Dataset) -> str:
    """SAC's way: the name, then where it is."""
    return f"{dataset.name}@{dataset.namespace}"


def entities(catalog: Catalog, runs: Iterable[Run] | None = None) -> list[dict[str, Any]]:
    """Every dataset, its columns, and one process for each run that made something, not for the application."""
    numbers = _Guids()
    found: dict[str, dict[str, Any]] = {}
    for run in catalog.runs() if runs is None else runs:
        edges = [e for e in catalog.edges(run=run) if isinstance(e, Edge) and e.target.kind != "application"]
        if not edges:
            continue
        for dataset in {d: None for e in edges for d in (e.source, e.target)}:
            _dataset(dataset, numbers, found)
        process = _process(run, edges, numbers)
        found[process["guid"]] = process
        columns = [e for e in catalog.edges("column", run=run) if isinstance(e, ColumnEdge)]
        for entity in _column_lineage(run, columns, numbers, found):
            found[entity["guid"]] = entity
    return list(found.values())


class _Guids:
    """Atlas takes negative numbers for entities that it does not know yet."""

    def __init__(self) -> None:
        self._given: dict[tuple[str, str], str] = {}

    def of(self, type: str, name: str) -> str:
        return self._given.setdefault((type, name), str(-1 - len(self._given)))


def _reference(type: str, name: str, numbers: _Guids) -> dict[str, Any]:
    return {"guid": numbers.of(type, name), "typeName": type, "uniqueAttributes": {"qualifiedName": name}}


def _dataset(dataset: Dataset, numbers: _Guids, found: dict[str, dict[str, Any]]) -> None:
    kind, name = type_of(dataset), qualified_name(dataset)
    guid = numbers.of(kind, name)
    if guid in found:
        return
    attributes: dict[str, Any] = {"qualifiedName": name, "name": dataset.name.rpartition("/")[2] or dataset.name}
    if kind in ("fs_path", "hdfs_path"):
        attributes["path"] = dataset.name
    elif kind == "kafka_topic":
        attributes |= {"topic": dataset.name, "uri": dataset.namespace}
    elif kind == "hbase_table":
        attributes["uri"] = dataset.namespace
    elif kind == "aws_s3_pseudo_dir":
        attributes["objectPrefix"] = dataset.name
    elif kind == "spark_table":
        attributes["tableType"] = dataset.kind.upper()
        attributes["columns"] = [_reference("spark_column", f"{c}.{name}", numbers) for c in dataset.columns]
    found[guid] = {"guid": guid, "typeName": kind, "attributes": attributes}
    if kind != "spark_table":
        return
    for column in dataset.columns:
        number = numbers.of("spark_column", f"{column}.{name}")
        found[number] = {
            "guid": number,
            "typeName": "spark_column",
            "attributes": {
                "qualifiedName": f"{column}.{name}",
                "name": column,
                "table": _reference("spark_table", name, numbers),
            },
        }


def _process(run: Run, edges: list[Edge], numbers: _Guids) -> dict[str, Any]:
    def references(datasets: Iterable[Dataset]) -> list[dict[str, Any]]:
        return [_reference(type_of(d), qualified_name(d), numbers) for d in dict.fromkeys(datasets)]

    return {
        "guid": numbers.of("spark_process", run.id),
        "typeName": "spark_process",
        "attributes": {
            "qualifiedName": run.id,
            "name": run.name or run.kind,
            "executionId": run.id,
            "executionTime": int(run.started.timestamp() * 1000) if run.started else None,
            "details": redact(str(run.details.get("sql") or run.name)),
            "inputs": references(e.source for e in edges),
            "outputs": references(e.target for e in edges),
        },
    }


def _column_lineage(
    run: Run, columns: list[ColumnEdge], numbers: _Guids, found: dict[str, dict[str, Any]]
) -> Iterable[dict[str, Any]]:
    for e in columns:
        ends = [(f"{c}.{qualified_name(d)}") for d, c in ((e.source, e.source_column), (e.target, e.target_column))]
        guids = [numbers.of("spark_column", end) for end in ends]
        if not all(guid in found for guid in guids):
            continue  # columns of paths and topics are no entities of Atlas
        name = f"{run.id}:{ends[0]}->{ends[1]}:{e.subtype}"
        yield {
            "guid": numbers.of("spark_column_lineage", name),
            "typeName": "spark_column_lineage",
            "attributes": {
                "qualifiedName": name,
                "name": f"{e.source_column} -> {e.target_column}",
                "process": _reference("spark_process", run.id, numbers),
                "transformation": e.kind,
                "subtype": e.subtype,
                "masking": e.masking,
                "inputs": [_reference("spark_column", ends[0], numbers)],
                "outputs": [_reference("spark_column", ends[1], numbers)],
            },
        }


def send(catalog: Catalog, client: Any, define: bool = True, batch: int = 200) -> int:
    """Everything to Atlas through `apache_atlas.client.base_client.AtlasClient`; the number of entities sent."""
    from apache_atlas.model.instance import AtlasEntitiesWithExtInfo, AtlasEntity
    from apache_atlas.model.typedef import AtlasTypesDef

    if define:
        client.typedef.create_atlas_typedefs(AtlasTypesDef(type_definitions()))
    found = entities(catalog)
    for first in range(0, len(found), batch):
        some = AtlasEntitiesWithExtInfo({"entities": [AtlasEntity(e) for e in found[first : first + batch]]})
        client.entity.create_entities(some)
    return len(found)


def notifications(catalog: Catalog, user: str = "whence", batch: int = 200) -> Iterable[str]:
    """The same as messages for Atlas's hook topic."""
    found = entities(catalog)
    for first in range(0, len(found), batch):
        message = {
            "type": "ENTITY_CREATE_V2",
            "user": user,
            "entities": {"entities": found[first : first + batch], "referredEntities": {}},
        }
        yield json.dumps(
            {
                "version": {"version": "1.0.0", "versionParts": [1]},
                "msgCompressionKind": "NONE",
                "msgSplitIdx": 1,
                "msgSplitCount": 1,
                "msgSourceIP": "",
                "msgCreatedBy": user,
                "msgCreationTime": int(time.time() * 1000),
                "message": message,
            }
        )


def notify(catalog: Catalog, producer: Any, topic: str = HOOK_TOPIC) -> int:
    """Send the notifications through a confluent_kafka Producer; the number of messages."""
    count = 0
    for message in notifications(catalog):
        producer.produce(topic, message.encode())
        count += 1
    producer.flush()
    return count
