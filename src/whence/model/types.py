"""The type system of the catalogue (SAC, section III): types with attributes, entities, relationships."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

SINGLE, LIST, SET = "SINGLE", "LIST", "SET"


@dataclass(frozen=True)
class Attribute:
    name: str
    type: str = "string"
    optional: bool = True
    indexed: bool = False
    unique: bool = False
    cardinality: str = SINGLE


@dataclass(frozen=True)
class EntityType:
    name: str
    attributes: tuple[Attribute, ...] = ()
    supertypes: tuple[str, ...] = ()
    description: str = ""


@dataclass(frozen=True)
class Entity:
    """One thing of a type. `qualified_name` is unique among the entities of its type."""

    type: str
    qualified_name: str
    attributes: Mapping[str, object] = field(default_factory=dict, compare=False)
    created: datetime | None = field(default=None, compare=False)
    deleted: datetime | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Relationship:
    """`kind` says how `source` relates to `target`; each is (type, qualified name)."""

    kind: str
    source: tuple[str, str]
    target: tuple[str, str]
    attributes: Mapping[str, object] = field(default_factory=dict, compare=False)


def _a(name: str, type: str = "string", cardinality: str = SINGLE) -> Attribute:
    return Attribute(name, type, cardinality=cardinality)


_KEY = Attribute("qualifiedName", "string", optional=False, indexed=True, unique=True)
_NAME = Attribute("name", "string", optional=False, indexed=True)
_COLUMNS = _a("columns", "array<spark_column>", LIST)

BUILT_IN = (
    EntityType("Referenceable", (_KEY,)),
    EntityType("Asset", (_NAME, _a("description"), _a("owner"), _a("createTime", "date")), ("Referenceable",)),
    EntityType("DataSet", (), ("Asset",)),
    EntityType("Process", (_a("inputs", "array<DataSet>", LIST), _a("outputs", "array<DataSet>", LIST)), ("Asset",)),
    EntityType("spark_db", (_a("clusterName"), _a("location"), _a("parameters", "map<string,string>")), ("DataSet",)),
    EntityType("spark_storagedesc", (_a("location"), _a("inputFormat"), _a("outputFormat")), ("Referenceable",)),
    EntityType("spark_column", (_a("type"), _a("nullable", "boolean"), _a("table", "spark_table")), ("DataSet",)),
    EntityType(
        "spark_table",
        (_a("db", "spark_db"), _a("tableType"), _a("provider"), _a("sd", "spark_storagedesc"), _COLUMNS),
        ("DataSet",),
    ),
    EntityType(
        "spark_process",
        (_a("executionId"), _a("currUser"), _a("executionTime", "date"), _a("details"), _a("sparkPlanDescription")),
        ("Process",),
    ),
    EntityType("spark_ml_directory", (_a("uri"), _a("directory")), ("DataSet",)),
    EntityType("spark_ml_pipeline", (_a("directory", "spark_ml_directory"), _a("stages")), ("DataSet",)),
    EntityType("spark_ml_model", (_a("directory", "spark_ml_directory"), _a("parameters")), ("DataSet",)),
    EntityType(
        "spark_column_lineage",
        (_a("process", "spark_process"), _a("transformation"), _a("subtype"), _a("masking", "boolean")),
        ("Process",),
    ),
    EntityType("fs_path", (_a("path"), _a("clusterName")), ("DataSet",)),
    EntityType("hdfs_path", (_a("path"), _a("clusterName")), ("DataSet",)),
    EntityType("aws_s3_bucket", (_a("arn"),), ("DataSet",)),
    EntityType("aws_s3_pseudo_dir", (_a("bucket", "aws_s3_bucket"), _a("objectPrefix")), ("DataSet",)),
    EntityType("hbase_table", (_a("uri"),), ("DataSet",)),
    EntityType("kafka_topic", (_a("topic"), _a("uri")), ("DataSet",)),
    EntityType("rdbms_table", (_a("db"), _a("host")), ("DataSet",)),
    EntityType("hive_table", (_a("db"), _a("tableType")), ("DataSet",)),
)
