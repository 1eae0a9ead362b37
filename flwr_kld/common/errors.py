"""All errors with a type of their own. None of them ever carries a data value."""

from __future__ import annotations

from datetime import datetime


class DomainError(ValueError):
    """Raw records do not fit the domain; the message never shows a private value."""


class QueryRefused(ValueError):
    """A client refuses to answer: its question and the server's differ."""


class EstimateUndefined(ValueError):
    """Published counts give no finite estimate; their privacy guarantee still holds."""


class CheckFailed(RuntimeError):
    """A check ended without a number. Nothing was released; what a ledger reserved stays spent."""


class NobodyAnswered(CheckFailed):
    """No client of a check sent a number: it cost nothing, but what began a session."""


class SessionOver(CheckFailed):
    """A standing session cannot continue: a part of it was lost, or restored from a backup."""

    def __init__(self, why: str) -> None:
        super().__init__(
            f"the standing session is over: {why}. Begin another one by another "
            "Standing(…, name=…), which is charged anew"
        )


class SessionBusy(CheckFailed):
    """Another server runs a night of the same standing session; nobody was asked."""


class SessionMismatch(QueryRefused):
    """The server and a node remember different nights of a session."""

    def __init__(self, why: str, night: int) -> None:
        super().__init__(why)
        self.night = night  # The last one that only one of the two remembers


class SecureSumError(RuntimeError):
    """A secure sum failed; no value was released."""


class Malformed(SecureSumError):
    """The bytes are not a message of this version of the protocol."""


class WrongSession(SecureSumError):
    """The message, or the question behind it, belongs to another session."""


class RosterMismatch(SecureSumError):
    """The two sides list different clients, or a client's key changed."""


class NotInvited(SecureSumError):
    """The client is not in the cohort that it is asked to join."""


class CohortTooSmall(SecureSumError):
    """The cohort, or the survivors asked for, are fewer than the client's own minimum."""


class ThresholdTooLow(SecureSumError):
    """Too few clients suffice to reconstruct a secret, or to complete a sum."""


class TooFewNeighbours(SecureSumError):
    """The graph has too few neighbours for the coalition that the client must withstand."""


class TooFewSurvivors(SecureSumError):
    """Too many clients dropped out; the sum is given up without a value."""


class KeyReused(SecureSumError):
    """A one-use key appears a second time."""


class BadSignature(SecureSumError):
    """The signature is not the sender's over this message in this session."""


class Tampered(SecureSumError):
    """A sealed or shared value does not open to what its owner put in."""


class MissingMask(SecureSumError):
    """A neighbour is said to be in the sum whose mask the client never added."""


class NotASurvivor(SecureSumError):
    """The client sent its vector and is said to have dropped out."""


class EquivocatingSurvivors(SecureSumError):
    """Neighbours received another list of survivors, or the request contradicts the list."""


class BothShares(SecureSumError):
    """The server asks for the seed and the mask key of one client: together they open its data."""


class Replayed(SecureSumError):
    """The message was answered before."""


class OutOfOrder(SecureSumError):
    """The message belongs to another phase."""


class UnknownSender(SecureSumError):
    """The message comes from a client that is not part of this phase."""


class LedgerError(RuntimeError):
    """The ledger rejects a check, or cannot be read or written."""


class LedgerUnavailable(LedgerError):
    """The database cannot be opened, read or written; the message gives the cause."""


class StateChanged(LedgerError):
    """Another check has changed a state since this one read it."""


class NoBudget(LedgerError):
    """A population has no budget, so nothing may be spent."""

    def __init__(self, population: str) -> None:
        super().__init__(
            f"population {population!r} has no budget: set one with "
            f"Ledger.set_budget(Budget(…, population={population!r}))"
        )


def damaged(what: str) -> LedgerUnavailable:
    """Return the error of a row that differs from what was written."""
    return LedgerUnavailable(f"{what} in the ledger is damaged: restore it from a backup")


class BudgetExhausted(LedgerError):
    """A check does not fit into the budget of the people it would ask.

    Parameters
    ----------
    message : str
        What is short.
    left : float
        Epsilon that the most-charged of them has left, in nats.
    frees_at : datetime or None
        UTC; from when on the same check fits if nothing else is spent. None if it never does.
    """

    def __init__(self, message: str, *, left: float, frees_at: datetime | None) -> None:
        super().__init__(message)
        self.left = left
        self.frees_at = frees_at
