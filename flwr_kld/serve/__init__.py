"""The live, read-only pages over a ledger."""
