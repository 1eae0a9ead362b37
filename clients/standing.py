"""Answers a night of a standing session: stores it, writes receipts, then counts."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Mapping

from flwr.app import Context

from flwr_kld.clients.admission import Gate, reason_of
from flwr_kld.clients.check_memory import standing_file, unusable
from flwr_kld.clients.own_records import Records
from flwr_kld.trust.session_memory import remembering
from flwr_kld.trust.terms import Terms


def session_tokens(
    context: Context,
    terms: Terms,
    gate: Gate,
    records: Mapping[int, Records],
    answered: Mapping[int, int],
    refused: dict[int, str],
) -> tuple[dict[int, bytes], int]:
    """Let members' records be what their sessions count; return the token of each.

    Return also the last night of a member that does not lead to this one, 0 if there is none.

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
    file, node = standing_file(context), str(context.node_config.get("partition-id", ""))
    counting = dict[int, Records]()
    try:
        with remembering(file, terms, node, time.time()) as memory:
            for member, own in records.items():
                if (why := memory.refusal(member, answered[member])) is None:
                    counting[member] = own
                else:
                    refused[member] = why
            tokens = Records.count_session(memory, counting)
    except (sqlite3.Error, OSError) as error:
        raise unusable(file, error) from None
    for member in counting:
        try:
            gate.admit(member)
        except Exception as error:
            refused[member] = reason_of(error)
    mine = {member: token for member, token in tokens.items() if member not in refused}
    return mine, memory.other_night
