"""The handlers through which a node's clients take part in secure aggregation, phase by phase.

Between phases a client's secrets rest in the node's own ``Context.state``, which never leaves it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

from flwr_kld.clients.admission import Gate, account, policy_of, require_claim, unexpected
from flwr_kld.clients.answers import reply_record
from flwr_kld.clients.check_memory import claim, claims_file
from flwr_kld.clients.deadline import loads_in_time
from flwr_kld.clients.returned_report import await_report
from flwr_kld.clients.shown_model import store_model
from flwr_kld.clients.sum_members import SumMembers
from flwr_kld.common.errors import DomainError, QueryRefused, SecureSumError
from flwr_kld.common.identity import Identity, Roster, claim_text
from flwr_kld.guard.secure_sum_policy import ClientPolicy
from flwr_kld.kernel.count import InvalidReply
from flwr_kld.kernel.vector import SumVector
from flwr_kld.secure_sums.admission import check_policy, check_question
from flwr_kld.secure_sums.client import SumClient
from flwr_kld.secure_sums.messages import Adverts, Deliveries, Phase, Survivors, decode
from flwr_kld.secure_sums.session import Session
from flwr_kld.trust.envelopes import (
    ANSWER,
    CHALLENGE,
    CHALLENGED,
    IDENTITY_ACTION,
    PHASE,
    ROSTER,
    SUM_ACTION,
    TERMS,
    Answer,
    Signers,
    member_of,
)
from flwr_kld.trust.terms import NoiseShares, Terms

logger = logging.getLogger("flwr_kld")

_TERMS, _ROSTER = "flwr_kld.sum.terms", "flwr_kld.sum.roster"
_MEMBER = "flwr_kld.sum.{}"
_NO_PART = "this client is not in a secure sum"

Contribution = Callable[[Context, int, Terms], SumVector]
"""One member's vector for the agreed terms, noise share included."""


def answer_secure_sums(
    app: ClientApp,
    agree: Callable[[Terms, Context], None],
    contribution: Contribution,
    hosted: Callable[[Context], frozenset[int]],
    members: SumMembers,
) -> None:
    """Register the two handlers of a secure sum."""

    @app.query(IDENTITY_ACTION)
    def drift_identity(message: Message, context: Context) -> Message:
        """Say under which names and public keys this node's clients sign, or why not."""
        signers, refused = {}, []
        asked = message.content.get(CHALLENGE)
        challenge = asked.get(CHALLENGE) if isinstance(asked, ConfigRecord) else None
        for m in sorted(hosted(context)):
            try:
                if not isinstance(challenge, bytes) or len(challenge) != CHALLENGED:
                    raise QueryRefused("the challenge is not 32 bytes")
                name, key = members.name(context, m), members.identity(context, m)
                proof = key.sign(claim_text(challenge, f"{context.node_id}:{m}", name))
            except QueryRefused as error:
                refused.append(str(error))
            except Exception as error:  # Flower would send its text
                logger.error("a signing key could not be used: %s", type(error).__name__)
                refused.append(f"the client cannot sign ({type(error).__name__})")
            else:
                signers[str(m)] = (name, key.public.hex(), proof.hex())
        return reply_record(message, Signers(signers, tuple(refused)).to_config())

    @app.query(SUM_ACTION)
    @loads_in_time
    def drift_sum(message: Message, context: Context) -> Message:
        """Answer one phase for each member that is asked, or say why not."""
        handler = _PhaseHandler(context, members, agree, contribution, hosted)
        replies, answer = ConfigRecord(), Answer("", [], [])
        sent_terms = message.content.get(TERMS)
        if isinstance(sent_terms, ConfigRecord):
            store_model(message.content, context)
        try:
            requests = _requests(message.content)
        except QueryRefused as error:
            handler.end_all()  # whose requests these were meant to be cannot be told
            answer.reasons.append(f"{type(error).__name__}: {error}")
            requests = {}
        for member, payload in requests.items():
            key = str(member)
            try:
                if isinstance(sent_terms, ConfigRecord):
                    offered = message.content.get(ROSTER)
                    replies[key] = handler.open(member, payload, sent_terms, offered)
                else:
                    replies[key] = handler.go_on(member, payload)
            except (SecureSumError, DomainError, InvalidReply, QueryRefused) as error:
                handler.end(member)
                answer.reasons.append(f"{type(error).__name__}: {error}")
            except Exception as error:  # Flower would send its text, which may quote anything
                handler.end(member)
                answer.reasons.append(unexpected(error))
            else:
                answer.answered.append(member)
        content = RecordDict({ANSWER: ConfigRecord(answer.to_config()), PHASE: replies})
        return Message(content, reply_to=message)


def _requests(content: RecordDict) -> dict[int, bytes]:
    """Read the request to each member."""
    record = content.get(PHASE)
    found = dict(record) if isinstance(record, ConfigRecord) else {}
    requests = {
        member_of(key): payload for key, payload in found.items() if isinstance(payload, bytes)
    }
    if len(requests) < len(found):
        raise QueryRefused("this is not a server's request")
    return requests


def _text_of(record: object) -> str:
    """Return the server's list of clients, or its fingerprint."""
    text = record.get(ROSTER) if isinstance(record, ConfigRecord) else None
    if not isinstance(text, str):
        raise QueryRefused("the server names no list of clients")
    return text


@dataclass(frozen=True)
class _PhaseHandler:
    """Answers the requests of one message."""

    _context: Context
    _members: SumMembers
    _agree: Callable[[Terms, Context], None]
    _contribution: Contribution
    _hosted: Callable[[Context], frozenset[int]]

    def open(self, member: int, payload: bytes, sent_terms: ConfigRecord, offered: object) -> bytes:
        """Agree to the terms and the list of clients, reserve the spend; make keys."""
        terms = Terms.from_config(sent_terms)
        listed = _text_of(offered)
        if member not in self._hosts:
            raise QueryRefused("this node does not host the client that is asked")
        gate = Gate(self._context, terms)
        gate.judge()
        self._agree(terms, self._context)
        session = Session.from_bytes(payload)
        if session.check != terms.check:
            raise QueryRefused("the sum and the question belong to different checks")
        if isinstance(terms.noise, NoiseShares) and session.min_clients < terms.noise.n_min:
            raise QueryRefused("the server would open a sum of fewer clients than the noise needs")
        roster = self._members.roster(self._context, listed)
        # The list first: tails over a longer one take hours, and noise for more clients minutes.
        check_question(session, roster, terms=terms.fingerprint, length=terms.length)
        check_policy(session, self._policy)
        require_claim(terms, "trusted", "distributed")
        gate.admit(member)
        self._claim(member, session.check, session)
        self._begin(terms, listed)
        client = SumClient(*self._signer(member), roster, self._policy)
        reply = client.advertise(session, terms=terms.fingerprint, length=terms.length)
        self._put_away(member, client)
        return reply.to_bytes()

    def go_on(self, member: int, payload: bytes) -> bytes:
        """Later phases."""
        stored_terms = self._context.state.get(_TERMS)
        if not isinstance(stored_terms, ConfigRecord):
            raise QueryRefused(_NO_PART)
        terms = Terms.from_config(stored_terms)
        terms.require_in_time(time.time())
        listed = _text_of(self._context.state.get(_ROSTER))
        client = self._resumed(member, self._members.roster(self._context, listed))
        request = decode(payload)
        # Two answers from copies of one state would show the client's vector: two vectors under the
        # same masks, or the shares of both its secrets.
        self._claim(member, terms.check, request)
        if isinstance(request, Adverts):
            reply = client.share(request).to_bytes()
        elif isinstance(request, Deliveries):
            vector = self._contribution(self._context, member, terms)
            reply = client.mask(request, vector).to_bytes()
        elif isinstance(request, Survivors):
            reply = client.confirm(request).to_bytes()
        else:
            raise QueryRefused("this is not a server's request")
        self._put_away(member, client)
        return reply

    def _resumed(self, member: int, roster: Roster) -> SumClient:
        """Take up a member's part where it was put away."""
        state = self._context.state.get(_MEMBER.format(member))
        if not isinstance(state, ConfigRecord):
            raise QueryRefused(_NO_PART)
        return SumClient.resume(state, *self._signer(member), roster, self._policy)

    def _signer(self, member: int) -> tuple[Identity, str]:
        members, context = self._members, self._context
        return members.identity(context, member), members.name(context, member)

    def _claim(self, member: int, check: str, request: object) -> None:
        """Claim a member's one answer to this kind of request: each phase has its own kind."""
        phase = type(request).__name__
        answer = f"flwr_kld.sum {check} {account(self._context, member)} {phase}"
        claim(self._context, answer, claims_file(self._context))

    @cached_property
    def _policy(self) -> ClientPolicy:
        """The node's minimums."""
        return policy_of(self._context)

    @cached_property
    def _hosts(self) -> frozenset[int]:
        return self._hosted(self._context)

    def _begin(self, terms: Terms, listed: str) -> None:
        """Keep the terms; a sum under other terms is over, for its members answer by these."""
        state = self._context.state
        begun = {_TERMS: ConfigRecord(terms.to_config()), _ROSTER: ConfigRecord({ROSTER: listed})}
        if any(state.get(place) != record for place, record in begun.items()):
            self.end_all()
            state.update(begun)
        await_report(terms, self._context)

    def end(self, member: int) -> None:
        """End one member's part for good: its secrets go with it."""
        self._context.state.pop(_MEMBER.format(member), None)

    def end_all(self) -> None:
        """End the part of every member of this node."""
        for place in list(self._context.state):
            if place.startswith(_MEMBER.format("")):
                del self._context.state[place]

    def _put_away(self, member: int, client: SumClient) -> None:
        place = _MEMBER.format(member)
        if client.phase >= Phase.DONE:
            self._context.state.pop(place, None)
        else:
            self._context.state[place] = ConfigRecord({**client.state()})
