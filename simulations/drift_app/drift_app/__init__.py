"""Private drift checks on simulated handwriters: a thin Flower app over flwr-kld."""
