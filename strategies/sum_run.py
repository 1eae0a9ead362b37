"""`SumRun`: one secure sum over Flower's grid, as `SumServer` asks for its messages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from flwr.app import ConfigRecord, RecordDict

from flwr_kld.cohort.cohort import Participant
from flwr_kld.kernel.count import InvalidReply
from flwr_kld.messages.envelopes import ANSWER, PHASE, ROSTER, SUM_ACTION, Answer
from flwr_kld.strategies.exchange import Exchange, failure, refusals
from flwr_kld.strategies.replies import replies
from flwr_kld.sums.errors import SecureSumError
from flwr_kld.sums.messages import Advert, MaskedVector, Reveal, SealedShares, decode
from flwr_kld.sums.server import SumResult, SumServer


class SumRun:
    """One sum over the participants of an exchange."""

    def __init__(self, exchange: Exchange, people: Mapping[str, Participant]) -> None:
        self._exchange, self._people = exchange, people
        self.heard: dict[Participant, str] = {}
        """What first went wrong with a participant; whether it is in the sum, the result says."""
        self.bytes_down = self.bytes_up = 0

    def sum(self, server: SumServer, roster: str) -> SumResult:
        """Run all phases that the server has before it, over clients of a roster."""
        opening: ConfigRecord | None = ConfigRecord({ROSTER: roster})
        requests = dict.fromkeys(server.asked_first, server.session.to_bytes())
        while requests:
            asked = {self._people[server.name(i)]: (i, text) for i, text in requests.items()}
            for participant, payload in self._ask(asked, opening):
                try:
                    message = decode(payload)
                    if not isinstance(message, Advert | SealedShares | MaskedVector | Reveal):
                        raise InvalidReply("this is not a client's message")
                    server.receive(message, server.name(asked[participant][0]))
                except (SecureSumError, InvalidReply) as error:
                    why = f"invalid reply: {type(error).__name__}: {error}"
                    self.heard.setdefault(participant, why)
            opening = None
            requests = {i: request.to_bytes() for i, request in server.advance().items()}
        return server.result()

    def _ask(
        self, asked: Mapping[Participant, tuple[int, bytes]], opening: ConfigRecord | None
    ) -> Iterator[tuple[Participant, bytes]]:
        """Send each participant its request, by node; yield the answers."""
        by_node: dict[int, list[Participant]] = defaultdict(list)
        for participant in asked:
            by_node[participant.node].append(participant)
        messages = []
        for node, members in by_node.items():
            payloads = ConfigRecord({str(p.member): asked[p][1] for p in members})
            content = RecordDict({PHASE: payloads})
            if opening is not None:
                content = self._exchange.opening({PHASE: payloads, ROSTER: opening})
            self.bytes_down += sum(record.count_bytes() for record in content.values())
            messages.append(self._exchange.message(content, node, SUM_ACTION))
        timeout = self._exchange.timeout
        for reply in replies(self._exchange.grid, messages, timeout):
            node = reply.metadata.src_node_id
            members = by_node.get(node, [])
            if reply.has_error():
                self._note(dict.fromkeys(members, failure(reply.error)))
                continue
            yield from self._answers(members, reply.content)

    def _note(self, reasons: Mapping[Participant, str]) -> None:
        for participant, reason in reasons.items():
            self.heard.setdefault(participant, reason)

    def _answers(
        self, members: list[Participant], content: RecordDict
    ) -> Iterator[tuple[Participant, bytes]]:
        record, payloads = content.get(ANSWER), content.get(PHASE)
        try:
            answer = Answer.from_config(record if isinstance(record, ConfigRecord) else {})
        except InvalidReply as error:
            self._note(dict.fromkeys(members, f"invalid reply: {error}"))
            return
        self._note(refusals(members, answer))
        for participant in members:
            payload = (
                payloads.get(str(participant.member))
                if isinstance(payloads, ConfigRecord)
                else None
            )
            if isinstance(payload, bytes):
                self.bytes_up += len(payload)
                yield participant, payload
