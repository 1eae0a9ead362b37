"""A drift check over secure sums, between hospitals that know each other's keys."""
