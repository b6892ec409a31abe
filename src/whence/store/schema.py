"""The catalogue's tables as they are now. How older ones become these stands in migrations/.

Times are seconds since 1970 (UTC) in double precision: they compare alike in SQLite and PostgreSQL.

Every transaction that changes the catalogue counts up `counters` (changes.py); rows keep the count of their last change
in `changed`, so that whoever holds a copy in memory reads only what is new.
"""

from __future__ import annotations

from sqlalchemy import JSON, BigInteger, Column, Float, ForeignKey, Index, Integer, MetaData, Table, Text

metadata = MetaData()

datasets = Table(
    "datasets",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("namespace", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("created", Float),
    Column("dropped", Float),
    Column("version", Integer, nullable=False, server_default="0"),
    Column("changed", BigInteger, nullable=False, server_default="0"),
    Index("datasets_by_name", "namespace", "name", unique=True),
    Index("datasets_by_change", "changed"),
)

runs = Table(
    "runs",
    metadata,
    Column("id", Text, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("error", Text),
    Column("started", Float),
    Column("ended", Float),
    Column("application", Text, nullable=False),
    Column("details", JSON, nullable=False),
    Column("changed", BigInteger, nullable=False, server_default="0"),
    Index("runs_by_start", "started"),
    Index("runs_by_change", "changed"),
    Index("runs_by_application", "application", "started"),
)

operators = Table(
    "operators",
    metadata,
    Column("run", Text, ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
    Column("id", Text, primary_key=True),
    Column("position", Integer, nullable=False),
    Column("name", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("inside", Text),
    Column("inputs", JSON, nullable=False),
    Column("strategy", Text),
    Column("details", JSON, nullable=False),
)

OPEN = 2**31 - 1
"""`edges.closed` of an edge that still holds."""

aliases = Table(
    "aliases",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("dataset", Integer, ForeignKey("datasets.id", ondelete="CASCADE"), nullable=False),
    Column("namespace", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("since", Float, nullable=False),
    Column("until", Float),
    Index("aliases_by_name", "name", "namespace"),
    Index("aliases_by_dataset", "dataset"),
)

versions = Table(
    "versions",
    metadata,
    Column("dataset", Integer, ForeignKey("datasets.id", ondelete="CASCADE"), primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("run", Text),
    Column("at", Float, nullable=False),
    Column("how", Text, nullable=False),
    Column("external", Text),
    Column("columns", JSON, nullable=False),
    Index("versions_by_time", "dataset", "at"),
    Index("versions_by_run", "run"),
)

# What each run read and wrote, also where no edge follows from it: rows that went to the application, runs that failed.
uses = Table(
    "uses",
    metadata,
    Column("run", Text, ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
    Column("dataset", Integer, ForeignKey("datasets.id", ondelete="CASCADE"), primary_key=True),
    Column("role", Text, primary_key=True),
    Column("version", Integer),
    Column("rows", BigInteger),
    Column("bytes", BigInteger),
    Index("uses_by_dataset", "dataset"),
)

# Events of other tools, each once, so that those of one run add up whenever and in whichever order they come.
events = Table(
    "events",
    metadata,
    Column("run", Text, ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
    Column("digest", Text, primary_key=True),
    Column("event", JSON, nullable=False),
)

# An edge holds for the target's versions from target_version up to, not including, closed: an overwrite closes those
# of the version before it, an append leaves them open. So the inputs of any version are one range query.
edges = Table(
    "edges",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("run", Text, ForeignKey("runs.id", ondelete="CASCADE"), nullable=False),
    Column("source", Integer, ForeignKey("datasets.id", ondelete="CASCADE"), nullable=False),
    Column("source_version", Integer, nullable=False),
    Column("target", Integer, ForeignKey("datasets.id", ondelete="CASCADE"), nullable=False),
    Column("target_version", Integer, nullable=False),
    Column("closed", Integer, nullable=False),
    Column("closed_at", Float),
    Column("kind", Text, nullable=False),
    Column("mapping", Integer),
    Column("at", Float, nullable=False),
    Column("changed", BigInteger, nullable=False, server_default="0"),
    Index("edges_by_change", "changed"),
    Index("edges_by_target", "target", "closed", "target_version"),
    Index("edges_by_source", "source", "source_version"),
    Index("edges_by_run", "run"),
)

# The column links of one write. Runs that do the same share one mapping, so a nightly job adds one edge a night.
mappings = Table(
    "mappings",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("digest", Text, nullable=False, unique=True),
)

mapping_columns = Table(
    "mapping_columns",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("mapping", Integer, ForeignKey("mappings.id", ondelete="CASCADE"), nullable=False),
    Column("source", Integer, nullable=False),
    Column("source_column", Text, nullable=False),
    Column("target_column", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("subtype", Text, nullable=False),
    Column("masking", Integer, nullable=False),
    Index("mapping_columns_by_target", "mapping", "target_column"),
    Index("mapping_columns_by_source", "mapping", "source", "source_column"),
)

types = Table(
    "types",
    metadata,
    Column("name", Text, primary_key=True),
    Column("definition", JSON, nullable=False),
)

entities = Table(
    "entities",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("type", Text, nullable=False),
    Column("qualified_name", Text, nullable=False),
    Column("attributes", JSON, nullable=False),
    Column("created", Float, nullable=False),
    Column("deleted", Float),
    Index("entities_by_name", "type", "qualified_name", unique=True),
)

relationships = Table(
    "relationships",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("source", Integer, ForeignKey("entities.id", ondelete="CASCADE"), nullable=False),
    Column("target", Integer, ForeignKey("entities.id", ondelete="CASCADE"), nullable=False),
    Column("attributes", JSON, nullable=False),
    Index("relationships_by_source", "source"),
    Index("relationships_by_target", "target"),
)

# "changes": counted up by every transaction that changes the catalogue. "epoch": by those after which a copy in memory
# must be read anew, since rows went away. "secret0" to "secret3": random bits, from which ids are made.
counters = Table(
    "counters",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", BigInteger, nullable=False),
)

# A token and a cookie are kept as SHA-256 hashes: whoever reads them here cannot use them.
tokens = Table(
    "tokens",
    metadata,
    Column("hash", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("created", Float, nullable=False),
    Column("expires", Float),
    Column("revoked", Float),
    Index("tokens_by_name", "name"),
)

cookies = Table(
    "cookies",
    metadata,
    Column("hash", Text, primary_key=True),
    Column("token", Text),
    Column("caller", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("expires", Float, nullable=False),
)

audit = Table(
    "audit",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("at", Float, nullable=False),
    Column("who", Text),
    Column("action", Text, nullable=False),
    Column("status", Integer, nullable=False),
    Column("target", Text),
)

# Saved traces, and questions that wait for a session. `lease`: until when the session that works on it has it.
traces = Table(
    "traces",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text),
    Column("status", Text, nullable=False),
    Column("progress", Float, nullable=False),
    Column("question", JSON, nullable=False),
    Column("asked", Float, nullable=False),
    Column("asked_by", Text),
    Column("finished", Float),
    Column("exact", Integer),
    Column("picture", JSON),
    Column("error", Text),
    Column("worker", Text),
    Column("lease", Float),
    Column("attempts", Integer, nullable=False, server_default="0"),
    Index("traces_by_status", "status", "asked"),
    Index("traces_by_time", "asked"),
)

trace_rows = Table(
    "trace_rows",
    metadata,
    Column("trace", Text, ForeignKey("traces.id", ondelete="CASCADE"), primary_key=True),
    Column("source", Integer, primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("row", JSON, nullable=False),
)

diagnoses = Table(
    "diagnoses",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text),
    Column("created", Float, nullable=False),
    Column("executions", Integer, nullable=False),
    Column("parameters", JSON, nullable=False),
    Column("causes", JSON, nullable=False),
    Column("runs", JSON),
    Index("diagnoses_by_time", "created"),
)

# Who made what, where a trace can go on (producers.py).
producers = Table(
    "producers",
    metadata,
    Column("key", Text, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("run", Text, nullable=False),
    Column("length", BigInteger),
    Column("changed", BigInteger),
    Column("details", JSON, nullable=False),
    Column("at", Float, nullable=False),
    Index("producers_by_run", "kind", "run"),
)
