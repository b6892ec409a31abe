"""Leaves of a plan: which dataset is read, by the class of the leaf and what its maker says about itself."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from whence.model.lineage import Seen
from whence.model.quiet import FACT_COLUMN, FACTS
from whence.watch import naming

Fields = Mapping[str, Any]


@dataclass(frozen=True)
class Place:
    """Where a snapshot was taken: what is needed to name tables."""

    warehouse: str = "file:/spark-warehouse"
    metastore: str | None = None
    application: str = ""
    application_id: str = ""
    memory: Mapping[int, str] = field(default_factory=dict)
    """Attributes made by createDataFrame, and from what."""
    memory_rdds: Mapping[int, str] = field(default_factory=dict)
    """The same by the RDD that holds the rows: a self join gives one side new attributes."""
    models: Mapping[int, Seen] = field(default_factory=dict)
    """Attributes that a model added to a DataFrame."""
    frames: Mapping[int, str] = field(default_factory=dict)
    """Plans of DataFrames whose `.rdd` was asked for, by the number of the RDD."""
    checkpoints: Mapping[int, str] = field(default_factory=dict)
    """Plans of DataFrames that were checkpointed, by the number of the RDD that holds their rows."""
    parent: Mapping[str, str] = field(default_factory=dict)
    """The run that started this application (Airflow's task, say): namespace, name, run."""

    @property
    def tables(self) -> str:
        return self.metastore or self.warehouse


def of_table(place: Place, table: Fields, kind: str = "table") -> Seen:
    """A table of the session catalogue; its location is another name for it."""
    name = f"{table.get('database') or 'default'}.{table['table']}"
    catalog = table.get("catalog") or "spark_catalog"
    aliases = [(place.tables, f"spark_catalog.{name}")]
    if table.get("location"):
        aliases.append(naming.of_path(table["location"]))
    if kind == "table" and table.get("type") == "VIEW":
        kind = "view"
    columns = tuple((c[1], c[2]) for c in table.get("columns") or ())
    if catalog != "spark_catalog":
        return Seen(f"{place.tables}#{catalog}", name, kind, columns, tuple(aliases[1:]))
    options = lowered(table.get("options") or {})
    if (table.get("provider") or "").lower() in ("jdbc", "org.apache.spark.sql.jdbc") and options.get("url"):
        aliases += [naming.of_jdbc(options["url"], t) for t in naming.jdbc_tables(options)[:1]]
    return Seen(place.tables, name, kind, columns, tuple(aliases))


def of_path(path: str, columns: Iterable[Any] = (), version: str | None = None) -> Seen:
    namespace, name = naming.of_path(path)
    return Seen(namespace, name, "path", tuple((c[1], c[2]) for c in columns), (), version)


def lowered(options: Mapping[str, Any]) -> dict[str, str]:
    return {str(k).lower(): v for k, v in options.items() if isinstance(v, str)}


def merged_options(*some: Any) -> dict[str, str]:
    """All options that a source shows, in whatever field it keeps them; keys in lower case."""
    found: dict[str, str] = {}
    for options in some:
        if not isinstance(options, dict):
            continue
        found.update(lowered(options))
        for inner in options.values():
            if isinstance(inner, dict):
                found.update(merged_options(inner))
    return found


def of_options(maker: str, options: Mapping[str, str], columns: tuple[tuple[str, str], ...] = ()) -> list[Seen]:
    """A source or sink known by its options alone. `maker` is its class or format name."""
    low = maker.lower()
    if "kafka" in low or "kafka.bootstrap.servers" in options:
        kind = "topic"
        return [
            Seen(*naming.of_topic(options.get("kafka.bootstrap.servers"), t), kind, columns)
            for t in naming.topics(options)
        ]
    if "jdbc" in low or options.get("url", "").startswith("jdbc:"):
        return [Seen(*naming.of_jdbc(options.get("url", ""), t), "rdbms", columns) for t in naming.jdbc_tables(options)]
    hbase = naming.of_hbase(options) if "hbase" in low or "hbase.table" in options else None
    if hbase is not None:
        return [Seen(*hbase, "hbase", columns)]
    if "hivewarehouse" in low and options.get("table"):
        name = (
            options["table"]
            if "." in options["table"]
            else f"{options.get('default.db', 'default')}.{options['table']}"
        )
        return [Seen(options.get("metastoreuri", "hive").replace("thrift://", "hive://"), name, "table", columns)]
    if options.get("path"):
        return [Seen(*naming.of_path(options["path"]), "path", columns)]
    return []


class Found(NamedTuple):
    """The datasets that a leaf reads, and the gap to report where something about it is not known."""

    datasets: list[Seen]
    gap: str | None = None
    columns: bool = True
    """Whether the leaf's columns are the datasets' columns of the same names."""
    frames: tuple[str, ...] = ()
    """Plans of DataFrames behind the leaf."""


NOTHING = Found([])


def read(place: Place, leaf: Fields) -> Found:
    rule = LEAVES.get(leaf["c"])
    if rule is None:
        return Found([], leaf["c"])
    return rule(place, leaf.get("f", {}), leaf.get("out", []))


def _relation(place: Place, fields: Fields, out: list[Any]) -> Found:
    columns = tuple((c[1], c[2]) for c in out)
    relation = fields.get("relation") or {}
    if fields.get("catalogTable"):
        table = dict(fields["catalogTable"])
        seen = of_table(place, table)
        return Found([Seen(seen.namespace, seen.name, seen.kind, columns, seen.aliases, relation.get("version"))])
    if relation.get("base"):
        return Found([of_path(relation["base"], out, relation.get("version"))])
    if any(f"/{FACTS}/" in path for path in relation.get("paths") or ()):
        return NOTHING  # captured rows: what they were made from stands beside them in the plan
    if any("/_delta_log/" in path for path in relation.get("paths") or ()):
        return NOTHING  # Delta reads its own log
    if "paths" in relation:
        return Found(_paths(relation["paths"], out, relation.get("version")))
    options = merged_options(relation.get("options"))
    return _by_options(relation.get("class", ""), options, columns, f"LogicalRelation({relation.get('c')})")


def _by_options(maker: str, options: Mapping[str, str], columns: tuple[tuple[str, str], ...], unknown: str) -> Found:
    if naming.is_jdbc_query(options) and ("jdbc" in maker.lower() or options.get("url", "").startswith("jdbc:")):
        return Found(of_options(maker, options), "JDBC query: datasets only", columns=False)
    found = of_options(maker, options, columns)
    return Found(found, None if found else unknown)


def _paths(paths: Iterable[str], out: list[Any], version: str | None = None) -> list[Seen]:
    found: dict[naming.Name, Seen] = {}
    for path in paths:
        seen = of_path(path, out, version)
        found[(seen.namespace, seen.name)] = seen
    return list(found.values())


def _hive(place: Place, fields: Fields, out: list[Any]) -> Found:
    seen = of_table(place, fields["tableMeta"])
    return Found([Seen(seen.namespace, seen.name, seen.kind, tuple((c[1], c[2]) for c in out), seen.aliases)])


def _v2(place: Place, fields: Fields, out: list[Any]) -> Found:
    if isinstance(fields.get("relation"), dict) and "plan" in fields["relation"]:
        inner = fields["relation"]["plan"]
        return _v2(place, inner.get("f", {}), out or inner.get("out", []))
    table = fields.get("table") or {}
    columns = tuple((c[1], c[2]) for c in out)
    found = of_v2(place, table, fields.get("catalog"), fields.get("identifier"), fields.get("options"), columns)
    return Found(found, None if found else f"DataSourceV2Relation({table.get('c')})")


_REFS = re.compile(r"(branch|tag)_.+|(snapshot_id|at_timestamp)_\d+")
"""How Iceberg lets a branch or a snapshot be named: as if it were a table below its table."""
REWRITING = ("default_cache_iceberg", "default_rewrite_catalog")
"""The catalogues that Iceberg reads and writes a table through while it rewrites its files: before 1.12, and since."""


def of_v2(
    place: Place, table: Fields, catalog: Any, identifier: Any, options: Any, columns: tuple[tuple[str, str], ...]
) -> list[Seen]:
    version = _version_read(table, options)
    if table.get("ref") and identifier and _REFS.fullmatch(identifier["name"]) and identifier.get("namespace"):
        identifier = {"namespace": identifier["namespace"][:-1], "name": identifier["namespace"][-1]}
    if isinstance(table.get("table"), dict):
        seen = of_table(place, table["table"])
        return [Seen(seen.namespace, seen.name, seen.kind, columns or seen.columns, seen.aliases, version)]
    every = merged_options(table.get("options"), table.get("properties"), options)
    if "jdbc" in str(table.get("class", "")).lower() and identifier:
        every.setdefault("dbtable", ".".join([*identifier["namespace"], identifier["name"]]))
    location = table.get("location") or (table.get("properties") or {}).get("location") or ""
    if catalog and identifier and "url" not in every:
        return [of_identifier(place, catalog, identifier, location, columns, version)]
    held = (table.get("options") or {}).get("paths") if isinstance(table.get("options"), dict) else None
    if isinstance(held, list) and held:
        return [Seen(s.namespace, s.name, s.kind, columns, s.aliases, version) for s in _paths(held, [])]
    if location:
        return [Seen(*naming.of_path(location), "path", columns, (), version)]
    return of_options(f"{table.get('class', '')} {table.get('name', '')}", every, columns)


# Options by which a reading picks another version of an Iceberg table than the newest, or rows of several.
_OTHER_VERSIONS = {"snapshot-id", "branch", "tag", "as-of-timestamp", "start-snapshot-id", "end-snapshot-id"}


def _version_read(table: Fields, options: Any) -> str | None:
    """The version of a table that is read, where it is known."""
    given = merged_options(options)
    if table.get("ref") or not _OTHER_VERSIONS & given.keys():
        return table.get("version")
    return given.get("snapshot-id") if "location" in table else table.get("version")


def of_identifier(
    place: Place,
    catalog: Fields,
    identifier: Fields,
    location: str = "",
    columns: tuple[tuple[str, str], ...] = (),
    version: str | None = None,
) -> Seen:
    """A table of a catalogue plug-in. The namespace is where the catalogue keeps its tables, or its name."""
    name = ".".join([*identifier.get("namespace", ()), identifier["name"]])
    given = catalog.get("catalog", "")
    if given == "spark_catalog" and "/" in identifier["name"]:  # delta.`/a/path`
        return Seen(*naming.of_path(location or identifier["name"]), "path", columns, (), version)
    namespace = place.tables if given == "spark_catalog" else catalog.get("warehouse") or given
    aliases = [(namespace, f"{given}.{name}")]
    if location:
        aliases.append(naming.of_path(location))
    return Seen(namespace, name, "table", columns, tuple(aliases), version)


_MEMORY_RDDS = ("ParallelCollectionRDD", "EmptyRDD", "PythonParallelCollectionRDD")


def _memory(place: Place, fields: Fields, out: list[Any]) -> Found:
    """Rows that came from the driver's memory. Constants in a query (VALUES) are no dataset."""
    kind = next((place.memory[number] for number, _, _ in out if number in place.memory), None)
    if kind is None:
        return NOTHING
    return Found([Seen("memory", f"{place.application}/{kind}", "memory", tuple((c[1], c[2]) for c in out))])


def _rdd(place: Place, fields: Fields, out: list[Any]) -> Found:
    """Rows of an RDD. What it was computed from is known; which column became which is not."""
    held = fields.get("rdd") or {}
    behind: list[tuple[int, str, str]] = held.get("behind") or []
    files = [path for _, _, paths in behind if paths and paths != "null" for path in paths.split(",")]
    frames = tuple(place.frames[number] for number, _, _ in behind if number in place.frames)
    if files or frames:
        found = _paths([path.replace("\\", "") for path in files], [])
        return Found(found, "RDD: datasets only", columns=False, frames=frames)
    kind = place.memory_rdds.get(held.get("id", -1))
    if kind is not None:
        return Found([Seen("memory", f"{place.application}/{kind}", "memory", tuple((c[1], c[2]) for c in out))])
    known = _memory(place, fields, out)
    unknown = next((made for _, made, _ in behind if made not in _MEMORY_RDDS), None)
    return known if known.datasets or unknown is None else Found([], unknown)


def _nothing(place: Place, fields: Fields, out: list[Any]) -> Found:
    return NOTHING


def _stream(place: Place, fields: Fields, out: list[Any]) -> Found:
    """A streaming source before it has a batch, as in a plan that is only defined."""
    columns = tuple((c[1], c[2]) for c in out)
    source = fields.get("dataSource") or {}
    options = merged_options(
        source.get("options"), fields.get("extraOptions"), fields.get("options"), fields.get("sourceOptions")
    )
    maker = f"{fields.get('sourceName', '')} {source.get('className', '')}"
    text = str(fields.get("sourceName") or "")
    inside = re.fullmatch(r"FileSource\[(.*)\]", text)
    if inside:
        return Found([Seen(*naming.of_path(inside.group(1)), "path", columns)])
    table = fields.get("table") or {}
    return Found(of_options(maker, options, columns) or of_v2(place, table, None, None, options, columns))


def _kept(place: Place, fields: Fields, out: list[Any]) -> Found:
    ours = all(str(column[1]).startswith(FACT_COLUMN) for column in out)
    return Found([], None if ours else "InMemoryRelation")


LEAVES: dict[str, Callable[[Place, Fields, list[Any]], Found]] = {
    "LogicalRelation": _relation,
    "HiveTableRelation": _hive,
    "DataSourceV2Relation": _v2,
    "DataSourceV2ScanRelation": _v2,
    "StreamingDataSourceV2Relation": _v2,
    "StreamingDataSourceV2ScanRelation": _v2,
    "StreamingRelation": _stream,
    "StreamingRelationV2": _stream,
    "StreamingExecutionRelation": _stream,
    "LocalRelation": _memory,
    "LogicalRDD": _rdd,
    "ExternalRDD": _rdd,
    "InMemoryRelation": _kept,
    "OneRowRelation": _nothing,
    "Range": _nothing,
    "CommandResult": _nothing,
    "UnionLoopRef": _nothing,
    "CTERelationRef": _nothing,
    "ResolvedIdentifier": _nothing,
    "ResolvedNamespace": _nothing,
    "ResolvedTable": _nothing,
    "ResolvedPersistentView": _nothing,
    "NoopCommand": _nothing,
}
