"""Alembic's folder: how a ledger written by an older version is brought up to date."""
