"""Every figure of one column from its noisy counts. Post-processing: it costs no privacy.

``docs/figures.md`` says what each figure means, and its convention. The four distances are means
over `drawn_laws`; fractions are unbiased; figures of an ordered column are made in `ordered`.

`_STEPS` of the way from Π to the counts are those at which it is tried how far off a law may look:
with half or twice as many, intervals of the total variation are .140 or .133 wide for .135 in the
cohorts of `drawn_laws`, and all hold.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from flwr_kld.ask.noisy import NoisyCounts
from flwr_kld.ask.plan import QueryPlan
from flwr_kld.infer.allowance import share_apart
from flwr_kld.infer.cell_fractions import as_law, noisy_fractions
from flwr_kld.infer.estimators.design_effect import INDEPENDENT, DesignEffects
from flwr_kld.infer.estimators.score import in_blocks
from flwr_kld.infer.figures.drawn_laws import NEGLIGIBLE, drawn_laws, laws_around
from flwr_kld.infer.figures.fractions import Fraction, fractions
from flwr_kld.infer.figures.numbers import Figure
from flwr_kld.infer.figures.ordered import OrderedFigures, ordered_figures
from flwr_kld.infer.fraction_interval import LEVEL, Floats, group_intervals
from flwr_kld.table.binned import Binned

_STEPS = np.linspace(0, 1, 9)
_TINY = np.finfo(float).tiny  # Not tuned: keeps logarithms finite
_LARGEST = np.array([math.inf, math.log(2), 1.0, 1.0])  # Not tuned: by definition
"""Of `distances`, all of which are at least 0."""


@dataclass(frozen=True)
class ShareFigure(Fraction):
    """Fraction of the records that are missing, other, or in an outer bin."""

    reference: float  # The reference's fraction


@dataclass(frozen=True)
class Figures:
    """How far one column lies from its reference. Everything in it is public."""

    # Population stability index ``Σ (P - Π) ln(P / Π)``, in nats, fractions of at least 1e-4
    psi: Figure
    jensen_shannon: Figure  # Divergence of both from their mean, in nats: at most ln 2
    total_variation: Figure  # ``Σ |P - Π| / 2``, in [0, 1]
    hellinger: Figure  # Distance ``sqrt(1 - Σ sqrt(P Π))``, in [0, 1]
    shares: tuple[ShareFigure, ...]  # Of the outer bins, and of what the domain does not list
    ordered: OrderedFigures | None  # Of `Binned` columns of two edges or more


def figures(noisy: NoisyCounts, effects: DesignEffects = INDEPENDENT) -> Figures:
    """Estimate all figures of a column's population, which read about 0 if nothing drifted."""
    seen = noisy_fractions(noisy)
    psi, jensen_shannon, total_variation, hellinger = _read(
        noisy, seen, effects, distances, _LARGEST
    )
    # The total variation of the very records counted, too: chance among them is in it
    (own,) = _read(noisy, seen, DesignEffects(0.0), _total_variations, _LARGEST[2:3])
    gained = _gained(noisy, seen, effects)
    chance = share_apart(noisy.plan.reference, level=LEVEL)
    return Figures(
        psi=psi,
        jensen_shannon=jensen_shannon,
        total_variation=replace(
            total_variation,
            low=max(min(total_variation.low, own.low, gained[0]) - chance, 0.0),
            high=min(max(total_variation.high, own.high, gained[1]) + chance, 1.0),
        ),
        hellinger=hellinger,
        shares=tuple(_shares(noisy, seen, effects)),
        ordered=ordered_figures(noisy, seen, effects),
    )


def _gained(noisy: NoisyCounts, seen: Floats, effects: DesignEffects) -> tuple[float, float]:
    """Limit what the cells that grew have gained, which is the total variation.

    Clients may differ in just these cells, far more than they do in all cells on average.
    """
    pi = noisy.plan.mass
    grown = (as_law(seen, pi) > pi)[None]
    if effects.average <= 1 or not grown.any():
        return math.inf, -math.inf
    (low,), (high,) = group_intervals(noisy, grown, level=LEVEL, effects=effects)
    return float(low - grown[0] @ pi), float(high - grown[0] @ pi)


def _read(
    noisy: NoisyCounts,
    seen: Floats,
    effects: DesignEffects,
    distances: Callable[[Floats, Floats], Floats],
    largest: Floats,
) -> Iterator[Figure]:
    """Estimate distances of laws, shape [distances, ...], and how large each can be."""
    laws = drawn_laws(noisy, seen, design_effect=effects.average)
    drawn = _sorted(distances, laws, noisy.plan.mass)
    mean, deviation = drawn.mean(axis=1), drawn.std(axis=1)
    cut = int((1 - LEVEL) / 2 * (drawn.shape[1] + 1)) - 1
    # The posterior shrinks drifts that the counts show dimly: what it takes for too much may be
    # true. So ends are at least as far as those of the counts as they are.
    law, pi = as_law(seen, noisy.plan.mass), noisy.plan.mass
    own = distances(law[None], pi)[:, 0]
    on_the_way = pi + _STEPS[:, None] * (law - pi)

    # From below, the nearest law on the way from Π to them that may look as far off as they do;
    # from above, as far as other cohorts of theirs look, less what chance adds. Laws farther on
    # the way than that are not drawn around.
    last = len(_STEPS) - 1
    farthest, usual = np.full((2, len(own), len(_STEPS)), -math.inf)
    between = in_blocks(np.arange(1, last), drawn.shape[1] * len(pi))
    for some in (np.array([0, last]), *between):
        if (farthest[:, :last] >= own[:, None]).any(axis=1).all():
            break
        around = _sorted(distances, laws_around(noisy, on_the_way[some], effects), pi)
        farthest[:, some], usual[:, some] = around[..., -1 - cut], around.mean(axis=2)
    enough = (farthest >= own[:, None]).argmax(axis=1)
    least = distances(on_the_way, pi)[np.arange(len(own)), np.maximum(enough - 1, 0)]
    most = farthest[:, last] + 2 * (own - usual[:, last])
    low, high = np.minimum(drawn[:, cut], least), np.maximum(drawn[:, -1 - cut], most)
    high = np.minimum(high, largest)
    return (Figure(*of_one) for of_one in np.array([mean, deviation, low, high]).T.tolist())


def _sorted(
    distances: Callable[[Floats, Floats], Floats], laws: Iterable[Floats], reference: Floats
) -> Floats:
    """Sort each distance of laws that come in blocks, shape [distances, ...]."""
    return np.sort(np.concatenate([distances(some, reference) for some in laws], axis=-1))


def distances(laws: Floats, reference: Floats) -> Floats:
    """PSI, Jensen-Shannon, total variation, Hellinger of each law, shape [4, ...]."""
    # Shapes: laws [..., cells].
    found = np.empty((len(_LARGEST), *laws.shape[:-1]))
    log_p, log_pi = np.log(np.maximum(laws, _TINY)), np.log(np.maximum(reference, _TINY))
    apart = np.maximum(log_p, math.log(NEGLIGIBLE))
    apart -= np.maximum(log_pi, math.log(NEGLIGIBLE))
    more = np.maximum(laws, NEGLIGIBLE)
    more -= np.maximum(reference, NEGLIGIBLE)
    np.einsum("...c,...c->...", more, apart, out=found[0])
    log_middle = np.add(laws / 2, reference / 2 + _TINY, out=apart)
    np.log(log_middle, out=log_middle)
    log_p -= log_middle
    np.einsum("...c,...c->...", laws, log_p, out=found[1])
    found[1] += np.subtract(log_pi, log_middle, out=log_middle) @ reference
    found[1] /= 2
    found[2:3] = _total_variations(laws, reference)
    # 1 - Σ sqrt(P Π), without its rounding errors near 0
    roots = np.sqrt(laws, out=more)
    roots -= np.sqrt(reference)
    found[3] = np.sqrt(np.einsum("...c,...c->...", roots, roots) / 2)
    # But for rounding they are in their range
    most = _LARGEST.reshape(-1, *(1,) * (found.ndim - 1))
    return np.asarray(np.clip(found, 0, most))


def _total_variations(laws: Floats, reference: Floats) -> Floats:
    apart = laws - reference
    return np.asarray(np.abs(apart, out=apart).sum(axis=-1)[None] / 2)


def _shares(noisy: NoisyCounts, seen: Floats, effects: DesignEffects) -> Iterator[ShareFigure]:
    names, symbols = _kinds(noisy.plan)
    expected = (symbols @ noisy.plan.reference.probabilities).tolist()
    found = fractions(noisy, seen, names, symbols, effects)
    for own, of_reference in zip(found, expected, strict=True):
        numbers = own.value, own.deviation, own.low, own.high
        yield ShareFigure(own.name, *numbers, reference=of_reference)


def _kinds(plan: QueryPlan) -> tuple[list[str], NDArray[np.bool_]]:
    """Names of fractions that are shown, and the symbols of each, shape [names, symbols]."""
    domain = plan.reference.domain
    rows = [domain.unlisted_index() == i for i in range(len(domain.unlisted))]
    names = list(domain.unlisted)
    if isinstance(domain, Binned):
        outer = (0, len(domain.edges))
        names = [domain.name_of(bin_) for bin_ in outer] + names
        rows = [np.arange(domain.size) == bin_ for bin_ in outer] + rows
    return names, np.array(rows, dtype=np.bool_).reshape(len(rows), domain.size)
