"""The first schema."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_whole = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Make the tables."""
    clock = op.create_table(
        "clock",
        sa.Column("id", _whole, primary_key=True, autoincrement=False),
        sa.Column("seen", _whole, nullable=False),
        sqlite_strict=True,
    )
    op.bulk_insert(clock, [{"id": 1, "seen": 0}])
    op.create_table(
        "budgets",
        sa.Column("number", _whole, primary_key=True),
        sa.Column("population", sa.Text, nullable=False, index=True),
        sa.Column("since", _whole, nullable=False),
        sa.Column("epsilon", _whole, nullable=False),
        sa.Column("delta", _whole, nullable=False),
        sa.Column("seconds", _whole, nullable=False),
        sa.Column("adjacency", sa.Text, nullable=False),
        sa.Column("unit", sa.Text, nullable=False),
        sa.Column("composition", sa.Text, nullable=False),
        sqlite_strict=True,
    )
    op.create_table(
        "participants",
        sa.Column("id", _whole, primary_key=True),
        sa.Column("population", sa.Text, nullable=False),
        sa.Column("number", _whole, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.UniqueConstraint("population", "name", name="participants_name"),
        sa.UniqueConstraint("population", "number", name="participants_number"),
        sqlite_strict=True,
    )
    op.create_table(
        "checks",
        sa.Column("number", _whole, primary_key=True),
        sa.Column("population", sa.Text, nullable=False),
        sa.Column("purpose", sa.Text, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("started", _whole, nullable=False),
        sa.Column("ended", _whole),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("report", sa.Text),
        sa.Column("note", sa.Text),
        sa.UniqueConstraint("population", "purpose", "key", name="checks_key"),
        sa.CheckConstraint("purpose IN ('check', 'training')", name="checks_purpose"),
        sa.CheckConstraint(
            "state IN ('reserved', 'settled', 'failed', 'abandoned')", name="checks_state"
        ),
        sqlite_strict=True,
    )
    op.create_table(
        "costs",
        sa.Column("id", _whole, primary_key=True),
        sa.Column("digest", sa.Text, nullable=False, unique=True),
        sa.Column("mechanism", sa.Text, nullable=False),
        sa.Column("epsilon", _whole, nullable=False),
        sa.Column("delta", _whole, nullable=False),
        sa.Column("adjacency", sa.Text, nullable=False),
        sa.Column("unit", sa.Text, nullable=False),
        sa.Column("shifts", sa.Text, nullable=False),
        sa.Column("noise", sa.LargeBinary, nullable=False),
        sa.CheckConstraint("epsilon > 0 AND delta >= 0", name="costs_positive"),
        sqlite_strict=True,
    )
    op.create_table(
        "spends",
        sa.Column("id", _whole, primary_key=True),
        sa.Column("check", _whole, sa.ForeignKey("checks.number"), nullable=False, index=True),
        sa.Column("asked", _whole, sa.ForeignKey("costs.id"), nullable=False),
        sa.Column("delivered", _whole, sa.ForeignKey("costs.id")),
        sa.Column("family", sa.Text, nullable=False),
        sa.Column("members", sa.LargeBinary, nullable=False),
        sqlite_strict=True,
    )
    op.create_table(
        "states",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("version", _whole, nullable=False),
        sa.Column("value", sa.Text, nullable=False),
        sa.Column("updated", _whole, nullable=False),
        sqlite_strict=True,
    )
