"""A night of a standing session: remembered first, then receipted, then counted."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Mapping

from flwr.app import Context

from flwr_kld.clients.admission import account, admit, answering
from flwr_kld.clients.check_memory import standing_file, unusable
from flwr_kld.clients.own_records import Records
from flwr_kld.errors import QueryRefused
from flwr_kld.messages.terms import Terms
from flwr_kld.standing.memory import remembering


def tokens_tonight(
    context: Context,
    terms: Terms,
    records: Mapping[int, Records],
    answered: Mapping[int, int],
    refused: dict[int, str],
) -> dict[int, bytes]:
    """Let members' records be what their sessions count, and return the token of each.

    In this order no memory is behind its receipts unless it was put back to an older one.

    Parameters
    ----------
    records : Mapping[int, Records]
        Those of each member, as loaded.
    answered : Mapping[int, int]
        Last night of each member in its receipts.
    refused : dict[int, str]
        Gets the others, with the reason.
    """
    tokens, file = dict[int, bytes](), standing_file(context)
    try:
        with remembering(file, time.time()) as memory:
            for member, own in records.items():
                try:
                    name = account(context, member)
                    tokens[member] = own.tonight(memory, terms, name, answered[member])
                except QueryRefused as error:
                    refused[member] = str(error)
    except (sqlite3.Error, OSError) as error:
        raise unusable(file, error) from None
    for member in list(tokens):
        with answering(refused, member):
            admit(context, terms, member)
    return {member: token for member, token in tokens.items() if member not in refused}
