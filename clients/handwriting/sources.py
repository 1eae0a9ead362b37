"""Where handwriting comes from: LEAF's files, FEMNIST by flwr-datasets, an ``.npz`` file.

Each ``all_data_*.json`` of LEAF's preprocessing holds ``users``, ``num_samples`` and ``user_data``:
for each user ``x``, a list of images of 784 floats in row order with white background 1.0, and
``y``, their classes 0-61, of which 0-9 are the digits. See https://leaf.cmu.edu. The first use
of FEMNIST downloads it from the Hugging Face Hub; later uses read its cache, and nothing else with
``HF_HUB_OFFLINE=1`` in the environment.
"""

import json
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from flwr_kld._extras import require
from flwr_kld.clients.handwriting.dataset import DIGITS, Handwriting

_FILES = "all_data_*.json"
_SIDE = 28
_CLASSES = 62


def load_leaf(folder: str | Path, *, labels: Iterable[int] = DIGITS) -> Handwriting:
    """Load every ``all_data_*.json`` of a folder, or of its ``train`` and ``test``.

    Parameters
    ----------
    folder : str or Path
        For example ``leaf/data/femnist/data/all_data``, or ``leaf/data/femnist/data`` after LEAF
        has split it into ``train`` and ``test``. A writer of both is one writer.
    labels : iterable of int, default 0 to 9
        The classes to keep: 0 to 9 are the digits, 10 to 35 A to Z, and 36 to 61 a to z.

    Returns
    -------
    Handwriting
        uint8 with bright ink: a pixel of 1.0 becomes 0. Writers are numbered in the order of their
        LEAF names over all files, before classes are dropped.

    Raises
    ------
    FileNotFoundError
        If the folder has no such file.
    ValueError
        If a file is malformed. The message names the file and no value in it.
    """
    folder = Path(folder)
    parts = [folder] if any(folder.glob(_FILES)) else [folder / "train", folder / "test"]
    paths = [path for part in parts for path in sorted(part.glob(_FILES))]
    if not paths:
        raise FileNotFoundError(
            f"neither {folder.name} nor its train and test hold an {_FILES}: "
            "give the folder that LEAF's preprocess.sh wrote"
        )
    wanted = np.array(list(labels), dtype=np.int64)
    users: list[str] = []
    images: list[NDArray[np.uint8]] = []
    shown: list[NDArray[np.int64]] = []
    for path in paths:
        try:
            for user, x, y in _users(path):
                keep = np.isin(y, wanted)
                users.append(user)
                images.append(x[keep])
                shown.append(y[keep])
        except _MalformedError as error:
            name = path.relative_to(folder)
            raise ValueError(f"{name} is not a LEAF FEMNIST file: {error}") from None
    numbers = np.unique(users, return_inverse=True)[1]
    return Handwriting(
        np.concatenate([np.empty((0, _SIDE, _SIDE), np.uint8), *images]),
        np.concatenate([np.empty(0, np.int64), *shown]),
        np.repeat(numbers, [len(y) for y in shown]),
        pages=True,
    )


class _MalformedError(Exception):
    """What is wrong with a file, without its name."""


def _users(path: Path) -> Iterator[tuple[str, NDArray[np.uint8], NDArray[np.int64]]]:
    """Yield name, images [n, 28, 28] and classes [n] of each user of one file."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        raise _MalformedError("it is not valid JSON") from None
    try:
        users, data = content["users"], content["user_data"]
        pairs = [(str(user), data[user]["x"], data[user]["y"]) for user in users]
    except (KeyError, TypeError):
        raise _MalformedError("it needs users, and user_data with x and y for each") from None
    for user, x, y in pairs:
        yield user, *_arrays(x, y)


def _arrays(x: Any, y: Any) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Convert one user's lists; turn white paper 1.0 into no ink 0."""
    try:
        grey, classes = np.array(x, dtype=np.float64), np.array(y)
    except (TypeError, ValueError):
        raise _MalformedError("x must be lists of 784 numbers") from None
    if grey.shape == (0,):  # a user without images
        grey, classes = np.empty((0, _SIDE**2)), classes.astype(np.int64)
    if grey.shape[1:] != (_SIDE**2,):
        raise _MalformedError("x must be lists of 784 numbers")
    if classes.shape != (len(grey),) or classes.dtype.kind != "i":
        raise _MalformedError("y must be a list of integers, one for each image")
    if not ((grey >= 0) & (grey <= 1)).all():
        raise _MalformedError("pixels must be in 0 to 1")
    if ((classes < 0) | (classes >= _CLASSES)).any():
        raise _MalformedError("classes must be in 0 to 61")
    ink = np.rint(255 * (1 - grey)).astype(np.uint8)
    return ink.reshape(-1, _SIDE, _SIDE), classes.astype(np.int64)


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
            "connect to the network once, or use load_leaf or load_npz, which need none"
        ) from None


_ARRAYS = ("images", "labels", "writer")


def load_npz(path: str | Path, *, pixels: Literal["uint8", "digits"] = "uint8") -> Handwriting:
    """Load the arrays ``images``, ``labels`` and ``writer``; others are ignored.

    Parameters
    ----------
    path : str or Path
        Written by ``numpy.savez`` or ``numpy.savez_compressed``, without pickled objects.
    pixels : "uint8" or "digits", default "uint8"
        Full ink is 255 or 16.

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
    except (ValueError, EOFError, zipfile.BadZipFile):
        raise ValueError(
            f"{path.name} is damaged or holds pickled objects; save plain numeric arrays"
        ) from None
    try:
        return Handwriting(images, labels, writer, pixels)
    except ValueError as error:
        raise ValueError(f"{path.name}: {error}") from None


class Partitioner(Protocol):
    """The part of ``flwr_datasets.partitioner.Partitioner`` that is used here."""

    dataset: Any

    @property
    def num_partitions(self) -> int:
        """How many partitions there are once the data set is assigned."""

    def load_partition(self, partition_id: int) -> Any:
        """Return the rows of one partition as a ``datasets.Dataset``."""


def partitioned(data: Handwriting, partitioner: Partitioner) -> Handwriting:
    """Give every image to a client: the number of its partition becomes its writer."""
    # The partitioner has no data set yet. It sees the columns ``row``, ``label`` and ``writer``, so
    # that ``DirichletPartitioner(…, partition_by="label")`` fits, too. An image that it leaves out
    # is dropped.
    datasets = require("datasets", extra="simulation")
    partitioner.dataset = datasets.Dataset.from_dict(
        {"row": np.arange(len(data)), "label": data.labels, "writer": data.writer}
    )
    parts = [
        np.asarray(partitioner.load_partition(i)["row"], dtype=np.int64)
        for i in range(partitioner.num_partitions)
    ]
    rows = np.concatenate(parts)
    clients = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    return replace(data, images=data.images[rows], labels=data.labels[rows], writer=clients)
