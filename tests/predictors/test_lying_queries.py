"""Whatever query a lying server sends, a client refuses it or answers epsilon-privately, exactly.

The law is that of the sampler itself: every run of random numbers that gives one symbol is counted.
"""

import zlib
from collections import Counter
from fractions import Fraction
from itertools import accumulate, pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from predictors.candidates import named, random_laws
from scripted import ScriptedBits

from examples import examples
from flwr_kld.common.errors import QueryRefused
from flwr_kld.kernel.delta import exp_below
from flwr_kld.kernel.law import TOTAL
from flwr_kld.predictors import BayesMixture
from flwr_kld.predictors.query import Query
from flwr_kld.predictors.tally import LocalReports

LABELS = 7


def implemented(query: Query, label: int) -> dict[int, int]:
    """How many of the 2**128 random numbers give each symbol for a label, from `answer` itself."""
    channel, true = query.channel, int(query.class_of[label])
    weights = [channel.weight(true, z) for z in range(channel.classes)]
    least = min(weights)  # the truth's surplus comes first, then a run a class
    runs = [max(weights) - least, *[least] * channel.classes]
    counts: Counter[int] = Counter()
    for first, past in pairwise([0, *accumulate(runs)]):
        if first < past:
            symbols = {query.answer(label, ScriptedBits.of(n)) for n in (first, past - 1)}
            assert len(symbols) == 1  # between them the sampler is monotone
            counts[symbols.pop()] += past - first
    assert sum(counts.values()) == TOTAL
    return counts


def require_private(query: Query, epsilon: float) -> None:
    laws = [implemented(query, label) for label in range(query.labels)]
    for symbol in range(query.channel.classes):
        of_labels = [law[symbol] for law in laws]
        assert min(of_labels) > 0
        assert Fraction(max(of_labels), min(of_labels)) <= exp_below(epsilon)


def wire(class_of, *, classes=None, epsilon=1.0):
    packed = zlib.compress(np.asarray(class_of, dtype="<u2").tobytes())
    classes = max(2, max(class_of, default=0) + 1) if classes is None else classes
    return {"classes": classes, "epsilon": epsilon, "class_of": packed, "context": '["today"]'}


@settings(max_examples=examples(60))
@given(
    st.lists(st.integers(0, 6), min_size=LABELS, max_size=LABELS),
    st.integers(-1, 9),
    st.sampled_from([1e-9, 0.05, 0.5, 1.0, 4.0, 12.0, 60.0]),
)
def test_any_query_is_refused_or_private(class_of, more, epsilon):
    """A map of one label against all others is as good as any: the channel alone protects."""
    config = wire(class_of, classes=max(class_of) + more, epsilon=epsilon)
    try:
        query = Query.from_config(config, LABELS)
    except QueryRefused:
        return
    assert query.channel.epsilon == epsilon
    require_private(query, epsilon)


HONEST = wire([0, 1, 0, 1, 0, 1, 0])
RAW = np.array([0, 1, 0, 1, 0, 1, 0], dtype="<u2").tobytes()


@pytest.mark.parametrize(
    "change",
    [
        {"epsilon": float("nan")},
        {"epsilon": float("inf")},
        {"epsilon": -1.0},
        {"epsilon": 0.0},
        {"epsilon": 1},
        {"epsilon": "1.0"},
        {"epsilon": [1.0]},
        {"classes": 1},
        {"classes": 0},
        {"classes": -2},
        {"classes": 2.0},
        {"classes": True},
        {"classes": 1 << 200},
        {"channel": "identity"},
        {"class_of": zlib.compress(RAW[:-2])},
        {"class_of": zlib.compress(RAW[:-1])},
        {"class_of": zlib.compress(RAW + RAW)},
        {"class_of": zlib.compress(RAW)[:-3]},
        {"class_of": zlib.compress(RAW) + b"x"},
        {"class_of": zlib.compress(RAW) + zlib.compress(RAW)},
        {"class_of": zlib.compress(b"\x02\x00" + RAW[2:])},
        {"class_of": zlib.compress(b"\xff\xff" + RAW[2:])},
        {"class_of": RAW},
        {"class_of": b""},
        {"class_of": zlib.compress(bytes(1 << 22))},
        {"more": 1},
        {"context": ""},
        {"context": "today"},
        {"context": '["today","tomorrow"]'},
        {"context": "[1]"},
    ],
)
def test_what_is_not_one_query_in_one_form_is_refused(change):
    assert Query.from_config(HONEST, LABELS).channel.classes == 2
    with pytest.raises(QueryRefused):
        Query.from_config(HONEST | change, LABELS)


def test_queries_that_hang_on_earlier_answers_spend_their_sum_and_no_more():
    """Three rounds on one client; each symbol chooses what is asked next, to single it out."""
    epsilon, sets = 0.7, {}
    rng = np.random.default_rng(0)
    for before in product((0, 1), repeat=0), product((0, 1)), product((0, 1), repeat=2):
        for answers in before:
            class_of = rng.integers(0, 2, LABELS).tolist()
            sets[answers] = Query.from_config(wire(class_of, epsilon=epsilon), LABELS)

    def joint(label, answers):
        weights = [implemented(sets[answers[:r]], label)[answers[r]] for r in range(3)]
        return Fraction(weights[0] * weights[1] * weights[2], TOTAL**3)

    bound = exp_below(epsilon) ** 3
    for answers in product((0, 1), repeat=3):
        chances = [joint(label, answers) for label in range(LABELS)]
        assert max(chances) <= bound * min(chances)
    assert sum(joint(3, answers) for answers in product((0, 1), repeat=3)) == 1


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
def test_every_query_that_adapts_is_private_whatever_was_reported(epsilon):
    """Reports that no honest client would send in such numbers steer the queries: they may."""
    predictor = BayesMixture(named(random_laws(21, LABELS).probabilities), epsilon)
    rng = np.random.default_rng(1)
    for number in range(1, 5):
        design = predictor.design(round=number)
        for query in design.queries:
            sent = Query.from_config(query.to_config(), LABELS)
            assert sent.class_of.tolist() == query.class_of.tolist()
            require_private(sent, epsilon)
        queries = rng.integers(len(design.queries), size=1000)
        predictor.update(LocalReports(number, queries + 16 * number, np.zeros(1000, np.int64)))
