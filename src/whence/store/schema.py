"""The catalogue's tables as they are now. How older ones become these stands in migrations/.

Times are seconds since 1970 (UTC) in double precision: they compare alike in SQLite and PostgreSQL.
"""

from __future__ import annotations

from sqlalchemy import JSON, Column, Float, ForeignKey, Index, Integer, MetaData, Table, Text

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
    Index("datasets_by_name", "namespace", "name", unique=True),
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
    Index("runs_by_start", "started"),
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
