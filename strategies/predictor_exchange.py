"""The messages of a predictor's round: each client its own query, and one report back."""

from __future__ import annotations

import hashlib
import secrets
from collections import Counter, defaultdict

from flwr.app import ConfigRecord, Message, RecordDict
from flwr.serverapp import Grid

from flwr_kld.cohort.cohort import Participant
from flwr_kld.kernel.count import InvalidReply
from flwr_kld.messages.envelopes import (
    ANSWER,
    MEMBERS,
    PHASE,
    PREDICT_ACTION,
    QUERY,
    TERMS,
    Answer,
    Members,
)
from flwr_kld.messages.terms import Terms
from flwr_kld.predictors.bayes_mixture import BayesMixture
from flwr_kld.predictors.intake import Intake, Rejection
from flwr_kld.predictors.local_report import LocalReport
from flwr_kld.report.predictor_report import LOCAL
from flwr_kld.strategies.exchange import failure, refusal
from flwr_kld.strategies.replies import replies

_TYPE = f"query.{PREDICT_ACTION}"


class PredictorExchange:
    """One round."""

    def __init__(self, predictor: BayesMixture, number: int, context: str, domain: str) -> None:
        self._predictor, self._number, self._context = predictor, number, context
        self._domain = domain
        self._check = secrets.token_hex(8)
        self.intake = Intake(predictor, number)
        """Reports that were taken."""
        self.left_out: Counter[str] = Counter()
        """Clients and reports that were not, by reason."""

    def run(self, grid: Grid, chosen: list[Participant], timeout: float) -> None:
        """Ask everybody, wait, and take every sound report; nobody can stop the others."""
        asked: dict[int, list[Participant]] = defaultdict(list)
        for participant in chosen:
            asked[participant.node].append(participant)
        messages = [
            Message(
                self._content(members, len(chosen)),
                node, _TYPE, ttl=timeout, group_id=str(self._number),
            )
            for node, members in asked.items()
        ]  # fmt: skip
        nodes = set(asked)
        for reply in replies(grid, messages, timeout):
            node = reply.metadata.src_node_id
            members = asked.pop(node, [])
            if not members:  # nobody that was asked, or heard before
                self.left_out[str(Rejection.REPEATED)] += node in nodes
                continue
            if reply.has_error():  # its text may quote a client's data
                self.left_out[failure(reply.error)] += len(members)
                continue
            try:
                self._read(reply.content, members)
            except InvalidReply as error:
                self.left_out[f"invalid reply: {error}"] += len(members)
        self.left_out += Counter({"no reply": sum(map(len, asked.values()))})

    def _content(self, members: list[Participant], asked: int) -> RecordDict:
        """One node's question, each member's query by number, and those queries."""
        which = {
            str(p.member): self._predictor.query_of(self._number, str(p), self._context)
            for p in members
        }
        queries = {
            f"{QUERY}.{number}": ConfigRecord(
                {**self._predictor.query(number, self._context).to_config()}
            )
            for number in set(which.values())
        }
        return RecordDict(
            {
                TERMS: ConfigRecord(self._terms(asked).to_config()),
                MEMBERS: ConfigRecord(Members([p.member for p in members]).to_config()),
                QUERY: ConfigRecord({**which}),
                **queries,
            }
        )

    def _terms(self, asked: int) -> Terms:
        names = "\n".join(self._predictor.hypotheses.names)
        return Terms(
            check=self._check,
            domain=self._domain,
            reference=hashlib.sha256(names.encode()).hexdigest(),
            plan="predictor",
            cells=[1],
            wire=b"",
            trust=LOCAL,
            guarantee=self._predictor.guarantee,
            asked=asked,
        )

    def _read(self, content: RecordDict, members: list[Participant]) -> None:
        record, symbols = content.get(ANSWER), content.get(PHASE)
        answer = Answer.from_config(record if isinstance(record, ConfigRecord) else {})
        if not answer.check and answer.reasons:
            self.left_out[refusal(answer.reasons[0])] += len(members)
            return
        if answer.check != self._check:
            raise InvalidReply("the reply belongs to another round")
        told = symbols if isinstance(symbols, ConfigRecord) else ConfigRecord()
        refused = list(answer.reasons)
        for participant in members:
            sent = told.get(str(participant.member))
            if sent is None:
                self.left_out[refusal(refused.pop(0)) if refused else "no reply"] += 1
            elif isinstance(sent, list) and [type(part) for part in sent] == [int, int]:
                self._take(participant, *(int(part) for part in sent))
            else:
                self.left_out[str(Rejection.IMPOSSIBLE)] += 1

    def _take(self, participant: Participant, query: int, symbol: int) -> None:
        report = LocalReport(query, symbol, self._context)
        rejected = self.intake.take(str(participant), report, self._context)
        if rejected is not None:
            self.left_out[str(rejected)] += 1
