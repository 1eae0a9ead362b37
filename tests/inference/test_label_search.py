"""Names in noise: what many share is found, nothing else, and the estimates are near."""

import numpy as np
import pytest

from flwr_kld.domain.tree_code import LENGTHS, POSITIONS, SYMBOLS, cut, encoded
from flwr_kld.inference import label_search
from flwr_kld.inference.label_search import Search

NOISE = 30.0
RNG = np.random.default_rng(4)


def sums(rng, names: dict[str, int], rare: int = 2000, noise: float = NOISE):
    total = rng.normal(0, noise, (POSITIONS, SYMBOLS))
    total += rng.multinomial(rare, np.full(SYMBOLS, 1 / SYMBOLS), size=POSITIONS)
    for place, cells in enumerate(total):
        np.add.at(cells, encoded([*map(cut, names)], "s", place), [*names.values()])
    return Search(total, noise**2, "s")


def test_chances_of_bytes_are_chances():
    """They add up to 1 at most, or the bound on wrong names would not hold."""
    starts = np.array([[byte] for byte in range(256)], dtype=np.uint8)
    for costs in (label_search._log_chance(np.zeros((1, 0), np.uint8)),
                  label_search._log_chance(starts)):  # fmt: skip
        assert np.exp(costs).sum(axis=1).max() < 1 + 1e-9


def test_nothing_is_found_in_noise():
    rng = np.random.default_rng(1)
    assert sums(rng, {}, 10**5).run() == []


def test_labels_of_too_few_records_to_be_found_make_no_name_together(monkeypatch):
    """A thousand of thirty records each fill the cells unevenly: more so than the noise does."""
    monkeypatch.setattr(label_search, "_KEPT", 64)
    told = {"".join(map(chr, text)): 30 for text in RNG.integers(97, 123, (1000, 12)).tolist()}
    assert sums(RNG, told).run() == []


def test_an_interval_allows_for_the_labels_that_were_not_found(monkeypatch):
    """Ten names among three hundred that are not found: estimates are as far off as is said."""
    monkeypatch.setattr(label_search, "_KEPT", 128)
    texts = ["".join(map(chr, text)) for text in RNG.integers(97, 123, (310, 8)).tolist()]
    told = {text: 600 if place < 10 else 60 for place, text in enumerate(texts)}
    found = sums(RNG, told).run()
    assert {name.text for name in found} == set(texts[:10])
    far = [(name.records - 600) / name.deviation for name in found]
    assert 0.5 < np.sqrt(np.mean(np.square(far))) < 1.6


def test_all_names_are_found_whatever_the_others_weigh(monkeypatch):
    """Names that begin alike, one that a hundred thousand share, and one near the least."""
    monkeypatch.setattr(label_search, "_KEPT", 300)
    rng = np.random.default_rng(2)
    told = {"nurse": 10**5, "nurses": 150, "nursery school teacher": 170, "ÄÖÜ": 90, "x": 70}
    found = sums(rng, told).run()
    assert {name.text for name in found} == set(told)
    for name in found:
        assert abs(name.records - told[name.text]) < 5 * name.deviation


def test_names_with_control_characters_do_not_pass_for_others(monkeypatch):
    """Names that cannot be found would leave their records to wrong ones."""
    monkeypatch.setattr(label_search, "_KEPT", 128)
    told = dict.fromkeys(["line\nbreak", "\t", "a\0b", "\x7f\x85", "baker"], 600)
    for seed in range(3):
        found = sums(np.random.default_rng(seed), told).run()
        assert {name.text for name in found} == set(told)


def test_an_estimate_does_not_count_names_that_begin_alike():
    """Each of a hundred is rare; together they fill the cells of their first letters."""
    rng = np.random.default_rng(3)
    search = sums(rng, {f"number {i:03d}": 8 for i in range(100)}, noise=15.0)
    assert all(name.records < search.shown_from + 5 * name.deviation for name in search.run())
    assert len(search.found) <= 1


@pytest.mark.parametrize("length", LENGTHS)
def test_a_name_of_the_printed_number_of_holders_is_found(length, monkeypatch):
    """Half as many again: of ten, nine with more than probability .999."""
    monkeypatch.setattr(label_search, "_KEPT", 300)
    rng, found = np.random.default_rng(length), 0
    for _ in range(3):
        name = bytes(rng.integers(97, 123, length).astype(np.uint8)).decode()
        records = round(1.5 * sums(rng, {}, 0).needed(length))
        search = sums(rng, {name: records})
        found += name.encode() in search._of_length(length)
    assert found == 3
