"""Stores the model that a server sends with its terms, for columns that are its predictions.

Whatever a server sends in its place, a record is counted once in each column: the promise does not
depend on what the columns are. But it is a server's choice that the loader computes with: one that
raises for some records and not for others would leak them by its refusal.
"""

from __future__ import annotations

from flwr.app import ArrayRecord, ConfigRecord, Context, RecordDict

from flwr_kld.common.errors import QueryRefused
from flwr_kld.trust.envelopes import MODEL
from flwr_kld.trust.terms import NO_MODEL, Terms, model_fingerprint

_SHOWN, _FINGERPRINT = "flwr_kld.model", "flwr_kld.model.fingerprint"


def store_model(content: RecordDict, context: Context) -> None:
    """Store the model of a check, in place of the last one."""
    for place in (_SHOWN, _FINGERPRINT):
        context.state.pop(place, None)
    model = content.get(MODEL)
    if isinstance(model, ArrayRecord):
        context.state[_SHOWN] = model
        context.state[_FINGERPRINT] = ConfigRecord({MODEL: model_fingerprint(model)})


def require_model(terms: Terms, context: Context) -> None:
    """Reject terms that name another model than the stored one.

    Clients of one sum hide among each other only if all of them count the same: a server that shows
    all but one a model that always answers alike would read that one.
    """
    kept = context.state.get(_FINGERPRINT)
    if terms.model != (kept[MODEL] if isinstance(kept, ConfigRecord) else NO_MODEL):
        raise QueryRefused("the model that the server shows is not the one of its terms")


def model_of(context: Context) -> ArrayRecord:
    """Return the model of the check that is being answered."""
    model = context.state.get(_SHOWN)
    if not isinstance(model, ArrayRecord):
        raise QueryRefused(
            "this client's columns need the model, and the server sent none: show it by "
            "check(grid, model=arrays), or WithDriftChecks(…, show_model=True)"
        )
    return model
