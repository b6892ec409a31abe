"""What the server needs: a count of changes, tokens, audit, traces and the questions that wait, diagnoses."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    for table in ("datasets", "runs", "edges"):
        op.add_column(table, sa.Column("changed", sa.BigInteger, nullable=False, server_default="0"))
        op.create_index(f"{table}_by_change", table, ["changed"])
    op.create_table(
        "counters",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("value", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "tokens",
        sa.Column("hash", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("role", sa.Text, nullable=False),
        sa.Column("created", sa.Float, nullable=False),
        sa.Column("expires", sa.Float),
        sa.Column("revoked", sa.Float),
    )
    op.create_index("tokens_by_name", "tokens", ["name"])
    op.create_table(
        "cookies",
        sa.Column("hash", sa.Text, primary_key=True),
        sa.Column("token", sa.Text),
        sa.Column("caller", sa.Text, nullable=False),
        sa.Column("role", sa.Text, nullable=False),
        sa.Column("expires", sa.Float, nullable=False),
    )
    op.create_table(
        "audit",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("at", sa.Float, nullable=False),
        sa.Column("who", sa.Text),
        sa.Column("action", sa.Text, nullable=False),
        sa.Column("status", sa.Integer, nullable=False),
        sa.Column("target", sa.Text),
    )
    op.create_table(
        "traces",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("name", sa.Text),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("progress", sa.Float, nullable=False),
        sa.Column("question", sa.JSON, nullable=False),
        sa.Column("asked", sa.Float, nullable=False),
        sa.Column("asked_by", sa.Text),
        sa.Column("finished", sa.Float),
        sa.Column("exact", sa.Integer),
        sa.Column("picture", sa.JSON),
        sa.Column("error", sa.Text),
        sa.Column("worker", sa.Text),
        sa.Column("lease", sa.Float),
        sa.Column("attempts", sa.Integer, nullable=False, server_default="0"),
    )
    op.create_index("traces_by_status", "traces", ["status", "asked"])
    op.create_index("traces_by_time", "traces", ["asked"])
    op.create_table(
        "trace_rows",
        sa.Column("trace", sa.Text, sa.ForeignKey("traces.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("source", sa.Integer, primary_key=True),
        sa.Column("position", sa.Integer, primary_key=True),
        sa.Column("row", sa.JSON, nullable=False),
    )
    op.create_table(
        "diagnoses",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("name", sa.Text),
        sa.Column("created", sa.Float, nullable=False),
        sa.Column("executions", sa.Integer, nullable=False),
        sa.Column("parameters", sa.JSON, nullable=False),
        sa.Column("causes", sa.JSON, nullable=False),
    )
    op.create_index("diagnoses_by_time", "diagnoses", ["created"])
