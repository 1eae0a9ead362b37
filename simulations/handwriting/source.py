"""One name for each source of handwriting, as commands and run configs give it."""

from collections.abc import Iterable
from pathlib import Path

from flwr_kld.clients.handwriting.dataset import DIGITS, Handwriting
from flwr_kld.clients.handwriting.sources import load_femnist, load_leaf, load_npz
from flwr_kld.simulations.handwriting.source import load_digits

_FEMNIST_WRITERS = 500


def load_source(source: str | Path, *, labels: Iterable[int] = DIGITS) -> Handwriting:
    """Load a source by its name."""
    if str(source) == "digits":
        return load_digits(1).with_labels(labels)
    if str(source) == "femnist":
        return load_femnist(range(_FEMNIST_WRITERS), labels=labels)
    if Path(source).is_dir():
        return load_leaf(source, labels=labels)
    return load_npz(source).with_labels(labels)
