"""How one member's numbers leave its node for an aggregator: sealed, or split."""

from __future__ import annotations

from collections.abc import Callable

from flwr.app import Context

from flwr_kld.clients.sum_members import SumMembers
from flwr_kld.common.errors import QueryRefused, SecureSumError
from flwr_kld.kernel.selection import ClientLabels
from flwr_kld.kernel.vector import ClientRows
from flwr_kld.secure_sums.split_sum import split
from flwr_kld.trust.sealing import SealContext
from flwr_kld.trust.terms import Terms

Rows = ClientRows | ClientLabels
"""What some members answer with, a row each."""
Send = Callable[[Rows, int, bytes], bytes]
"""What becomes of one member's numbers, a row of some members', and of its token in a session."""
Channel = Callable[[Terms, Context, int], Send]
"""Makes ready for one member's numbers, before they are counted."""


def sealed(terms: Terms, context: Context, member: int) -> Send:
    """Seal numbers to the one aggregator of the terms."""
    (aggregator,) = map(bytes.fromhex, terms.aggregators)
    sender = f"{context.node_id}:{member}"
    sealed_for = SealContext(context.run_id, terms.fingerprint, sender).to_bytes()
    return lambda rows, row, token: rows.sealed(row, aggregator, sealed_for, token)


def split_by(members: SumMembers) -> Channel:
    """Split and prove numbers for the two aggregators of the terms, signed with a member's key."""

    def channel(terms: Terms, context: Context, member: int) -> Send:
        try:
            name, key = members.name(context, member), members.identity(context, member)
        except SecureSumError as error:
            raise QueryRefused(str(error)) from None

        def send(rows: Rows, row: int, token: bytes) -> bytes:
            if isinstance(rows, ClientLabels):
                raise QueryRefused("labels cannot be split")
            return split(rows.held(row), terms, key, name, context.run_id, token).to_bytes()

        return send

    return channel
