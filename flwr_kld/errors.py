"""Errors with a meaning of their own. None of them ever carries a data value."""

from __future__ import annotations


class DomainError(ValueError):
    """Raw records do not fit the domain; says what was wrong, never with which value."""


class QueryRefused(ValueError):
    """A client will not answer: it and the server do not mean the same thing."""


class EstimateUndefined(ValueError):
    """Published counts give no finite estimate; they stay valid for another θ or estimator."""


class CheckFailed(RuntimeError):
    """A check ended without a number. Nothing was released; what a ledger reserved stays spent."""
