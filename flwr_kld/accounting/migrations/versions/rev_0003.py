"""What an entry is of, and why it failed, in columns; nothing is abandoned any more."""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op

# The sums are made from the rows that are there. Should a later revision change how they are
# packed, it makes them anew, and the call below goes.
from flwr_kld.accounting.sums import rebuild

revision = "0003"
down_revision = "0002"

_whole = sa.BigInteger().with_variant(sa.Integer, "sqlite")

_checks = sa.table(
    "checks",
    sa.column("number", _whole),
    sa.column("purpose", sa.Text),
    sa.column("kind", sa.Text),
    sa.column("state", sa.Text),
    sa.column("report", sa.Text),
    sa.column("note", sa.Text),
    sa.column("failure", sa.Text),
)
_spends = sa.table("spends", sa.column("check", _whole), sa.column("asked", _whole))
_costs = sa.table("costs", sa.column("id", _whole), sa.column("mechanism", sa.Text))


def upgrade() -> None:
    """Add the columns, fill them with what version 0002 went by, and make the sums anew."""
    connection = op.get_bind()
    op.add_column("checks", sa.Column("kind", sa.Text))
    op.add_column("checks", sa.Column("failure", sa.Text))
    _fill_kinds(connection)
    _fill_failures(connection)
    with op.batch_alter_table("checks", table_kwargs={"sqlite_strict": True}) as batch:
        batch.drop_constraint("checks_key", type_="unique")
        batch.drop_constraint("checks_purpose", type_="check")
        batch.drop_constraint("checks_state", type_="check")
        batch.drop_column("purpose")
        batch.alter_column("kind", existing_type=sa.Text(), nullable=False)
        batch.alter_column("note", existing_type=sa.Text(), new_column_name="words")
        batch.create_check_constraint(
            "checks_kind", "kind IN ('check', 'round', 'reference', 'draws', 'training')"
        )
        batch.create_check_constraint("checks_state", "state IN ('reserved', 'settled', 'failed')")
        batch.create_check_constraint(
            "checks_failure", "failure IN ('cohort', 'budget', 'unanswered', 'error')"
        )
        batch.create_check_constraint("checks_failed", "(state = 'failed') = (failure IS NOT NULL)")
    for name, which in (("checks_key", "<>"), ("checks_training", "=")):
        where = sa.text(f"kind {which} 'training'")
        op.create_index(
            name,
            "checks",
            ["population", "key"],
            unique=True,
            sqlite_where=where,
            postgresql_where=where,
        )
    rebuild(connection)


def _fill_kinds(connection: sa.Connection) -> None:
    """Tell rounds and draws by the mechanisms of their costs, references by their reports."""
    connection.execute(_checks.update().values(kind=_checks.c.purpose))
    for kind, mechanism in (("round", "local"), ("draws", "integral %")):
        found = sa.select(_spends.c.check).join_from(
            _spends, _costs, _spends.c.asked == _costs.c.id
        )
        _set(connection, found.where(_costs.c.mechanism.like(mechanism)), kind=kind)
    settled = sa.select(_checks.c.number, _checks.c.report).where(
        _checks.c.kind == "check", _checks.c.report.like('%"reference %')
    )
    made = [row.number for row in connection.execute(settled) if _is_of_reference(row.report)]
    for number in made:
        _set(connection, [number], kind="reference")


def _is_of_reference(report: str) -> bool:
    try:
        schema = json.loads(report).get("schema")
    except (ValueError, AttributeError):  # a damaged row stays what it is
        return False
    return isinstance(schema, str) and schema.startswith("reference ")


def _fill_failures(connection: sa.Connection) -> None:
    """Tell an error by a note that is a type's name, and no sentence.

    What was abandoned has spent nothing and asked nobody; its number stays taken.
    """
    failed = sa.select(_checks.c.number, _checks.c.note).where(_checks.c.state == "failed")
    for number, note in connection.execute(failed).all():
        kind = "error" if (note or "").isidentifier() else "unanswered"
        _set(connection, [number], failure=kind, note=note or "")
    abandoned = sa.select(_checks.c.number).where(_checks.c.state == "abandoned")
    connection.execute(_spends.delete().where(_spends.c.check.in_(abandoned)))
    connection.execute(
        _checks.update()
        .where(_checks.c.state == "abandoned")
        .values(state="failed", failure="cohort", note=sa.func.coalesce(_checks.c.note, ""))
    )


def _set(
    connection: sa.Connection, numbers: list[int] | sa.Select[tuple[int]], **values: str
) -> None:
    connection.execute(
        _checks.update()
        .where(_checks.c.number.in_(numbers), _checks.c.purpose == "check")
        .values(values)
    )
