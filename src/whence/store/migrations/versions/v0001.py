"""Runs, datasets and operators."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "datasets",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("namespace", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("created", sa.Float),
        sa.Column("dropped", sa.Float),
    )
    op.create_index("datasets_by_name", "datasets", ["namespace", "name"], unique=True)
    op.create_table(
        "runs",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("error", sa.Text),
        sa.Column("started", sa.Float),
        sa.Column("ended", sa.Float),
        sa.Column("application", sa.Text, nullable=False),
        sa.Column("details", sa.JSON, nullable=False),
    )
    op.create_index("runs_by_start", "runs", ["started"])
    op.create_index("runs_by_application", "runs", ["application", "started"])
    op.create_table(
        "operators",
        sa.Column("run", sa.Text, sa.ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("inside", sa.Text),
        sa.Column("inputs", sa.JSON, nullable=False),
        sa.Column("strategy", sa.Text),
        sa.Column("details", sa.JSON, nullable=False),
    )
