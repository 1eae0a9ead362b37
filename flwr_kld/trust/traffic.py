"""What an exchange weighs under a trust model, from the messages that its terms call for.

Bytes are payload, as reports count it: what clients are sent and send themselves, without Flower's
own frames. In a check that decides, this is the exchange with the first half; the other one, about
a witness of few levels, is smaller.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from flwr_kld.messages.question import ANSWER, TERMS, Answer, Question
from flwr_kld.messages.release_terms import ReleaseTerms
from flwr_kld.messages.sealing import OVERHEAD
from flwr_kld.messages.sum_terms import NoiseTerms, SumTerms
from flwr_kld.secure_aggregation import Roster
from flwr_kld.secure_aggregation.payload import payload_of_sum

_WORD = 4
"""Bytes of a number, in the clear, sealed, or in the ring of a usual secure sum."""
_NAME = 22
"""Characters of a client's name: by default its node's id and its number there."""
_MEMBER = len("0")
"""A client's number on its node: the key of what it is sent."""


class Traffic(NamedTuple):
    """Bytes that one client receives (`down`) and sends (`up`) in an exchange."""

    down: int
    up: int


def plain_traffic(question: Question) -> Traffic:
    """Return what a sum in the clear takes."""
    answer = Answer(question.check, question.plan, [0], []).to_config()
    return Traffic(_payload(question.to_config()), _WORD * question.length + len(answer[ANSWER]))


def sealed_traffic(question: Question, terms: ReleaseTerms) -> Traffic:
    """Return what a sum takes that clients seal to an aggregator."""
    down = _payload(question.to_config()) + _payload({TERMS: terms.to_json()})
    return Traffic(down, _WORD * question.length + OVERHEAD)


def secure_traffic(
    question: Question, noise: NoiseTerms | None, clients: int, known: int
) -> Traffic:
    """Return what a secure sum of `clients` takes, of those whose keys are `known`."""
    roster = Roster({f"{i:0{_NAME}d}": i.to_bytes(32, "little") for i in range(known)})
    counted = noise is not None and noise.guarantee.total_is_public
    terms = SumTerms(question, noise, counted, 8 * _WORD, roster.to_json())
    down, up = payload_of_sum(
        roster,
        check=question.check,
        plan=question.plan,
        clients=clients,
        length=terms.length,
        word=_WORD,
    )
    return Traffic(_payload(terms.to_config()) + sum(size + _MEMBER for size in down), sum(up))


def _payload(config: Mapping[str, Any]) -> int:
    """Bytes of a Flower ConfigRecord, as Flower counts them."""
    return sum(len(key) + _size(value) for key, value in config.items())


def _size(value: Any) -> int:
    if isinstance(value, list):
        return sum(map(_size, value))
    if isinstance(value, str | bytes):
        return len(value)
    return 1 if isinstance(value, bool) else 8
