"""The model that a server shows with a question, for columns that are its predictions.

Whatever a server sends in its place, a record is counted once in each column: the promise does not
depend on what the columns are. But it is a server's choice that the loader computes with: one that
raises for some records and not for others would tell of them by its refusal.
"""

from __future__ import annotations

from flwr.app import ArrayRecord, Context, RecordDict

from flwr_kld.errors import QueryRefused
from flwr_kld.messages.question import MODEL


class NoModel(QueryRefused):
    """The server shows no model, and this client's columns are its predictions."""


_SHOWN = "flwr_kld.model"


def keep_model(content: RecordDict, context: Context) -> None:
    """Keep the model of a question until the next one, in place of the last one's."""
    context.state.pop(_SHOWN, None)
    model = content.get(MODEL)
    if isinstance(model, ArrayRecord):
        context.state[_SHOWN] = model


def model_of(context: Context) -> ArrayRecord:
    """Return the model of the question that is being answered.

    Raises
    ------
    NoModel
        If the server showed none.
    """
    model = context.state.get(_SHOWN)
    if not isinstance(model, ArrayRecord):
        raise NoModel(
            "this client's columns need the model, and the server sent none: set KLDrift(…, "
            "with_model=True)"
        )
    return model
