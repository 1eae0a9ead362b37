"""The ledger's tables. Amounts are written out as text; no column can hold a float."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
)

SCHEMA = "1"
"""Version of these tables: a database of another one is refused."""

metadata = MetaData()

Int64 = BigInteger().with_variant(Integer, "sqlite")

ledger_version = Table(
    "ledger_version",
    metadata,
    Column("version_num", Text, nullable=False),
    sqlite_strict=True,
)
"""One row: `SCHEMA` of the version that made the tables."""

clock = Table(
    "clock",
    metadata,
    Column("id", Int64, primary_key=True, autoincrement=False),
    Column("seen", Int64, nullable=False),
    sqlite_strict=True,
)
"""One row: the latest time that any process ever read, in seconds since 1970."""

budgets = Table(
    "budgets",
    metadata,
    Column("number", Int64, primary_key=True),
    Column("population", Text, nullable=False, index=True),
    Column("since", Int64, nullable=False),
    Column("epsilon", Text, nullable=False),
    Column("delta", Text, nullable=False),
    Column("seconds", Int64, nullable=False),
    Column("protects", Text, nullable=False),
    Column("composition", Text, nullable=False),
    Column("first", Text, nullable=False),
    Column("kept", Text, nullable=False),
    sqlite_strict=True,
)
"""As they were set, to the last digit; a population's last one is in force."""

participants = Table(
    "participants",
    metadata,
    Column("id", Int64, primary_key=True),
    Column("population", Text, nullable=False),
    Column("number", Int64, nullable=False),
    Column("name", Text, nullable=False),
    UniqueConstraint("population", "name", name="participants_name"),
    UniqueConstraint("population", "number", name="participants_number"),
    sqlite_strict=True,
)
"""Clients, numbered from 0 in the order in which they were first asked."""

checks = Table(
    "checks",
    metadata,
    Column("number", Int64, primary_key=True),
    Column("population", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("started", Int64, nullable=False),
    Column("ended", Int64),
    Column("state", Text, nullable=False),
    Column("failure", Text),
    Column("words", Text),
    Column("asked", Int64, ForeignKey("costs.id")),
    Column("delivered", Int64, ForeignKey("costs.id")),
    Column("members", LargeBinary),
    Column("report", Text),  # last, so that SQLite reads the others without it
    CheckConstraint(
        "kind IN ('check', 'round', 'statistics', 'discovery', 'draws', 'session', 'training')",
        name="checks_kind",
    ),
    CheckConstraint("state IN ('reserved', 'settled', 'failed')", name="checks_state"),
    CheckConstraint(
        "failure IN ('cohort', 'budget', 'refused', 'unanswered', 'error')", name="checks_failure"
    ),
    CheckConstraint("(state = 'failed') = (failure IS NOT NULL)", name="checks_failed"),
    CheckConstraint("(asked IS NULL) = (members IS NULL)", name="checks_charged"),
    UniqueConstraint("population", "key", name="checks_key"),
    Index("checks_started", "population", "started", "number"),
    sqlite_strict=True,
)
"""One row for each idempotency key, with what it is charged and the packed numbers of whom it asks.
Numbers grow with time, and none is ever used again. Nobody is charged for a night of a session."""

costs = Table(
    "costs",
    metadata,
    Column("id", Int64, primary_key=True),
    Column("digest", Text, nullable=False, unique=True),
    Column("mechanism", Text, nullable=False),
    Column("epsilon", Text, nullable=False),
    Column("delta", Text, nullable=False),
    Column("protects", Text, nullable=False),
    Column("shifts", Text, nullable=False),
    Column("noise", LargeBinary, nullable=False),
    Column("noise_multiplier", Text, nullable=False),
    sqlite_strict=True,
)
"""Kinds of releases, each once: guarantee, and the moves that its noise hides."""

states = Table(
    "states",
    metadata,
    Column("name", Text, primary_key=True),
    Column("version", Int64, nullable=False),
    Column("value", Text, nullable=False),
    Column("updated", Int64, nullable=False),
    sqlite_strict=True,
)
"""What monitors and predictors remember between checks, as JSON."""
