"""A drift check every night, paid from a budget."""
