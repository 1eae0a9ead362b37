"""Labels and predictions as columns of a drift check."""
