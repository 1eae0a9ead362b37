"""Small made-up handwriting: no download, no real data."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from flwr_kld.simulations.scenario import Scenario


@pytest.fixture(scope="module")
def drawn_once() -> Iterator[None]:
    """Draw what a virtual writer holds at a check once: check, predictor and truth each ask."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Scenario, "_virtual", cache(Scenario._virtual))
        yield


@pytest.fixture(scope="session")
def npz(tmp_path_factory) -> Path:
    """Forty writers with thirty 28×28 images each; digit d has its ink in block d."""
    rng = np.random.default_rng(7)
    labels = rng.integers(0, 10, 1200)
    images = np.zeros((1200, 28, 28), dtype=np.uint8)
    for image, digit in zip(images, labels, strict=True):
        row, column = 7 * (digit // 4), 7 * (digit % 4)
        image[row + 1 : row + 6, column + 1 : column + 6] = 200
        if rng.random() < 0.3:
            image[22:26, 22:26] = 90
    path = tmp_path_factory.mktemp("data") / "writers.npz"
    np.savez(path, images=images, labels=labels, writer=np.repeat(np.arange(40), 30))
    return path
