"""Run the revisions on the connection, and in the transaction, that the ledger holds."""

from __future__ import annotations

from alembic import context

from flwr_kld.accounting.schema import VERSION_TABLE, metadata


def run() -> None:
    """Run what `database.Database` asked for."""
    context.configure(
        connection=context.config.attributes["connection"],
        target_metadata=metadata,
        version_table=VERSION_TABLE,
    )
    context.run_migrations()


if __name__ == "env_py":  # the name by which alembic runs this file
    run()
