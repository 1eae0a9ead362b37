"""A live, read-only page over a ledger: `flwr-kld serve`."""
