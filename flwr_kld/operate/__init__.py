"""Schedules of checks, notices of their results, and the live page."""
