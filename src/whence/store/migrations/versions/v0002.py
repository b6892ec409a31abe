"""Versions of datasets, aliases, edges between versions, column links, and the type system."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.add_column("datasets", sa.Column("version", sa.Integer, nullable=False, server_default="0"))
    op.create_table(
        "aliases",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("dataset", sa.Integer, sa.ForeignKey("datasets.id", ondelete="CASCADE"), nullable=False),
        sa.Column("namespace", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("since", sa.Float, nullable=False),
        sa.Column("until", sa.Float),
    )
    op.create_index("aliases_by_name", "aliases", ["name", "namespace"])
    op.create_index("aliases_by_dataset", "aliases", ["dataset"])
    op.create_table(
        "versions",
        sa.Column("dataset", sa.Integer, sa.ForeignKey("datasets.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("run", sa.Text),
        sa.Column("at", sa.Float, nullable=False),
        sa.Column("how", sa.Text, nullable=False),
        sa.Column("external", sa.Text),
        sa.Column("columns", sa.JSON, nullable=False),
    )
    op.create_index("versions_by_time", "versions", ["dataset", "at"])
    op.create_table(
        "edges",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("run", sa.Text, sa.ForeignKey("runs.id", ondelete="CASCADE"), nullable=False),
        sa.Column("source", sa.Integer, sa.ForeignKey("datasets.id", ondelete="CASCADE"), nullable=False),
        sa.Column("source_version", sa.Integer, nullable=False),
        sa.Column("target", sa.Integer, sa.ForeignKey("datasets.id", ondelete="CASCADE"), nullable=False),
        sa.Column("target_version", sa.Integer, nullable=False),
        sa.Column("closed", sa.Integer, nullable=False),
        sa.Column("closed_at", sa.Float),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("mapping", sa.Integer),
        sa.Column("at", sa.Float, nullable=False),
    )
    op.create_index("edges_by_target", "edges", ["target", "closed", "target_version"])
    op.create_index("edges_by_source", "edges", ["source", "source_version"])
    op.create_index("edges_by_run", "edges", ["run"])
    op.create_table(
        "mappings",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("digest", sa.Text, nullable=False, unique=True),
    )
    op.create_table(
        "mapping_columns",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("mapping", sa.Integer, sa.ForeignKey("mappings.id", ondelete="CASCADE"), nullable=False),
        sa.Column("source", sa.Integer, nullable=False),
        sa.Column("source_column", sa.Text, nullable=False),
        sa.Column("target_column", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("subtype", sa.Text, nullable=False),
        sa.Column("masking", sa.Integer, nullable=False),
    )
    op.create_index("mapping_columns_by_target", "mapping_columns", ["mapping", "target_column"])
    op.create_index("mapping_columns_by_source", "mapping_columns", ["mapping", "source", "source_column"])
    op.create_table(
        "types",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("definition", sa.JSON, nullable=False),
    )
    op.create_table(
        "entities",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("type", sa.Text, nullable=False),
        sa.Column("qualified_name", sa.Text, nullable=False),
        sa.Column("attributes", sa.JSON, nullable=False),
        sa.Column("created", sa.Float, nullable=False),
        sa.Column("deleted", sa.Float),
    )
    op.create_index("entities_by_name", "entities", ["type", "qualified_name"], unique=True)
    op.create_table(
        "relationships",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("source", sa.Integer, sa.ForeignKey("entities.id", ondelete="CASCADE"), nullable=False),
        sa.Column("target", sa.Integer, sa.ForeignKey("entities.id", ondelete="CASCADE"), nullable=False),
        sa.Column("attributes", sa.JSON, nullable=False),
    )
    op.create_index("relationships_by_source", "relationships", ["source"])
    op.create_index("relationships_by_target", "relationships", ["target"])
    op.execute(
        "INSERT INTO aliases (dataset, namespace, name, since) "
        "SELECT id, namespace, name, coalesce(created, 0) FROM datasets"
    )
