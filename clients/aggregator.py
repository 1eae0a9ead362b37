"""The aggregator's side: open the boxes of a cohort, add up, add the noise, publish; or refuse."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

from flwr_kld.clients.aggregator_limits import AggregatorLimits
from flwr_kld.clients.check_memory import use_once
from flwr_kld.clients.node_files import read_named
from flwr_kld.clients.role import is_aggregator
from flwr_kld.counts.private_counts import (
    LARGEST_CLIENT,
    ClearSum,
    ClientVector,
    vector_from_wire,
)
from flwr_kld.errors import InvalidReply, QueryRefused
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
    Answer,
    Question,
)
from flwr_kld.messages.release_terms import ReleaseOrder, ReleaseTerms
from flwr_kld.messages.sealing import AggregatorKey, NotOpened, SealContext, open_sealed
from flwr_kld.privacy.bits import SystemBits
from flwr_kld.privacy.private import Held
from flwr_kld.query.plan import QueryPlan
from flwr_kld.trust.trusted import Trusted
from flwr_kld.trust.trusted_aggregator import trusted_of

logger = logging.getLogger("flwr_kld")

_USED = "flwr_kld.aggregated"


def aggregate_drift_checks(
    app: ClientApp, *, key: AggregatorKey | None = None, limits: AggregatorLimits | None = None
) -> None:
    """Let a ClientApp serve as the aggregator of `TrustedAggregator`.

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
    """
    own_limits = limits or AggregatorLimits()

    @app.query(ROLE_ACTION)
    def drift_role(message: Message, context: Context) -> Message:
        """Say whether this node is an aggregator: its public key, or nothing."""
        try:
            said = _key(context, key).public.hex()
        except QueryRefused:
            said = "without a key" if is_aggregator(context) else ""
        content = RecordDict({ANSWER: ConfigRecord({ANSWER: said})})
        return Message(content, reply_to=message)

    @app.query(AGGREGATE_ACTION)
    def drift_aggregate(message: Message, context: Context) -> Message:
        """Publish the noised sum of a check, once, or say why not."""
        try:
            limits, used = own_limits.stricter(context.node_config), _key(context, key)
            if limits.memory is None and key is None:
                limits = replace(limits, memory=_default_memory(used))
            published = _aggregate(message.content, context, used, limits)
        except (InvalidReply, QueryRefused) as error:
            return _refuse(message, str(error))
        except Exception as error:  # its text may quote counts
            logger.error("aggregating a drift check failed: %s", type(error).__name__)
            return _refuse(message, f"the sum could not be published ({type(error).__name__})")
        content = RecordDict({PUBLISHED: ConfigRecord(published.to_config())})
        return Message(content, reply_to=message)


def _aggregate(
    content: RecordDict, context: Context, key: AggregatorKey, limits: AggregatorLimits
) -> Published:
    records = {
        name: record if isinstance(record := content.get(name), ConfigRecord) else ConfigRecord()
        for name in (QUESTION, TERMS, PLAN, SEALED)
    }
    question = Question.from_config(records[QUESTION])
    order = ReleaseOrder.from_config(records[TERMS])
    agreed, least = ReleaseTerms.from_json(order.terms), order.least
    agreed.hold_to(question)
    if agreed.aggregator != key.public.hex():
        raise QueryRefused("WrongAggregator: the counts are sealed for another key")
    limits.hold(question)
    plan = plan_of(PlanMessage.from_config(records[PLAN]), question)
    trusted = _central(agreed)  # calibrates for the columns that the plan was found to have
    boxes = _boxes(records[SEALED])
    limits.require(len(boxes), least, "sealed their counts")
    try:  # after a box is opened nothing may fail that depends on what is in it
        trusted.prepare(plan, len(boxes))
    except ValueError as error:
        raise QueryRefused(f"no noise serves these terms: {error}") from None
    use_once(context, _USED, question.check, limits.memory)  # before anything is opened
    opened = _Opened(key, question, plan, order.terms, context.run_id)
    clear = ClearSum(opened.read(boxes), plan)
    why = "".join(f", {n}: {why}" for why, n in Counter(opened.rejected.values()).items())
    limits.require(clear.clients, least, f"are left{why}")
    if agreed.guarantee.total_is_public and clear.is_empty():
        raise QueryRefused("the cohort holds no records: nothing to compare")
    published = trusted.publish(clear, SystemBits())
    return Published.of(question.check, published, clear.clients, opened.rejected)


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

    def read(self, boxes: Mapping[str, bytes]) -> Iterator[ClientVector]:
        """Yield every client's valid counts. A sender is a key of `boxes`: nobody counts twice."""
        often = Counter(boxes.values())
        for sender, box in boxes.items():
            if often[box] > 1:
                self.rejected[sender] = "Duplicated: the same sealed counts under two names"
                continue
            try:
                yield self._counts(sender, box)
            except InvalidReply as error:
                name = "NotOpened: " if isinstance(error, NotOpened) else ""
                self.rejected[sender] = f"{name}{error}"

    def _counts(self, sender: str, box: bytes) -> ClientVector:
        asked = self._question
        sealed_for = SealContext(
            self._run, asked.check, asked.reference, asked.plan, self._terms, sender
        )
        return vector_from_wire(
            Held(open_sealed(self._key, box, sealed_for)),
            self._plan,
            asked.guarantee,
            most=asked.clip or LARGEST_CLIENT,
        )


def _boxes(record: ConfigRecord) -> dict[str, bytes]:
    boxes = {sender: box for sender, box in record.items() if isinstance(box, bytes)}
    if len(boxes) != len(record):
        raise QueryRefused("sealed counts are bytes")
    return boxes


def _key(context: Context, given: AggregatorKey | None) -> AggregatorKey:
    if given is not None:
        return given
    if not is_aggregator(context):
        raise QueryRefused("this node is not an aggregator")
    return read_named(context, "drift-key", "the aggregator's key", AggregatorKey, secret=True)


def _default_memory(key: AggregatorKey) -> Path:
    """Return this machine's file of answered checks for a key, in Flower's own folder."""
    # Imported here: clients do without.
    from flwr.supercore.utils import get_flwr_home

    folder = get_flwr_home() / "flwr-kld"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        logger.error("the memory of checks cannot be kept in %s: %s", folder, error)
        raise QueryRefused("the memory of checks cannot be used: its operator's log says") from None
    return folder / f"aggregated-{key.public.hex()[:16]}.db"


def _refuse(message: Message, reason: str) -> Message:
    content = RecordDict({ANSWER: ConfigRecord(Answer("", "", [], [reason]).to_config())})
    return Message(content, reply_to=message)
