"""What clients are asked: disjoint cells of the domain, drawn from the public reference."""
