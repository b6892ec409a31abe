"""Who made what: the files, arrays and models that captured runs made."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.create_table(
        "producers",
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("run", sa.Text, nullable=False),
        sa.Column("length", sa.BigInteger),
        sa.Column("changed", sa.BigInteger),
        sa.Column("details", sa.JSON, nullable=False),
        sa.Column("at", sa.Float, nullable=False),
    )
    op.create_index("producers_by_run", "producers", ["kind", "run"])
