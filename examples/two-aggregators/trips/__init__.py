"""A drift check every night, through two aggregators."""
