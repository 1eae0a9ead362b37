"""The side of either of two aggregators: open one's own boxes, add up, add noise, or refuse."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

from flwr_kld.clients.aggregator_limits import AggregatorLimits
from flwr_kld.clients.aggregator_node import boxes_of, default_memory, record_of, refuse
from flwr_kld.clients.check_memory import use_once
from flwr_kld.clients.node_files import read_named
from flwr_kld.clients.sum_members import ROSTER, read_roster
from flwr_kld.errors import QueryRefused
from flwr_kld.kernel.count import InvalidReply
from flwr_kld.kernel.law import SystemBits
from flwr_kld.messages.question import PART_ACTION, PUBLISHED, SEALED, TERMS
from flwr_kld.messages.sealing import AggregatorKey, SealContext
from flwr_kld.messages.split_terms import PartMessage, PartOrder, SplitTerms
from flwr_kld.sums import Roster
from flwr_kld.sums.two_aggregators import Addition
from flwr_kld.trust.two_aggregators import central_of

logger = logging.getLogger("flwr_kld")

_USED = "flwr_kld.parted"


def answer_parts(
    app: ClientApp,
    key_of: Callable[[Context], AggregatorKey],
    own_limits: AggregatorLimits,
    *,
    given: bool,
    roster: Roster | None,
) -> None:
    """Register the handler of an aggregator that is one of two."""

    @app.query(PART_ACTION)
    def drift_part(message: Message, context: Context) -> Message:
        """Answer with this aggregator's part of a noised sum, once, or say why not."""
        try:
            limits, key = own_limits.stricter(context.node_config), key_of(context)
            if limits.memory is None and not given:
                limits = replace(limits, memory=default_memory(key))
            part = _part(message.content, context, key, limits, roster)
        except (InvalidReply, QueryRefused) as error:
            return refuse(message, str(error))
        except Exception as error:  # its text may quote what was sealed
            logger.error("a part of a drift check's sum failed: %s", type(error).__name__)
            return refuse(message, f"the part could not be answered ({type(error).__name__})")
        content = RecordDict({PUBLISHED: ConfigRecord(part.to_config())})
        return Message(content, reply_to=message)


def _part(
    content: RecordDict,
    context: Context,
    key: AggregatorKey,
    limits: AggregatorLimits,
    roster: Roster | None,
) -> PartMessage:
    order = PartOrder.from_config(record_of(content, TERMS))
    terms = SplitTerms.from_json(order.terms)
    limits.hold(terms.guarantee, order.reference)
    try:
        event = central_of(terms)
    except ValueError as error:
        raise QueryRefused(f"no noise serves these terms: {error}") from None
    known = roster or read_named(context, ROSTER, "the roster", read_roster, secret=False)
    sealed_for = SealContext(
        context.run_id, order.check, order.reference, order.question, order.terms, ""
    )
    addition = Addition(key, terms, sealed_for, known)
    boxes = boxes_of(record_of(content, SEALED))
    limits.require(len(boxes), order.least, "sent their parts")
    use_once(context, _USED, order.check, limits.memory)  # before anything is opened
    addition.take(boxes)
    why = "".join(f", {n}: {why}" for why, n in Counter(addition.rejected.values()).items())
    limits.require(addition.clients, order.least, f"are left{why}")
    return PartMessage(
        check=order.check,
        clients=addition.clients,
        transcript=addition.transcript,
        values=addition.answer(event, SystemBits()),
        rejected=addition.rejected,
    )
