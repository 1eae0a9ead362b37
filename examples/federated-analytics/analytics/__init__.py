"""What the tables of a federation look like, under differential privacy."""
