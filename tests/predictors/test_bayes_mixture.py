"""The Bayesian mixture: exact posterior, integer state, and what survives order and restarts."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numbered import Numbered
from predictors.candidates import named, random_laws

from examples import examples
from flwr_kld.kernel.count import InvalidReply
from flwr_kld.predictors import BayesMixture, Hypotheses
from flwr_kld.predictors.designs import DESIGNS
from flwr_kld.predictors.tally import LocalReports
from flwr_kld.reference import Reference

TABLE = random_laws(4, 11).probabilities
BY_CONTEXT = {"a": random_laws(4, 11, 1).probabilities, "b": random_laws(4, 11, 2).probabilities}
DOMAIN = Numbered(11)


def conditional():
    """Hypotheses of both kinds: constant, and a table."""
    constant = Reference.from_probabilities(DOMAIN, BY_CONTEXT["a"][0])
    tables = [
        {c: Reference.from_probabilities(DOMAIN, laws[j]) for c, laws in BY_CONTEXT.items()}
        for j in (1, 2, 3)
    ]
    return Hypotheses(
        {
            "constant": constant,
            "table": tables[0],
            "other table": tables[1],
            "third table": tables[2],
        },
        floor=0.0,
    )


def batch(predictor, pairs, round=1, context=""):
    queries, symbols = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    return LocalReports(round, queries, symbols, context)


def random_pairs(predictor, count, seed=0, context=""):
    rng = np.random.default_rng(seed)
    sizes = np.diff(predictor.design(context).starts)
    queries = rng.integers(len(sizes), size=count)
    return np.column_stack([queries, rng.integers(sizes[queries])])


def learnt(predictor):
    """All that was learnt, to the last bit."""
    return json.dumps(predictor.state()["rounds"]), predictor.log_weights.tobytes()


@pytest.mark.parametrize("design", ["design", "ovr"])
def test_without_share_the_weights_are_bayes_rule(design):
    predictor = BayesMixture(named(TABLE), 1.0, design=design, share=0.0)
    pairs = random_pairs(predictor, 300)
    for number, part in enumerate(np.array_split(pairs, 7)):
        predictor.update(batch(predictor, part, round=number))
    posterior = np.full(4, 0.25)
    asked = predictor.design()
    for query, symbol in pairs:
        posterior = posterior * asked.law[asked.starts[query] + symbol]
        posterior /= posterior.sum()
    np.testing.assert_allclose(predictor.weights, posterior, rtol=1e-9)
    np.testing.assert_allclose(predictor.predict(), posterior @ TABLE, rtol=1e-9)


def test_with_share_the_weights_are_those_of_a_chain_that_may_switch():
    """Filter of a hidden Markov chain that goes to the prior with probability `share` a round."""
    share, prior = 0.1, np.full(4, 0.25)
    predictor = BayesMixture(named(TABLE), 1.0, share=share)
    rounds = [2, 3, 7, 8]
    pairs = [random_pairs(predictor, 20, seed) for seed in rounds]
    for number, part in zip(rounds, pairs, strict=True):
        predictor.update(batch(predictor, part, round=number))
    switch = (1 - share) * np.eye(4) + share * np.tile(prior, (4, 1))
    asked, law = predictor.design(), prior
    for number in range(2, 9):
        for query, symbol in pairs[rounds.index(number)] if number in rounds else ():
            law = law * asked.law[asked.starts[query] + symbol]
        law = (law / law.sum()) @ switch
    np.testing.assert_allclose(predictor.weights, law, rtol=1e-9)


def test_no_report_leaves_the_prior():
    predictor = BayesMixture(named(TABLE), 1.0)
    np.testing.assert_allclose(predictor.weights, 0.25)
    np.testing.assert_allclose(predictor.predict(), TABLE.mean(axis=0))
    np.testing.assert_allclose(predictor.mixture, 0.25)


REPORTS = st.lists(
    st.tuples(
        st.integers(1, 5), st.sampled_from(["a", "b"]), st.integers(0, 10**6), st.integers(0, 10**6)
    ),
    max_size=60,
)


def feed(predictor, reports, size):
    """Update in pieces of at most `size` reports, in the order given."""
    for start in range(0, len(reports), size):
        piece = reports[start : start + size]
        for number, context in dict.fromkeys((r[0], r[1]) for r in piece):
            sizes = np.diff(predictor.design(context).starts)
            pairs = [
                (q % len(sizes), z % sizes[q % len(sizes)])
                for r, c, q, z in piece
                if (r, c) == (number, context)
            ]
            predictor.update(batch(predictor, pairs, number, context))
    return predictor


HYPOTHESES = conditional()


@settings(max_examples=examples(40))
@given(REPORTS, st.randoms(use_true_random=False), st.integers(1, 20))
def test_batch_sequence_and_permutation_agree_to_the_last_bit(reports, random, size):
    def fresh():
        return BayesMixture(HYPOTHESES, 1.0, design="ovr", share=0.05)

    at_once = feed(fresh(), reports, 100)
    assert learnt(feed(fresh(), reports, 1)) == learnt(at_once)
    shuffled = random.sample(reports, len(reports))
    assert learnt(feed(fresh(), shuffled, size)) == learnt(at_once)


@pytest.mark.parametrize("settled", [0, 3])
def test_a_restored_state_continues_exactly(settled):
    predictor = BayesMixture(HYPOTHESES, 1.0)
    restored = BayesMixture(HYPOTHESES, 1.0)
    for number in range(1, 6):
        for context in ("a", "b"):
            pairs = random_pairs(predictor, 30, number, context)
            predictor.update(batch(predictor, pairs, number, context))
    predictor.settle(settled)
    restored.restore(json.loads(json.dumps(predictor.state())))  # as if the process were killed
    for one in (predictor, restored):
        one.update(batch(one, random_pairs(predictor, 30, 9, "b"), 6, "b"))
        one.settle(5)
    assert json.dumps(restored.state()) == json.dumps(predictor.state())
    assert learnt(restored) == learnt(predictor)
    assert [restored.query_of(7, str(c), "a") for c in range(50)] == [
        predictor.query_of(7, str(c), "a") for c in range(50)
    ]


def test_a_stored_state_names_its_queries_so_another_search_does_not_matter(monkeypatch):
    predictor = BayesMixture(named(TABLE), 1.0, design="design")
    predictor.update(batch(predictor, random_pairs(predictor, 50)))
    state = json.loads(json.dumps(predictor.state()))
    monkeypatch.setitem(DESIGNS, "design", None)  # nobody searches again
    restored = BayesMixture(named(TABLE), 1.0, design="design")
    restored.restore(state)
    assert restored.design().names == predictor.design().names
    assert restored.design().weights == predictor.design().weights
    assert learnt(restored) == learnt(predictor)


def test_settling_changes_no_weight():
    whole, settled = BayesMixture(HYPOTHESES, 1.0), BayesMixture(HYPOTHESES, 1.0)
    for number in range(1, 30):
        for one in (whole, settled):
            pairs = random_pairs(one, 40, number, "a")
            one.update(batch(one, pairs, number, "a"))
        settled.settle(number - 3)
        assert whole.log_weights.tobytes() == settled.log_weights.tobytes()
    assert len(settled.state()["rounds"]) == 4
    with pytest.raises(ValueError, match="settled"):
        settled.update(batch(settled, [[0, 0]], 20, "a"))


def test_only_the_same_set_up_is_restored():
    base = BayesMixture(named(TABLE), 1.0)
    base.update(batch(base, [[0, 0]]))
    others = [
        BayesMixture(named(TABLE), 2.0),
        BayesMixture(named(TABLE), 1.0, design="ovr"),
        BayesMixture(named(TABLE), 1.0, share=0.0),
        BayesMixture(Hypotheses(dict(zip("abcd", laws_of(TABLE), strict=True))), 1.0),
    ]
    for other in others:
        with pytest.raises(ValueError, match="another"):
            other.restore(base.state())
    changed = BayesMixture(named(random_laws(4, 11, 8).probabilities), 1.0)
    with pytest.raises(ValueError, match="changed"):
        changed.restore(base.state())


def laws_of(table):
    return [Reference.from_probabilities(DOMAIN, law) for law in table]


@pytest.mark.parametrize(
    "change",
    [
        {"rounds": {"1": {"": "%%%"}}},
        {"rounds": {"1": {"": "AAAA"}}},
        {"rounds": {"1": {"unknown": ""}}},
        {"rounds": None},
        {"rounds": {"one": {}}, "contexts": {}},
        {"settled": [1, [0.0]]},
        {"settled": 3},
        {"contexts": None},
        {"contexts": {"": 1}},
        {"format": 99},
        {"format": True},
        {"epsilon": "1.0"},
        {"settled": [True, [0.0] * 4]},
        {"settled": [1, ["0"] * 4]},
        {"settled": [1, [0.0] * 4, 1]},
        {"rounds": {"-1": {}}},
        {"rounds": {"01": {}}},
        {"rounds": {"1": {"": 7}}},
        {"rounds": [["1", {}]]},
        {"queries": {"x": [["0|1"]]}},
        {"queries": {"x": [["0|1"], ["1"]]}},
        {"more": 1},
    ],
)
def test_an_unreadable_state_is_refused_and_changes_nothing(change):
    predictor = BayesMixture(named(TABLE), 1.0)
    predictor.update(batch(predictor, random_pairs(predictor, 20)))
    before = learnt(predictor)
    state = predictor.state() | change
    if change == {"rounds": {"one": {}}, "contexts": {}}:
        state["rounds"] = {"one": {"": "AAAA"}}
    with pytest.raises(ValueError, match=r"state|stored|set-up|literal"):
        predictor.restore(state)
    assert learnt(predictor) == before


def test_counts_of_other_queries_are_refused():
    wide, narrow = (BayesMixture(named(TABLE), 1.0, design=d) for d in ("ovr", "mlq"))
    wide.update(batch(wide, [[3, 1]]))
    state = narrow.state() | {key: wide.state()[key] for key in ("rounds", "contexts", "queries")}
    with pytest.raises(ValueError, match="queries"):
        narrow.restore(state)


def test_impossible_reports_are_refused_and_none_of_their_batch_is_taken():
    predictor = BayesMixture(named(TABLE), 1.0, design="ovr")
    good = [[0, 1], [3, 0]]
    for bad in ([4, 0], [-1, 0], [0, 2], [0, -1]):
        with pytest.raises(InvalidReply):
            predictor.update(batch(predictor, [*good, bad]))
    assert predictor.state()["rounds"] == {}


@pytest.mark.parametrize(
    "arguments",
    [
        {"epsilon": 0.0},
        {"epsilon": float("nan")},
        {"design": "best"},
        {"share": 1.0},
        {"share": -0.1},
    ],
)
def test_bad_arguments_are_refused(arguments):
    with pytest.raises(ValueError, match=r"epsilon|design|share"):
        BayesMixture(named(TABLE), **({"epsilon": 1.0} | arguments))


def test_a_change_is_followed_with_share_and_hardly_without():
    def rounds_until_noticed(share):
        predictor = BayesMixture(named(TABLE), 1.0, design="mlq", share=share)
        often = predictor.design().law
        for number in range(1, 400):
            true = 0 if number <= 50 else 2
            counts = np.rint(400 * often[:, true]).astype(int)  # the expected counts, no chance
            symbols = np.repeat(np.arange(len(counts)), counts)
            queries = np.zeros(len(symbols), dtype=np.int64)
            predictor.update(LocalReports(number, queries, symbols))
            predictor.settle(number)
            if number == 50:
                assert predictor.leader.index == 0
            if number > 50 and predictor.leader.index == 2:
                return number - 50
        return None

    assert rounds_until_noticed(0.01) <= 3
    assert rounds_until_noticed(0.0) > 30


def test_a_round_that_no_state_could_name_is_refused():
    with pytest.raises(ValueError, match="round"):
        batch(None, [(0, 0)], round=-1)
