"""Sums over blocks of checks, and an index of checks by time: a window is read in parts."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

_whole = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Make the table and the index; a later revision fills the table."""
    op.create_table(
        "sums",
        sa.Column("population", sa.Text, primary_key=True),
        sa.Column("level", _whole, primary_key=True, autoincrement=False),
        sa.Column("block", _whole, primary_key=True, autoincrement=False),
        sa.Column("family", sa.Text, primary_key=True),
        sa.Column("packed", sa.LargeBinary, nullable=False),
        sqlite_strict=True,
    )
    op.create_index("checks_started", "checks", ["population", "started", "number"])
