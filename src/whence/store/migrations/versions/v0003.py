"""What each run read and wrote, and the events of other tools. Rows that went to an application are no longer edges."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.create_index("versions_by_run", "versions", ["run"])
    op.create_table(
        "uses",
        sa.Column("run", sa.Text, sa.ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("dataset", sa.Integer, sa.ForeignKey("datasets.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("role", sa.Text, primary_key=True),
        sa.Column("version", sa.Integer),
        sa.Column("rows", sa.BigInteger),
        sa.Column("bytes", sa.BigInteger),
    )
    op.create_index("uses_by_dataset", "uses", ["dataset"])
    op.create_table(
        "events",
        sa.Column("run", sa.Text, sa.ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("digest", sa.Text, primary_key=True),
        sa.Column("event", sa.JSON, nullable=False),
    )
    op.execute(
        "INSERT INTO uses (run, dataset, role, version) "
        "SELECT run, source, 'input', max(source_version) FROM edges GROUP BY run, source"
    )
    op.execute(
        "INSERT INTO uses (run, dataset, role, version) SELECT v.run, v.dataset, 'output', max(v.number) "
        "FROM versions v JOIN runs r ON r.id = v.run JOIN datasets d ON d.id = v.dataset "
        "WHERE v.how <> 'seen' AND d.kind <> 'application' GROUP BY v.run, v.dataset"
    )
    op.execute("DELETE FROM edges WHERE target IN (SELECT id FROM datasets WHERE kind = 'application')")
    op.execute("DELETE FROM datasets WHERE kind = 'application'")
