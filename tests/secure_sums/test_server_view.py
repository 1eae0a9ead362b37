"""What the server sees before the sum opens is uniform, whatever the data."""

import numpy as np
import pytest
from exact import words
from scipy import stats
from secure_sums.summing import PHASES, Sum, session_of

from flwr_kld.kernel.channels import apply_masks
from flwr_kld.secure_sums import keys
from flwr_kld.secure_sums.messages import Phase, decode
from flwr_kld.secure_sums.shamir import combine

FALSE_ALARM = 1e-8
LENGTH = 40_000


def bytes_of(words: np.ndarray) -> np.ndarray:
    """Each byte of the words, shape [8, words]."""
    return words.astype("<u8").view(np.uint8).reshape(-1, 8).T


def looks_uniform(words: np.ndarray) -> bool:
    """χ² on each byte of the words, and on their successive differences, FA 1e-8 in all."""
    tests = []
    for series in (words, np.diff(words)):
        for place in bytes_of(series):
            tests.append(stats.chisquare(np.bincount(place, minlength=256)).pvalue)
    return min(tests) > FALSE_ALARM / len(tests)


def same_law(one: np.ndarray, other: np.ndarray) -> bool:
    """χ² of homogeneity on each byte, FA 1e-8 in all."""
    pvalues = []
    for places in zip(bytes_of(one), bytes_of(other), strict=True):
        table = [np.bincount(place, minlength=256) for place in places]
        seen = np.array(table)[:, np.sum(table, 0) > 0]
        pvalues.append(stats.chi2_contingency(seen).pvalue if seen.shape[1] > 1 else 1.0)
    return min(pvalues) > FALSE_ALARM / 8


def view(vectors: np.ndarray, check: str) -> tuple[Sum, np.ndarray]:
    """Run to the end; also return the masked vectors as the server received them."""
    total = Sum(session_of(len(vectors), length=vectors.shape[1], check=check), vectors)
    total.run()
    masked = {
        i: np.frombuffer(decode(data).values, "<u8")
        for phase, i, data in total.seen
        if phase is Phase.MASK
    }
    return total, np.stack([masked[i] for i in sorted(masked)])


def counts(seed: int, clients: int = 4) -> np.ndarray:
    return np.random.default_rng(seed).poisson(3.0, (clients, LENGTH)).astype(np.uint64)


def test_masked_vectors_and_all_their_partial_sums_are_uniform():
    vectors = counts(1)
    _, masked = view(vectors, "uniform")
    for subset in range(1, 15):  # every subset but all of them: pairwise masks do not cancel
        members = [i for i in range(4) if subset >> i & 1]
        assert looks_uniform(masked[members].sum(0, dtype=np.uint64))
    assert looks_uniform(masked.sum(0, dtype=np.uint64))  # the self masks still hide the sum


def test_the_test_of_uniformity_has_power():
    vectors = counts(1)
    assert not looks_uniform(vectors[0])
    assert not looks_uniform(vectors.sum(0, dtype=np.uint64))
    rng = np.random.default_rng(2)
    assert not looks_uniform(rng.integers(0, 2**64 - 2**59, LENGTH, np.uint64))  # 3% short
    assert not looks_uniform(
        np.arange(LENGTH, dtype=np.uint64) * 11_400_714_819_323_198_485
    )  # a counter


@pytest.mark.rate(1e-6)
def test_the_view_has_the_same_law_when_one_clients_data_change():
    before, after = counts(1), counts(1)
    after[0] += 1000
    after[1] -= 1000  # the sum, which the server may know, stays
    _, one = view(before, "law")
    _, other = view(after, "law")
    for i in range(4):
        assert same_law(one[i], other[i])
        assert abs(np.corrcoef(one[i], before[i])[0, 1]) < 5.5 / LENGTH**0.5
    assert not same_law(before[0], after[0])  # the test has power


def test_with_the_same_randomness_data_only_shift_the_view():
    # Masks do not depend on the data: so the law of masked = data + mask is uniform for any data.
    before, after = counts(1)[:, :50], counts(2)[:, :50]
    masked = []
    for vectors in (before, after):
        total = Sum(session_of(4, length=50), vectors, label="fixed")
        total.run()
        masked.append(
            [np.frombuffer(decode(total.sent[Phase.MASK, i]).values, "<u8") for i in range(4)]
        )
        others = {key: data for key, data in total.sent.items() if key[0] != Phase.MASK}
        masked.append(others)
    assert np.array_equal(np.array(masked[2]) - np.array(masked[0]), after - before)
    assert masked[1] == masked[3]  # every other message is the same, byte for byte


def test_a_vector_that_comes_too_late_stays_hidden():
    # Called dropped out, its client's pairwise masks are opened; then the self mask must hide it.
    vectors = counts(3)
    total = Sum(session_of(4, length=LENGTH, check="late"), vectors).until(Phase.MASK)
    late, seed = 3, total.client(3).state()["seed"]
    sent = decode(total.answer(late, Phase.MASK, total.requests.pop(late)))
    for phase in PHASES[Phase.MASK :]:
        total.step(phase)
    assert np.array_equal(words(total.server.result()), vectors[:late].sum(0))

    collected, digest = total.collected, total.session.digest
    (secret,) = combine(collected.shares[[late]], collected.held[[late]], 3)
    masks = [
        keys.mask_key(keys.OneUseKey(secret), advert["mask_key"].tobytes(), digest, late, peer)
        for peer, advert in enumerate(collected.adverts[:late])
    ]
    view = np.frombuffer(sent.values, "<u8").copy()
    apply_masks(view, masks, [])  # the lower of two clients added, so this one subtracted
    assert looks_uniform(view)
    apply_masks(view, [], [keys.self_mask_key(seed, digest, late)])
    assert np.array_equal(view, vectors[late])  # so the self mask is all that hid it


def test_nothing_shows_a_value():
    vectors = np.full((3, 4), 123_456, np.uint64)
    total = Sum(session_of(3), vectors)
    result = total.run()
    shown = [repr(result), repr(total.server), *map(repr, total.clients.values())]
    shown += [repr(decode(data)) for data in total.sent.values()]
    assert not any("123456" in text or "370368" in text for text in shown)
    assert not any(
        decode(data).signature.hex() in text for data in total.sent.values() for text in shown
    )
