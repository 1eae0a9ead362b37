"""Sums of two aggregators: one message a client, and neither of the two can read it alone."""
