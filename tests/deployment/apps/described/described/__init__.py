"""One federation, from a first look at its data to a drift's name."""
