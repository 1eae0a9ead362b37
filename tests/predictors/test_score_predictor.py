"""Algorithms 1 and 2: faithful weights from integer sums, mergeable and restorable."""

import json
import math

import numpy as np
import pytest
from predictors.candidates import named, random_laws

from flwr_kld.errors import DomainError
from flwr_kld.kernel.count import InvalidReply
from flwr_kld.kernel.law import SeededBits, SystemBits
from flwr_kld.predictors import LocallyPrivateWMA, PureLocalEXP3
from flwr_kld.predictors.local_report import LocalReport, LocalReports

TABLE = random_laws(3, 8).probabilities
HORIZON = 500


def wma(epsilon=2.0, **more):
    return LocallyPrivateWMA(named(TABLE), epsilon, horizon=HORIZON, **more)


def exp3(epsilon=2.0):
    return PureLocalEXP3(named(TABLE), epsilon, horizon=HORIZON)


def reports(predictor, count, seed=0, round=1):
    labels = np.random.default_rng(seed).integers(8, size=count)
    queries = np.array([predictor.query_of(round, str(i)) for i in range(count)])
    bits = SeededBits(seed)
    symbols = [
        predictor.query(q).answers(labels[i : i + 1], bits)[0] for i, q in enumerate(queries)
    ]
    return LocalReports(round, queries, np.array(symbols))


def losses(predictor, batch, k):
    """Ỹ of eq. (8) and (12) for every report, with the corrected width, from the definitions."""
    each = predictor._each
    width = math.log((k + 1) * HORIZON)
    offset = width / each * (math.log(HORIZON) + math.log(k) + math.log(HORIZON))
    return -(width / 16 * batch.symbols - offset) / (width + 2 * offset)


def test_algorithm_1_is_exponential_weights_at_the_rate_of_lemma_1():
    predictor = wma()
    batch = reports(predictor, 40)
    predictor.update(batch)
    total = losses(predictor, batch, 3).sum(axis=0)
    weights = np.exp(-math.sqrt(2 * math.log(3) / HORIZON) * total)
    np.testing.assert_allclose(predictor.weights, weights / weights.sum(), rtol=1e-9)


def test_algorithm_2_adds_the_loss_of_the_arm_that_was_asked():
    predictor = exp3()
    batch = reports(predictor, 60)
    predictor.update(batch)
    assert set(batch.queries.tolist()) == {0, 1, 2}
    total = np.bincount(batch.queries, losses(predictor, batch, 3)[:, 0])
    weights = np.exp(-math.sqrt(2 * 3 * math.log(3) / HORIZON) * total)
    np.testing.assert_allclose(predictor.weights, weights / weights.sum(), rtol=1e-9)


@pytest.mark.parametrize("make", [wma, exp3])
def test_predictions_mix_in_the_cells_by_lines_5_and_6(make):
    predictor = make()
    cells = np.ceil(8 * TABLE.max(axis=0))
    uniform = cells / cells.sum()
    expected = (1 - 1 / HORIZON) * TABLE.mean(axis=0) + uniform / HORIZON
    np.testing.assert_allclose(predictor.predict(), expected)


def test_scores_are_unbiased_on_the_grid():
    predictor = exp3(epsilon=4.0)
    query, clipping = predictor.query(1), predictor._clipped("")
    draws = 200_000
    grid = math.log(4 * HORIZON) / 16
    noise = query.noises[0]
    for label in (0, 5):
        drawn = noise.draw(np.full(draws, label), SystemBits())
        error = grid * drawn.mean() - clipping.scores[1, label]
        deviation = grid * math.sqrt((noise.table.variance + 0.25) / draws)
        assert abs(error) < 5.5 * deviation  # P < 4e-8 each if unbiased
        assert 20 * deviation < 0.1 * clipping.ranges[1]  # and a bias would show


@pytest.mark.parametrize("make", [wma, exp3])
def test_batch_sequence_permutation_and_merge_agree_to_the_last_bit(make):
    together, one_by_one, left, right = (make() for _ in range(4))
    batch = reports(together, 50)
    together.update(batch)
    order = np.random.default_rng(1).permutation(50)
    for n, i in enumerate(order):
        part = LocalReports(n, batch.queries[[i]], batch.symbols[[i]])
        one_by_one.update(part)
        (left if n % 2 else right).update(part)
    left.merge(right)
    for other in (one_by_one, left):
        assert other.state() == together.state()
        assert other.weights.tobytes() == together.weights.tobytes()


@pytest.mark.parametrize("make", [wma, exp3])
def test_a_restored_state_continues_exactly(make):
    predictor, restored = make(), make()
    predictor.update(reports(predictor, 30))
    restored.restore(json.loads(json.dumps(predictor.state())))
    for one in (predictor, restored):
        one.update(reports(one, 20, seed=5, round=2))
    assert restored.state() == predictor.state()
    assert restored.weights.tobytes() == predictor.weights.tobytes()


@pytest.mark.parametrize("make", [wma, exp3])
def test_impossible_reports_are_refused_and_none_of_their_batch_is_taken(make):
    predictor = make()
    batch = reports(predictor, 10)
    symbols = batch.symbols.copy()
    symbols[7, 0] = 10**9
    bad = [
        LocalReports(1, batch.queries, symbols),
        LocalReports(1, batch.queries + 3, batch.symbols),
        LocalReports(1, batch.queries, np.hstack([batch.symbols, batch.symbols])),
    ]
    for one in bad:
        with pytest.raises(InvalidReply):
            predictor.update(one)
    assert not any(predictor.state()["counts"])
    good = tuple(batch.symbols[0].tolist())
    query = int(batch.queries[0])
    predictor.check(LocalReport(query, good))
    for query_, symbol in ((9, good), (query, (10**9, *good[1:])), (query, (*good, 0))):
        with pytest.raises(InvalidReply):
            predictor.check(LocalReport(query_, symbol))


def test_only_the_same_set_up_is_merged_or_restored():
    predictor = exp3()
    predictor.update(reports(predictor, 5))
    for other in (exp3(epsilon=1.0), PureLocalEXP3(named(TABLE), 2.0, horizon=99)):
        with pytest.raises(ValueError, match="same set-up"):
            other.merge(predictor)
        with pytest.raises(ValueError, match="another set-up"):
            other.restore(predictor.state())
    with pytest.raises(ValueError, match="another set-up"):
        wma().restore(predictor.state())
    changed = PureLocalEXP3(named(TABLE[:, ::-1]), 2.0, horizon=HORIZON)
    with pytest.raises(ValueError, match="have changed"):
        changed.restore(predictor.state())


@pytest.mark.parametrize(
    "broken",
    [
        {"sums": [1, 2]},
        {"sums": None},
        {"sums": ["1"] * len(TABLE)},
        {"sums": [2**63] * len(TABLE)},
        {"counts": [-3] * len(TABLE)},
        {"counts": [True] * len(TABLE)},
        {"counts": [1.0] * len(TABLE)},
        {"contexts": 3},
        {"contexts": {"": 3}},
        {"horizon": str(HORIZON)},
        {"more": 1},
    ],
)
def test_an_unreadable_state_is_refused_and_changes_nothing(broken):
    predictor = exp3()
    predictor.update(reports(predictor, 5))
    before = predictor.state()
    with pytest.raises(ValueError, match=r"not the state of local-exp3|the stored state"):
        predictor.restore(before | broken)
    assert predictor.state() == before


@pytest.mark.parametrize("label", [-1, 8])
def test_a_label_outside_is_refused(label):
    with pytest.raises(DomainError, match="outside the domain"):
        wma().query(0).answer(label, SystemBits())


def test_an_answer_is_one_score_an_arm():
    assert len(wma().query(0).answer(3, SystemBits())) == 3
    assert len(exp3().query(2).answer(3, SystemBits())) == 1


def test_bad_arguments_are_refused():
    with pytest.raises(ValueError, match="delta > 0"):
        wma(delta=0.0)
    with pytest.raises(ValueError, match="horizon"):
        PureLocalEXP3(named(TABLE), 1.0, horizon=1).predict()
    with pytest.raises(ValueError, match="epsilon"):
        exp3(epsilon=-1.0)
