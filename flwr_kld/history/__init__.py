"""What a ledger tells of checks and rounds: their series, and what has become of each."""
