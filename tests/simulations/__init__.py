"""A package, so that it is found before the folder of the root with the same name."""
