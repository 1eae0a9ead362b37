"""The least divergence that is left if a part of the records were others: by water-filling.

Three questions have this answer. Of clients that were drawn: which divergence may the population
have if a kind of its clients was missed by chance, or drawn too often, or too rarely? Of the
largest client: could its records alone have made this? Proof note: ``docs/proofs/decisions.md``.

`_PARTS`, the parts of the records that a kind which was drawn too often may have too many of, are
steps of a search whose result is never too large. Of half as many, and of twice as many, the least
divergences of three drifts of 20 symbols (.0896, .0232 and .0555 nats as they are) are .0874, .0232
and .0543, or .0907, .0235 and .0562.

Examples
--------
Of two labels one has nearly vanished. If a quarter of the population was missed, it may hold that
label only:

>>> import numpy as np
>>> reference, clients = np.array([0.5, 0.5]), np.array([0.99, 0.01])
>>> f"{least_if_missed(reference, clients, 0.0):.2f}"
'1.42'
>>> f"{least_if_missed(reference, clients, 0.25):.2f}"
'0.13'
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy

from flwr_kld.infer.divergence import skewed_divergence
from flwr_kld.infer.estimators.score import THETA, Floats, in_blocks

_PARTS = np.linspace(0, 0.5, 101)[1:]
_TINY = np.finfo(float).tiny  # Not tuned: keeps divisors from 0


def missed_part(clients: int, error: float) -> float:
    """Return the part of a population that so many drawn clients miss with probability `error`."""
    return -math.expm1(math.log(error) / clients)


def least_if_missed(reference: Floats, law: Floats, part: float, *, theta: float = THETA) -> float:
    """Return the least D_θ, in nats, of a population of whom a part was missed.

    Parameters
    ----------
    reference, law : Floats
        Fractions of the cells, shape [cells], each summing to 1; `law` is that of those drawn.
    part : float
        Part of the population that may follow any other law, in [0, 1].
    theta : float
        θ of D_θ.
    """
    return skewed_divergence(reference, _raised(reference, (1 - part) * law, part), theta)


@dataclass(frozen=True)
class Draw:
    """How clients were drawn, as far as it is public.

    Parameters
    ----------
    clients : int
        That were drawn.
    error : float
        Probability of drawing a kind at least as much too often or too rarely, in (0, 1).
    apart : float
        Mean square of the distances of the clients' laws from that of all their records, at most.
    even : float
        Mean records of a client over those of a record's client, in (0, 1].
    largest : float
        Part of the records that a client holds at most, in (0, 1].
    """

    clients: int
    error: float
    apart: float
    even: float = 1.0
    largest: float = 1.0

    def fewest(self, part: Floats) -> Floats:
        """Return how many of the clients hold such a part of the records, at least."""
        # A part u of the clients makes the sizes' variance, over their squared mean,
        # (x - u)²/u (1 - u) at least, as it and the rest may each have one size.
        unlike = 1 / self.even - 1
        root = np.sqrt(unlike**2 + 4 * unlike * part * (1 - part))
        found = self.clients * (2 * part + unlike - root) / (2 * (1 + unlike))
        return np.minimum(np.maximum(found, part / self.largest), part * self.clients)


def least_if_overdrawn(
    reference: Floats, law: Floats, draw: Draw, *, theta: float = THETA
) -> float:
    """Return the least D_θ, in nats, of a population of whom a kind was drawn too often.

    `reference`, `law` and `theta` are those of `least_if_missed`.
    """
    apart, clients, left = draw.apart, draw.clients, law
    counted = (reference > 0) & (law > 0)
    part, most = _PARTS[:-1], list[Floats]()
    for some in in_blocks(part, len(law)):
        kind = (law - _without(reference, law, some)) / some[:, None]
        # Clients of this law who have a part x of the records add x / (1 - x) times this square to
        # `apart`, and have no more records in a cell of the reference than there are.
        square = ((kind - law) ** 2).sum(axis=1)
        whole = (kind[:, counted] / law[counted]).max(axis=1, initial=1.0)
        most.append(np.minimum(apart / np.maximum(apart + square, _TINY), 1 / whole))
    drawn = np.minimum(np.concatenate(most), 1 - 1 / clients)
    usual = _usual_part(drawn, draw.fewest(drawn), clients, draw.error)
    possible = np.flatnonzero((drawn - usual) * (1 - part) >= part * (1 - drawn))
    if len(possible):
        left = _without(reference, law, _PARTS[possible[-1] + 1])[0]
    return skewed_divergence(reference, left, theta)


def least_if_underdrawn(
    reference: Floats, law: Floats, draw: Draw, *, theta: float = THETA
) -> float:
    """Return a lower bound of D_θ, in nats, of a population of whom too few of a kind were drawn.

    The kind's clients have records of one label only, whichever it is: the population has more of
    them than `law` says, and less of all others in the same proportion. `reference`, `law` and
    `theta` are those of `least_if_missed`.
    """
    apart, clients = draw.apart, draw.clients
    inside = reference > 0
    pi, p = reference[inside], law[inside]
    square = float(law @ law) - p**2 + (1 - p) ** 2  # of the distance between kind and law
    drawn = np.minimum(apart / np.maximum(apart + square, _TINY), np.minimum(p, 1 - 1 / clients))
    kind = np.maximum(draw.fewest(drawn), np.minimum(drawn * clients, 1))
    part = scipy.special.betaincinv(kind + 1, clients - kind, 1 - draw.error)
    each = np.divide(drawn, kind, out=np.full_like(kind, 1 / clients), where=kind > 0)
    own, others = part * each, (1 - part) * (1 - drawn) / (clients - kind)
    usual = own / (own + others)
    highest = usual + (1 - usual) * (p - drawn) / (1 - drawn)
    # D_θ is convex in what the other cells have: no less than along its tangent, of slope `cost`.
    mixed = (1 - theta) * p + theta * pi
    slopes = pi * (1 - theta) * p / mixed
    cost = (slopes.sum() - slopes) / np.maximum(1 - p, _TINY)
    lowest = pi / np.maximum(cost, _TINY) - theta * pi / (1 - theta)
    raised = np.clip(lowest, p, highest)
    less = pi * np.log(((1 - theta) * raised + theta * pi) / mixed) - cost * (raised - p)
    return skewed_divergence(reference, law, theta) - float(less.max(initial=0.0))


def _usual_part(part: Floats, kind: Floats, clients: int, error: float) -> Floats:
    """Return the least part of the records that a kind of so many drawn has in its population."""
    some = kind > 0
    usual = scipy.special.betaincinv(
        kind, clients - kind + 1, error, where=some, out=np.zeros_like(kind)
    )
    own = np.divide(usual * part, kind, where=some, out=np.zeros_like(kind))
    others = (1 - usual) * (1 - part) / (clients - kind)
    return np.asarray(own / (own + others))


def least_if_moved(reference: Floats, law: Floats, part: float, *, theta: float = THETA) -> float:
    """Return the least D_θ, in nats, if a part of the records had any other values.

    Parameters are those of `least_if_missed`; `law` is that of all records.
    """
    left = _without(reference, law, part)[0]
    return skewed_divergence(reference, _raised(reference, left, 1 - float(left.sum())), theta)


def _without(reference: Floats, law: Floats, part: float | Floats) -> Floats:
    """Take parts of the records away: outside the reference, then where the ratio is highest.

    Of each part, what is left, shape [parts, cells].
    """
    part = np.atleast_1d(part)[:, None]
    inside, outside = reference > 0, float(law[reference == 0].sum())
    left = law * np.maximum(1 - part / (outside or 1.0), 0.0)
    left[:, inside] = _lowered(reference[inside], law[inside], np.maximum(part - outside, 0.0))
    return left


def _raised(reference: Floats, law: Floats, added: float) -> Floats:
    """Raise the lowest ratios to the reference to one level, until so much is added."""
    inside = np.flatnonzero(reference)
    order = inside[np.argsort(law[inside] / reference[inside])]
    levels = (added + np.cumsum(law[order])) / np.cumsum(reference[order])
    return np.asarray(np.maximum(law, float(levels.min()) * reference))


def _lowered(reference: Floats, law: Floats, taken: Floats) -> Floats:
    """Lower the highest ratios to the reference to one level, until so much is taken away."""
    # Shapes: taken [parts, 1]; what is returned [parts, cells].
    order = np.argsort(-law / reference)
    levels = (np.cumsum(law[order]) - taken) / np.cumsum(reference[order])
    return np.asarray(np.minimum(law, levels.max(axis=1, keepdims=True, initial=0.0) * reference))
