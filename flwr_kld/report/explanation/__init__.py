"""Which cells moved, in the domain's own words, and how sure that is."""
