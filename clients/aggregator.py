"""The aggregator's handlers: decrypt a cohort's vectors, add them up, add the noise, publish."""

from __future__ import annotations

import logging
import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Annotated

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from pydantic import Field, StrictFloat, StrictStr

from flwr_kld.clients.answers import refuse, reply_record
from flwr_kld.clients.check_memory import claim, flower_folder, use_once
from flwr_kld.clients.node_config import is_aggregator, read_named, require_known
from flwr_kld.clients.sum_members import IDENTITY, ROSTER, read_roster
from flwr_kld.common.errors import QueryRefused, SessionMismatch
from flwr_kld.common.strict_model import Model, NonNegative, must
from flwr_kld.kernel import Guarantee
from flwr_kld.kernel.arguments import finite, instance, integer, set_fields
from flwr_kld.kernel.count import InvalidReply
from flwr_kld.kernel.law import SystemBits
from flwr_kld.kernel.selection import LabelSum
from flwr_kld.kernel.vector import ClearSum, Held
from flwr_kld.secure_sums import Identity, Roster
from flwr_kld.secure_sums.split_sum import Addition, kept_bytes
from flwr_kld.trust.envelopes import (
    AGGREGATE_ACTION,
    ANSWER,
    CHALLENGE,
    NUMBERS,
    ORDER,
    PROOF,
    PUBLISHED,
    ROLE_ACTION,
    TERMS,
    VERIFIERS,
    Order,
    PartMessage,
    Published,
    Verifiers,
)
from flwr_kld.trust.sealing import (
    AggregatorKey,
    NotOpened,
    SealContext,
    check_public,
    open_sealed,
)
from flwr_kld.trust.session_book import NightAnswers, SessionBook
from flwr_kld.trust.signed_numbers import SIGNED, SignedNumbers
from flwr_kld.trust.terms import Terms

logger = logging.getLogger("flwr_kld")

_USED, _PORTIONS = "flwr_kld.aggregated", "flwr_kld.portions"
_MOST_DELTA = 1e-3
"""Beside a limit of epsilon: of a check with delta near 1, next to no noise keeps any epsilon."""


@dataclass(frozen=True, kw_only=True)
class _NodeConfig(
    Model,
    what="the aggregator's limits in its node config are not readable",
    refused=QueryRefused,
):
    min_clients: NonNegative = 0
    most_epsilon: Annotated[StrictFloat, Field(gt=0)] | None = None
    memory: Annotated[StrictStr, must("be an absolute path", os.path.isabs)] | None = None


@dataclass(frozen=True, kw_only=True)
class AggregatorLimits:
    """An aggregator's own limits. Its node config can make them stricter, but not looser.

    Parameters
    ----------
    min_clients : int
        Fewest clients in a sum; ``drift-min-clients``.
    most_epsilon : float, optional
        Largest epsilon of a check, in nats, whose delta is then at most 1e-3;
        ``drift-most-epsilon``.
    memory : Path, optional
        File in which it writes down every check before it answers; ``drift-memory``. By default
        one for its key in Flower's own folder (``FLWR_HOME``, else ``~/.flwr``); with a key that
        was given to the app, for tests and simulations, no file.
    """

    min_clients: int = 3
    most_epsilon: float | None = None
    memory: Path | None = None

    def __post_init__(self) -> None:
        # A sum over fewer than two clients hides nothing.
        set_fields(
            self, min_clients=integer("min_clients", self.min_clients, least=2, unit="clients")
        )
        if self.most_epsilon is not None:
            most = finite("most_epsilon", self.most_epsilon, above=0, unit="nats")
            set_fields(self, most_epsilon=most)

    def stricter(self, config: Mapping[str, object]) -> AggregatorLimits:
        """Return what satisfies these limits and those of a node config, which must be plain."""
        require_known(config)
        keys = {name: f"drift-{name.replace('_', '-')}" for name in _NodeConfig.__annotations__}
        limits = _NodeConfig.from_file({n: config[key] for n, key in keys.items() if key in config})
        bounds = [e for e in (limits.most_epsilon, self.most_epsilon) if e is not None]
        return AggregatorLimits(
            min_clients=max(limits.min_clients, self.min_clients),
            most_epsilon=min(bounds, default=None),
            memory=self.memory if limits.memory is None else Path(limits.memory),
        )

    def hold(self, guarantee: Guarantee) -> None:
        """Refuse a question beyond these limits."""
        if self.most_epsilon is not None and (
            guarantee.epsilon > self.most_epsilon or guarantee.delta > _MOST_DELTA
        ):
            raise QueryRefused(
                "EpsilonTooLarge: the check asks for more than the aggregator gives: epsilon "
                f"{self.most_epsilon:g}, at a delta of at most {_MOST_DELTA:g}"
            )

    def require(self, clients: int, least: int, what: str) -> None:
        """Refuse a sum over too few clients, by these limits or by the server's."""
        needed = max(self.min_clients, least)
        if clients < needed:
            raise QueryRefused(
                f"CohortTooSmall: {clients} clients {what}; the aggregator's minimum is {needed}"
            )


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

    @app.query(ROLE_ACTION)
    def drift_role(message: Message, context: Context) -> Message:
        """Say whether this node is an aggregator: its public key, with proof, or nothing."""
        asked = message.content.get(CHALLENGE)
        challenge = asked.get(CHALLENGE) if isinstance(asked, ConfigRecord) else None
        try:
            used = _key_of(context, key)
            answer = {ANSWER: used.public.hex(), PROOF: used.proof(check_public(challenge))}
        except QueryRefused:
            answer = {ANSWER: "without a key" if is_aggregator(context) else ""}
        except ValueError:
            return refuse(message, "the challenge is not a public key")
        return reply_record(message, answer)

    @app.query(AGGREGATE_ACTION)
    def drift_aggregate(message: Message, context: Context) -> Message:
        """Answer with the noised sum of a check, or with a part of it, once; or say why not."""
        try:
            bounds, used = own_limits.stricter(context.node_config), _key_of(context, key)
            if bounds.memory is None and key is None:
                bounds = replace(bounds, memory=default_memory(used))
            identity = _identity_of(context)
            order = _Aggregation(message.content, context, used, bounds)
            published = order.run(roster)
        except SessionMismatch as error:
            return refuse(message, str(error), error.night)
        except (InvalidReply, QueryRefused) as error:
            return refuse(message, str(error))
        except Exception as error:  # its text may quote counts
            logger.error("aggregating a drift check failed: %s", type(error).__name__)
            return refuse(message, f"the sum could not be published ({type(error).__name__})")
        answer = reply_record(message, published.to_config(), place=PUBLISHED)
        if identity is not None and not isinstance(published, Verifiers):
            signed = SignedNumbers.of(order.terms, published).signed(identity)
            answer.content[SIGNED] = ConfigRecord({**signed})
        return answer


class _Aggregation:
    """One order, held against an aggregator's own limits."""

    def __init__(
        self, content: RecordDict, context: Context, key: AggregatorKey, limits: AggregatorLimits
    ) -> None:
        self.terms = terms = Terms.from_config(content.get(TERMS))
        """What is asked."""
        self._order = Order.from_config(content.get(ORDER))
        if key.public.hex() not in terms.aggregators:
            raise QueryRefused("WrongAggregator: the counts are sealed for another key")
        limits.hold(terms.guarantee)
        self._boxes = _boxes_of(content.get(NUMBERS))
        self._theirs = [*_boxes_of(content.get(VERIFIERS)).values()]
        self._context, self._key, self._limits = context, key, limits

    def run(self, roster: Roster | None) -> Published | PartMessage | Verifiers:
        """Open the boxes, and answer; `roster` are the clients that one of two knows."""
        if len(self.terms.aggregators) == 1:
            return self._published()
        known = roster or read_named(self._context, ROSTER, "the roster", read_roster, secret=False)
        return self._part(known)

    def _open(self, before: int = 0) -> None:
        """Require enough boxes in time, and claim the one answer, before anything is opened."""
        self.terms.require_in_time(time.time())
        self._limits.require(before + len(self._boxes), self._order.least, "sealed their counts")
        use_once(self._context, _USED, self.terms.check, self._limits.memory)

    def _require(self, clients: int, rejected: Mapping[str, str]) -> None:
        why = "".join(f", {n}: {why}" for why, n in Counter(rejected.values()).items())
        self._limits.require(clients, self._order.least, f"are left{why}")

    def _published(self) -> Published:
        """Return the noised sum."""
        terms = self.terms
        layout, promised = terms.layout, terms.guarantee
        self._open()
        unopened: dict[str, str] = {}
        night, answers = self._night(4 * terms.numbers), self._opened(unopened)
        clear: ClearSum | LabelSum
        if terms.unlisted_labels is not None:
            clear = LabelSum(answers)
        else:
            clear = ClearSum.of_answers(
                answers if night is None else night.read(answers),
                layout,
                promised,
                most=terms.most_records,
            )
        refused = clear.refused if night is None else clear.refused | night.refused
        rejected = unopened | {
            sender: why for sender, why in refused.items() if sender in self._boxes
        }
        self._require(clear.clients, rejected)
        if (
            isinstance(clear, ClearSum)
            and layout.total_is_public(promised)
            and clear.is_empty(promised)
        ):
            raise QueryRefused("the cohort holds no records: nothing to compare")
        # Calibrated now: noise for many columns takes long, and boxes opened that are for them.
        noise = SystemBits() if night is None else night.claim(SystemBits(), clear.refused)
        released = clear.release(terms.central(), noise)
        carried = 0 if night is None else night.carried
        sizes = clear.sizes if isinstance(clear, ClearSum) else None
        return Published.of(terms.check, released, rejected, sizes, carried)

    def _opened(self, unopened: dict[str, str]) -> Iterator[tuple[list[str], Held[list[bytes]]]]:
        """Yield each client's name and what its box holds; put into `unopened` why one does not."""
        often = Counter(self._boxes.values())
        for sender, box in self._boxes.items():
            if often[box] > 1:
                unopened[sender] = "Duplicated: the same sealed counts under two names"
                continue
            sealed_for = SealContext(self._context.run_id, self.terms.fingerprint, sender)
            try:
                yield [sender], Held([open_sealed(self._key, box, sealed_for)])
            except NotOpened as error:
                unopened[sender] = f"NotOpened: {error}"

    def _night(self, size: int) -> NightAnswers | None:
        """Return what is kept of a session, answers of `size` bytes each; None outside of one."""
        if self.terms.night is None:
            return None
        memory = self._limits.memory
        if memory is None:
            raise QueryRefused("the aggregator needs a memory for sessions: drift-memory")
        secret = self._key.shared(self._key.public, b"sessions")
        return SessionBook(memory.with_name(f"{memory.name}.sessions"), secret).open(
            self.terms, size
        )

    def _part(self, roster: Roster) -> PartMessage | Verifiers:
        """Return this aggregator's part of a noised sum, or what it says of a portion's proofs."""
        terms = self.terms
        is_first = self._key.public.hex() == terms.aggregators[0]
        if is_first and not self._theirs:
            # It says the same of the same boxes, whoever asks how often.
            terms.require_in_time(time.time())
            addition = Addition(self._key, terms, self._context.run_id, roster)
            addition.take(self._boxes)
            return Verifiers(terms.check, addition.start())
        night = self._night(kept_bytes(terms))
        addition = Addition(self._key, terms, self._context.run_id, roster, night)
        verifiers = b""
        if is_first:
            self._open()
            addition.take(self._boxes)
            addition.finish(*self._theirs)
        else:
            verifiers = self._decided(addition)
            if self._order.more:
                return Verifiers(terms.check, verifiers)
        addition.close()
        self._require(addition.clients, addition.rejected)
        return PartMessage(
            check=terms.check,
            clients=addition.clients,
            transcript=addition.transcript,
            values=addition.answer(
                terms.central(), SystemBits() if night is None else night.claim(SystemBits())
            ),
            rejected=addition.rejected,
            sizes=addition.sizes,
            records=addition.records,
            verifiers=verifiers,
            carried=0 if night is None else night.carried,
        )

    def _decided(self, addition: Addition) -> bytes:
        """Add up one portion more, once, and return which of its proofs hold."""
        if len(self._theirs) != 1:
            raise QueryRefused("the first aggregator's verifier shares of one portion are needed")
        check, state = self.terms.check, self._context.state
        before = _boxes_of(state.get(_PORTIONS)).get(check, b"")
        if before:
            addition.resume(before)
        if not self._order.more:
            self._open(addition.clients)
        # What is kept leads to one portion only, in whatever process.
        digest = sha256(check.encode() + before).hexdigest()
        claim(self._context, f"{_PORTIONS} {digest}", self._limits.memory)
        addition.take(self._boxes)
        said = addition.decide(*self._theirs)
        state[_PORTIONS] = ConfigRecord({check: addition.saved()} if self._order.more else {})
        return said


def _key_of(context: Context, given: AggregatorKey | None) -> AggregatorKey:
    """Return the aggregator's key: the one that the app was given, or the node's own."""
    if given is not None:
        return given
    if not is_aggregator(context):
        raise QueryRefused("this node is not an aggregator")
    return read_named(context, "drift-key", "the aggregator's key", AggregatorKey, secret=True)


def _identity_of(context: Context) -> Identity | None:
    """Return the key that the aggregator signs its numbers with, if its operator names one."""
    if IDENTITY not in context.node_config:
        return None
    return read_named(context, IDENTITY, "the aggregator's signing key", Identity, secret=True)


def default_memory(key: AggregatorKey) -> Path:
    """Return this machine's file of answered checks for a key, in Flower's own folder."""
    return flower_folder() / f"aggregated-{key.public.hex()[:16]}.db"


def _boxes_of(record: object) -> dict[str, bytes]:
    """Return boxes by sender."""
    found = dict(record) if isinstance(record, ConfigRecord) else {}
    boxes = {sender: box for sender, box in found.items() if isinstance(box, bytes)}
    if len(boxes) != len(found):
        raise QueryRefused("sealed counts are bytes")
    return boxes
