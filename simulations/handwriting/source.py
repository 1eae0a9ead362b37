"""One name for each source of handwriting, as commands and run configs give it."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from flwr_kld.clients.handwriting.dataset import Handwriting
from flwr_kld.clients.handwriting.sources import load_femnist, load_leaf, load_npz
from flwr_kld.common.extras import require
from flwr_kld.simulations.handwriting.resample import WriterResampler


def load_digits(clients: int = 10) -> Handwriting:
    """Load the digits, 8x8 with values 0 to 16, and cut them evenly into clients."""
    bunch = require("sklearn.datasets", extra="simulation").load_digits()
    sizes = [len(part) for part in np.array_split(bunch.target, clients)]
    writer = np.repeat(np.arange(clients), sizes)
    return Handwriting(bunch.images.astype(np.uint8), bunch.target, writer, pixels="digits")


def load_source(source: str | Path) -> Handwriting:
    """Load the digits of a source by its name."""
    if str(source) == "digits":
        return load_digits(1)
    if str(source) == "femnist":
        return load_femnist()
    if Path(source).is_dir() or Path(source).suffix == ".json":
        return load_leaf(source)
    return load_npz(source).with_labels()


def split_writers(data: Handwriting, seed: int) -> tuple[Handwriting, Handwriting]:
    """Split at random into two halves that share no writer; of an odd number the first has more."""
    if len(data.writers) < 2:
        raise ValueError("splitting by writer needs at least two writers")
    shuffled = np.random.default_rng(seed).permutation(data.writers)
    in_first = np.isin(data.writer, shuffled[: (len(shuffled) + 1) // 2])
    first, second = (
        replace(data, images=data.images[half], labels=data.labels[half], writer=data.writer[half])
        for half in (in_first, ~in_first)
    )
    return first, second


def load_writers(source: str | Path, writers: int, records: int) -> Handwriting:
    """Load a source; where it names no writers, so many virtual ones redraw it."""
    data = load_source(source)
    if len(data.writers) > 1:
        return data
    resampler = WriterResampler(data, seed=1)
    parts = [resampler.writer(i, records) for i in range(writers)]
    images, labels = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("images", "labels")
    )
    writer = np.repeat(np.arange(writers), records)
    return Handwriting(images, labels, writer, data.pixels)
