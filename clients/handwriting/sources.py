"""Where handwriting comes from: FEMNIST by flwr-datasets, or an ``.npz`` file.

The first use of FEMNIST downloads it from the Hugging Face Hub; later uses read its cache, and
nothing else with ``HF_HUB_OFFLINE=1`` in the environment.
"""

import zipfile
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from flwr_kld._extras import require
from flwr_kld.clients.handwriting.dataset import DIGITS, Handwriting

_DATASET, _SPLIT, _WRITER = "flwrlabs/femnist", "train", "writer_id"


def load_femnist(partitions: Iterable[int], *, labels: Iterable[int] = DIGITS) -> Handwriting:
    """Load some of FEMNIST's about 3,600 writers.

    Parameters
    ----------
    partitions : iterable of int
        Partition numbers, 0 for the first ``writer_id`` in ascending order, as Flower's
        ``NaturalIdPartitioner`` counts them. A client usually loads one.
    labels : iterable of int, default 0 to 9
        The classes to keep: 0 to 9 are the digits, 10 to 35 A to Z, and 36 to 61 a to z.

    Returns
    -------
    Handwriting
        uint8, 28x28, with bright ink (FEMNIST is dark on white; it is inverted here). The writer
        is the partition number.

    Raises
    ------
    ImportError
        If flwr-datasets is not installed.
    ConnectionError
        If the data set is neither in the cache nor reachable.
    ValueError
        If there is no such partition, or the data set is not 28x28 grey images.
    """
    partitioner = _partitioner()
    images, shown, writer = [np.empty((0, 28, 28), np.uint8)], [np.empty(0, np.int64)], []
    for partition in partitions:
        if not 0 <= partition < partitioner.num_partitions:
            raise ValueError("there is no such partition of FEMNIST")
        columns = partitioner.load_partition(partition).with_format("numpy")[:]
        images.append(np.asarray(columns["image"]))
        shown.append(np.asarray(columns["character"]))
        writer.append(np.full(len(shown[-1]), partition))
    if any(x.shape[1:] != (28, 28) or x.dtype != np.uint8 for x in images):
        raise ValueError("FEMNIST images must be 28x28 and 8-bit grey")
    ink = 255 - np.concatenate(images)
    writers = np.concatenate([np.empty(0, np.int64), *writer])
    everything = Handwriting(ink, np.concatenate(shown), writers, pages=True)
    return everything.with_labels(labels)


@cache
def _partitioner() -> Any:
    """Open the data set once a process and return its partitioner by writer."""
    flwr_datasets = require("flwr_datasets", extra="simulation")
    by_writer = require("flwr_datasets.partitioner", extra="simulation").NaturalIdPartitioner
    federated = flwr_datasets.FederatedDataset(
        dataset=_DATASET, partitioners={_SPLIT: by_writer(_WRITER)}, shuffle=False
    )
    try:
        return federated.partitioners[_SPLIT]
    except OSError:
        raise ConnectionError(
            f"could not download {_DATASET} from the Hugging Face Hub, and it is not in the cache; "
            "connect to the network once, or use load_npz, which needs none"
        ) from None


_ARRAYS = ("images", "labels", "writer")


def load_npz(path: str | Path) -> Handwriting:
    """Load the arrays ``images``, ``labels`` and ``writer``; others are ignored.

    Parameters
    ----------
    path : str or Path
        Written by ``numpy.savez`` or ``numpy.savez_compressed``, without pickled objects.

    Returns
    -------
    Handwriting
        In the order of the file.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If it is not an ``.npz`` file, an array is missing, or one does not fit ``Handwriting``.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file named {path.name!r}")
    if not zipfile.is_zipfile(path):
        raise ValueError(f"{path.name} is not an .npz file; write one with numpy.savez_compressed")
    try:
        with np.load(path, allow_pickle=False) as archive:
            images, labels, writer = (archive[name] for name in _ARRAYS)
    except KeyError:
        raise ValueError(f"{path.name} must hold the arrays images, labels and writer") from None
    except Exception:  # zlib, zipfile and NumPy have an error of their own for each kind of damage
        raise ValueError(
            f"{path.name} is damaged or holds pickled objects; save plain numeric arrays"
        ) from None
    try:
        return Handwriting(images, labels, writer)
    except ValueError as error:
        raise ValueError(f"{path.name}: {error}") from None
