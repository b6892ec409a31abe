"""A diagnosis keeps the runs that told it."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    op.add_column("diagnoses", sa.Column("runs", sa.JSON))
