"""The aggregator's side: open the boxes of a cohort, add up, add the noise, publish; or refuse."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

from flwr_kld.clients.aggregator_limits import AggregatorLimits
from flwr_kld.clients.aggregator_node import (
    boxes_of,
    default_memory,
    key_of,
    record_of,
    refuse,
)
from flwr_kld.clients.check_memory import use_once
from flwr_kld.clients.role import is_aggregator
from flwr_kld.clients.split_aggregator import answer_parts
from flwr_kld.errors import QueryRefused
from flwr_kld.kernel.arguments import instance
from flwr_kld.kernel.count import InvalidReply
from flwr_kld.kernel.law import SystemBits
from flwr_kld.kernel.vector import LARGEST_CLIENT, ClearSum, ClientVector, Held, vector_from_wire
from flwr_kld.messages.plan_wire import PlanMessage, plan_of
from flwr_kld.messages.published import Published
from flwr_kld.messages.question import (
    AGGREGATE_ACTION,
    ANSWER,
    PLAN,
    PUBLISHED,
    QUESTION,
    ROLE_ACTION,
    SEALED,
    TERMS,
    Question,
)
from flwr_kld.messages.release_terms import ReleaseOrder, ReleaseTerms
from flwr_kld.messages.sealing import AggregatorKey, NotOpened, SealContext, open_sealed
from flwr_kld.query.noisy import noisy
from flwr_kld.query.plan import QueryPlan
from flwr_kld.sums import Roster
from flwr_kld.trust.trusted import Trusted
from flwr_kld.trust.trusted_aggregator import trusted_of

logger = logging.getLogger("flwr_kld")

_USED = "flwr_kld.aggregated"


def aggregate_drift_checks(
    app: ClientApp,
    *,
    key: AggregatorKey | None = None,
    limits: AggregatorLimits | None = None,
    roster: Roster | None = None,
) -> None:
    """Let a ClientApp serve as the aggregator of `TrustedAggregator`, or one of `TwoAggregators`.

    Every node runs the same app, so the role is decided by the node: an aggregator is started with
    ``--node-config 'drift-role="aggregator" drift-key="/path/key"'``, where the file is one that
    ``AggregatorKey.save`` wrote. On other nodes these handlers refuse. On the aggregator's node the
    handlers of `answer_drift_queries` refuse.

    Parameters
    ----------
    app : ClientApp
        The same that `answer_drift_queries` was given, or one of its own.
    key : AggregatorKey, optional
        For tests and simulations: every node that runs this app is the aggregator, with this key.
        Never put a key into an app that a server ships.
    limits : AggregatorLimits, optional
        Its minimums; the node config can only raise them.
    roster : Roster, optional
        For tests and simulations of `TwoAggregators`: the clients that it knows. By default those
        of the file that the node config names under ``drift-roster``, as on clients.
    """
    instance("app", app, ClientApp, "the node's ClientApp")
    if key is not None:
        instance("key", key, AggregatorKey, "an AggregatorKey")
    if limits is not None:
        instance("limits", limits, AggregatorLimits, "AggregatorLimits(…)")
    if roster is not None:
        instance("roster", roster, Roster, "a Roster")
    own_limits = limits or AggregatorLimits()
    answer_parts(
        app, lambda context: key_of(context, key), own_limits, given=key is not None, roster=roster
    )

    @app.query(ROLE_ACTION)
    def drift_role(message: Message, context: Context) -> Message:
        """Say whether this node is an aggregator: its public key, or nothing."""
        try:
            said = key_of(context, key).public.hex()
        except QueryRefused:
            said = "without a key" if is_aggregator(context) else ""
        content = RecordDict({ANSWER: ConfigRecord({ANSWER: said})})
        return Message(content, reply_to=message)

    @app.query(AGGREGATE_ACTION)
    def drift_aggregate(message: Message, context: Context) -> Message:
        """Publish the noised sum of a check, once, or say why not."""
        try:
            limits, used = own_limits.stricter(context.node_config), key_of(context, key)
            if limits.memory is None and key is None:
                limits = replace(limits, memory=default_memory(used))
            published = _aggregate(message.content, context, used, limits)
        except (InvalidReply, QueryRefused) as error:
            return refuse(message, str(error))
        except Exception as error:  # its text may quote counts
            logger.error("aggregating a drift check failed: %s", type(error).__name__)
            return refuse(message, f"the sum could not be published ({type(error).__name__})")
        content = RecordDict({PUBLISHED: ConfigRecord(published.to_config())})
        return Message(content, reply_to=message)


def _aggregate(
    content: RecordDict, context: Context, key: AggregatorKey, limits: AggregatorLimits
) -> Published:
    records = {name: record_of(content, name) for name in (QUESTION, TERMS, PLAN, SEALED)}
    question = Question.from_config(records[QUESTION])
    order = ReleaseOrder.from_config(records[TERMS])
    agreed, least = ReleaseTerms.from_json(order.terms), order.least
    agreed.hold_to(question)
    if agreed.aggregator != key.public.hex():
        raise QueryRefused("WrongAggregator: the counts are sealed for another key")
    limits.hold(question.guarantee, question.reference)
    plan = plan_of(PlanMessage.from_config(records[PLAN]), question)
    trusted = _central(agreed)  # calibrates for the columns that the plan was found to have
    boxes = boxes_of(records[SEALED])
    limits.require(len(boxes), least, "sealed their counts")
    use_once(context, _USED, question.check, limits.memory)  # before anything is opened
    opened = _Opened(key, question, plan, order.terms, context.run_id)
    clear = ClearSum.of_clients(
        opened.read(boxes), plan.layout, agreed.guarantee, SystemBits(), most=question.clip
    )
    why = "".join(f", {n}: {why}" for why, n in Counter(opened.rejected.values()).items())
    limits.require(clear.clients, least, f"are left{why}")
    if agreed.guarantee.total_is_public and clear.is_empty(agreed.guarantee):
        raise QueryRefused("the cohort holds no records: nothing to compare")
    published = noisy(trusted.publish(clear, plan, SystemBits()), plan)
    return Published.of(question.check, published, clear.clients, opened.rejected, clear.limit)


def _central(terms: ReleaseTerms) -> Trusted:
    """Return the central model that these terms ask for."""
    try:
        return trusted_of(terms)
    except ValueError as error:
        raise QueryRefused(f"no noise serves these terms: {error}") from None


class _Opened:
    """Opens boxes one by one; a bad one is left out by reason."""

    def __init__(
        self, key: AggregatorKey, question: Question, plan: QueryPlan, terms: str, run: int
    ) -> None:
        self._key, self._question, self._terms, self._run = key, question, terms, run
        self._plan = plan
        self.rejected: dict[str, str] = {}

    def read(self, boxes: Mapping[str, bytes]) -> Iterator[tuple[str, ClientVector]]:
        """Yield every client's name and valid counts.

        A sender is a key of `boxes`: nobody counts twice.
        """
        often = Counter(boxes.values())
        for sender, box in boxes.items():
            if often[box] > 1:
                self.rejected[sender] = "Duplicated: the same sealed counts under two names"
                continue
            try:
                yield sender, self._counts(sender, box)
            except InvalidReply as error:
                name = "NotOpened: " if isinstance(error, NotOpened) else ""
                self.rejected[sender] = f"{name}{error}"

    def _counts(self, sender: str, box: bytes) -> ClientVector:
        asked = self._question
        sealed_for = SealContext.of(asked, self._terms, self._run, sender)
        return vector_from_wire(
            Held(open_sealed(self._key, box, sealed_for)),
            self._plan.layout,
            asked.guarantee,
            most=asked.clip or LARGEST_CLIENT,
        )
