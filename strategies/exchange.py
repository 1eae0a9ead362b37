"""One check's question to a cohort, and what comes back, whatever the aggregation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from flwr.app import ArrayRecord, ConfigRecord, Error, RecordDict
from flwr.serverapp import Grid

from flwr_kld.cohort.cohort import Participant
from flwr_kld.kernel import Guarantee
from flwr_kld.kernel.count import ClientLimit
from flwr_kld.kernel.law import BitSource, SystemBits
from flwr_kld.kernel.vector import ClearSum, ShareSum
from flwr_kld.messages.question import MODEL, NO_MODEL, Answer, Question, model_fingerprint
from flwr_kld.messages.release_terms import ReleaseTerms
from flwr_kld.messages.split_terms import SplitTerms
from flwr_kld.query.noisy import ClientSums, NoisyCounts
from flwr_kld.query.plan import QueryPlan


@dataclass(frozen=True)
class Exchange:
    """What is asked, and of whom."""

    grid: Grid  # Flower's grid
    chosen: list[Participant]  # The cohort
    plan: QueryPlan  # The cells
    check: str  # Random id of the check, which replies repeat; Flower group id of its messages
    group: str
    clip: int  # Most records one participant may count; 0 for no limit
    trust: str  # Who adds the noise, `Trust.noise_source`
    guarantee: Guarantee  # What the check promises
    timeout: float  # Seconds to wait for the replies to each message
    # What an aggregator, or two, are to do with the sum, where there are any
    release: ReleaseTerms | SplitTerms | None = None
    model: ArrayRecord | None = None  # Shown to clients beside the question
    again: bool = False  # Whether the same cohort is asked once more in this check
    follows: str = ""  # `check` of the exchange that was said to come again, if this is that one
    # For samples of what a client counts too much
    bits: BitSource = field(default_factory=SystemBits)

    def opening(self, records: Mapping[str, ConfigRecord]) -> RecordDict:
        """Return what a client is first sent: the records, and the model if it is shown one."""
        shown = {} if self.model is None else {MODEL: self.model}
        return RecordDict({**records, **shown})

    def question(self, members: list[int]) -> Question:
        """Return the question for some members of a node."""
        reference = self.plan.reference
        return Question(
            check=self.check,
            domain=reference.domain.fingerprint,
            reference=reference.fingerprint,
            plan=self.plan.fingerprint,
            cells=self.plan.cells,
            selection=self.plan.selection,
            wire=self.plan.wire,
            members=members,
            trust=self.trust,
            guarantee=self.guarantee,
            asked=len(self.chosen),
            clip=self.clip,
            score_wire=self.plan.score_wire,
            columns=len(self.plan.parts),
            model=self._shown,
        )

    @cached_property
    def _shown(self) -> str:
        return NO_MODEL if self.model is None else model_fingerprint(self.model)


@dataclass(frozen=True)
class NoisySum:
    """Public: a sum that reached the server with its noise."""

    clients: int  # Number of clients in the sum
    published: NoisyCounts | ClientSums  # What an aggregator published


@dataclass(frozen=True)
class Collected:
    """What came back from a cohort."""

    # Sum over the survivors: private until the trust model publishes it, or noised already
    total: ClearSum | ShareSum | NoisySum
    left_out: dict[Participant, str]  # Why each participant that is not in the sum is not
    bytes_down: float  # Payload for each participant asked, mean
    bytes_up: float
    # What one client counts, where whoever adds up sees it and it is public
    limit: ClientLimit | None = None


NO_REPLY = "no reply"
LONGEST_REASON = 200


def by_reason(left_out: Mapping[Participant, str]) -> dict[str, int]:
    """Count participants that were left out, each once."""
    return dict(Counter(left_out.values()))


def missing(
    chosen: Iterable[Participant], counted: Container[Participant], heard: Mapping[Participant, str]
) -> dict[Participant, str]:
    """Say why each participant that was not counted was not; silence is a reason.

    Whatever was heard of one that was counted in the end (a repeated message, say) is none.
    """
    return {p: heard.get(p, NO_REPLY) for p in chosen if p not in counted}


def refusals(members: Iterable[Participant], answer: Answer) -> dict[Participant, str]:
    """Say why members of one node did not answer, in the order in which the node says it.

    A node gives a reason for each of them, or one for all.
    """
    reasons = [refusal(reason) for reason in answer.reasons]
    unanswered = [p for p in members if p.member not in answer.answered]
    return dict(zip(unanswered, reasons + reasons[-1:] * len(unanswered), strict=False))


def plain(reason: str) -> str:
    """Quote a node's reason: short, and nothing that a terminal would obey."""
    return "".join(filter(str.isprintable, reason[:LONGEST_REASON]))


def refusal(reason: str) -> str:
    """Quote a client's refusal."""
    return f"refused: {plain(reason)}"


_SILENT = (3, 4, 5)
"""Flower's words for a node that said nothing in time: message, reply or node unavailable."""


def failure(error: Error) -> str:
    """Say why a reply is an error; its text may quote a client's data, its code does not."""
    return NO_REPLY if error.code in _SILENT else f"client error (Flower code {error.code})"
