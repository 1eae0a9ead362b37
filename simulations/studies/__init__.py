"""Studies that reproduce the papers and the claims of the docs; each runs as a module."""
