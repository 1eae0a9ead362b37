"""Bytes and seconds of an exchange, from the messages that it sends.

Bytes are payload, as reports count it: what clients are sent and send themselves, without Flower's
own frames. In a check that decides, this is the exchange with the first half; the other one, about
a witness of few levels, is smaller.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from flwr_kld.messages.question import ANSWER, TERMS, Answer, Question
from flwr_kld.messages.sealing import OVERHEAD
from flwr_kld.messages.sum_terms import SumTerms
from flwr_kld.planner.setting import Setting
from flwr_kld.query.plan import QueryPlan
from flwr_kld.secure_aggregation import Roster
from flwr_kld.secure_aggregation import messages as sums
from flwr_kld.secure_aggregation.identity import SIGNATURE
from flwr_kld.secure_aggregation.keys import TAG
from flwr_kld.secure_aggregation.session import Session
from flwr_kld.secure_aggregation.shamir import SHARE
from flwr_kld.secure_aggregation.tolerance import Tolerance, choose_shape
from flwr_kld.secure_aggregation.wire import Slots

_EXCHANGES = {"plain-sum": 1, "secure-sum": 5, "sealed-sum": 2}
_WAIT = 5.0
"""Seconds of an exchange of messages on a deployment, whose nodes poll: 3 to 10."""
_CPU = {"plain-sum": 2e-4, "secure-sum": 1.5e-3, "sealed-sum": 4e-4}
"""Seconds of the server for each client, on one core: 0.2 ms a message of Flower's, and 0.5 ms for
the sum's own arithmetic (``simulations/bench/secure_sum.py``)."""
_SECURE_WORD = 4
_NAME = 22
"""Characters of a client's name: by default its node's id and its number there."""


@dataclass(frozen=True)
class Traffic:
    """What one exchange takes.

    Parameters
    ----------
    down, up : int
        Bytes that a client receives and sends.
    seconds : float
        Rough: how often nodes poll decides.
    """

    down: int
    up: int
    seconds: float


def traffic_of(setting: Setting, plan: QueryPlan) -> Traffic:
    """Add up what a client of a cohort without dropouts is sent and sends."""
    clients = setting.answering
    question = _question(setting, plan)
    name = setting.aggregation or "plain-sum"
    if name == "secure-sum":
        down, up = _secure_sum(setting, question)
    else:
        down, up = _payload(question.to_config()), 4 * question.length
        terms = setting.trust.release_terms
        if terms is not None:
            down += _payload({TERMS: terms.to_json()})
            up += OVERHEAD
        else:
            answer = Answer(question.check, question.plan, [0], []).to_config()
            up += len(answer[ANSWER])
    exchanges = 1 if setting.threshold is None else 2
    seconds = exchanges * (_EXCHANGES[name] * _WAIT + clients * _CPU[name])
    return Traffic(down, up, seconds)


def _question(setting: Setting, plan: QueryPlan) -> Question:
    reference = plan.reference
    return Question(
        check="0" * 16,
        domain=reference.domain.fingerprint,
        reference=reference.fingerprint,
        plan=plan.fingerprint,
        cells=plan.cells,
        wire=plan.wire,
        members=[0],
        trust=setting.trust.noise_source,
        guarantee=setting.trust.guarantee,
        clip=setting.trust.most_records,
        asked=setting.answering,
        selection=plan.selection,
    )


def _payload(config: Mapping[str, Any]) -> int:
    """Bytes of a Flower ConfigRecord, as Flower counts them."""
    return sum(len(key) + _size(value) for key, value in config.items())


def _size(value: Any) -> int:
    if isinstance(value, list):
        return sum(map(_size, value))
    if isinstance(value, str | bytes):
        return len(value)
    return 1 if isinstance(value, bool) else 8


def _secure_sum(setting: Setting, question: Question) -> tuple[int, int]:
    """Bytes of the nine messages of a sum, and of its terms."""
    clients = setting.answering
    known = max(setting.population or 0, clients)
    roster = Roster({f"{i:0{_NAME}d}": i.to_bytes(32, "little") for i in range(known)})
    noise = setting.trust.noise_terms
    counted = noise is not None and noise.guarantee.total_is_public
    terms = SumTerms(question, noise, counted, 8 * _SECURE_WORD, roster.to_json())
    shape = choose_shape(clients, Tolerance())
    session = Session.open(
        roster,
        list(roster.names[:clients]),
        check=question.check,
        plan=question.plan,
        length=terms.length,
        shape=shape,
    )
    k, tag = shape.neighbours, session.tag
    signature = bytes(SIGNATURE)

    def slots(width: int, held: int = k) -> Slots:
        return Slots.of(np.arange(k) < held, np.zeros((held, width), dtype=np.uint8))

    everybody = bytes((clients + 7) // 8)
    down = [
        session.to_bytes(),
        sums.Adverts(tag, slots(sums.ADVERT.itemsize)).to_bytes(),
        sums.Deliveries(tag, slots(sums.BOX)).to_bytes(),
        sums.Survivors(tag, clients, everybody).to_bytes(),
        sums.UnmaskRequest(tag, slots(0), slots(0, 0), slots(TAG)).to_bytes(),
    ]
    key, digest = bytes(32), bytes(32)
    up = [
        sums.Advert(tag, 0, signature, key, key).to_bytes(),
        sums.SealedShares(tag, 0, signature, digest, slots(sums.BOX)).to_bytes(),
        sums.MaskedVector(tag, 0, signature, bytes(_SECURE_WORD * terms.length)).to_bytes(),
        sums.Agreement(tag, 0, signature, digest, slots(TAG)).to_bytes(),
        sums.Reveal(tag, 0, signature, bytes(SHARE), slots(SHARE), slots(SHARE, 0)).to_bytes(),
    ]
    member = len("0")  # the key of a payload in its record
    return (
        _payload(terms.to_config()) + sum(len(text) + member for text in down),
        sum(map(len, up)),
    )
