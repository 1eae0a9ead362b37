"""Where handwriting comes from: FEMNIST by flwr-datasets or as LEAF's JSON, or an ``.npz`` file.

The first use of FEMNIST downloads it from the Hugging Face Hub; later uses read its cache, and
nothing else with ``HF_HUB_OFFLINE=1`` in the environment.
"""

import json
import zipfile
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from flwr_kld.clients.handwriting.dataset import DIGITS, Handwriting
from flwr_kld.common.extras import require

_DATASET, _SPLIT, _WRITER = "flwrlabs/femnist", "train", "writer_id"
_SIDE = 28


def load_femnist(
    partitions: Iterable[int] | None = None,
    *,
    labels: Iterable[int] = DIGITS,
    dataset: str = _DATASET,
) -> Handwriting:
    """Load FEMNIST's about 3,600 writers, or some of them.

    Parameters
    ----------
    partitions : iterable of int, optional
        Partition numbers, 0 for the first ``writer_id`` in ascending order, as Flower's
        ``NaturalIdPartitioner`` counts them. A client usually loads one. All of them by default.
    labels : iterable of int, default 0 to 9
        The classes to keep: 0 to 9 are the digits, 10 to 35 A to Z, and 36 to 61 a to z.
    dataset : str, default "flwrlabs/femnist"
        A data set of this form on the Hub, or the folder of a copy.

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
    partitioner, wanted = _partitioner(dataset), list(labels)
    if partitions is None:
        partitions = range(partitioner.num_partitions)
    images, shown = [np.empty((0, _SIDE, _SIDE), np.uint8)], [np.empty(0, np.int64)]
    writer = [np.empty(0, np.int64)]
    for partition in partitions:
        if not 0 <= partition < partitioner.num_partitions:
            raise ValueError("there is no such partition of FEMNIST")
        wrote = partitioner.load_partition(partition).with_format("numpy")
        kept = np.flatnonzero(np.isin(wrote["character"][:], wanted))
        columns = wrote.select(kept)[:]
        if len(kept):
            images.append(np.asarray(columns["image"]))
        shown.append(np.asarray(columns["character"], np.int64))
        writer.append(np.full(len(kept), partition))
    if any(x.shape[1:] != (_SIDE, _SIDE) or x.dtype != np.uint8 for x in images):
        raise ValueError("FEMNIST images must be 28x28 and 8-bit grey")
    return Handwriting(255 - np.concatenate(images), np.concatenate(shown), np.concatenate(writer))


@cache
def _partitioner(dataset: str) -> Any:
    """Open the data set once a process and return its partitioner by writer."""
    flwr_datasets = require("flwr_datasets", extra="simulation")
    by_writer = require("flwr_datasets.partitioner", extra="simulation").NaturalIdPartitioner
    federated = flwr_datasets.FederatedDataset(
        dataset=dataset, partitioners={_SPLIT: by_writer(_WRITER)}, shuffle=False
    )
    try:
        return federated.partitioners[_SPLIT]
    except OSError:
        raise ConnectionError(
            f"could not download {dataset} from the Hugging Face Hub, and it is not in the cache; "
            "connect to the network once, or use load_leaf or load_npz, which need none"
        ) from None


def load_leaf(path: str | Path, *, labels: Iterable[int] = DIGITS) -> Handwriting:
    """Load FEMNIST from the JSON files that LEAF's scripts write: ``all_data_0.json`` and so on.

    Parameters
    ----------
    path : str or Path
        A folder of such files, or one of them.
    labels : iterable of int, default 0 to 9
        As for `load_femnist`.

    Returns
    -------
    Handwriting
        The images as `load_femnist` gives them; writers are numbered in the order of their names.

    Raises
    ------
    FileNotFoundError
        If there is no such file, or none in the folder.
    ValueError
        If a file is not of LEAF's form. The message shows no value.
    """
    path = Path(path)
    files = sorted(path.glob("*.json")) if path.is_dir() else [path]
    if not files or not files[0].is_file():
        raise FileNotFoundError(f"there is no JSON file named, or in a folder named, {path.name!r}")
    written: list[tuple[str, Any, Any]] = []
    for file in files:
        try:
            for name, wrote in json.loads(file.read_bytes())["user_data"].items():
                grey = np.array(wrote["x"], dtype=np.float64).reshape(-1, _SIDE, _SIDE)
                shown = np.array(wrote["y"], dtype=np.int64)
                if not ((grey >= 0) & (grey <= 1)).all() or shown.shape != grey.shape[:1]:
                    raise ValueError
                written.append((name, 255 - np.rint(255 * grey).astype(np.uint8), shown))
        except (KeyError, TypeError, AttributeError, ValueError, OverflowError):
            raise ValueError(f"{file.name} is not one of LEAF's FEMNIST files") from None
    if not written:
        raise ValueError(f"{path.name} holds no writers")
    names, images, shown_by = zip(*written, strict=True)
    writer = np.unique(np.repeat(names, [len(shown) for shown in shown_by]), return_inverse=True)[1]
    everything = Handwriting(np.concatenate(images), np.concatenate(shown_by), writer)
    return everything.with_labels(labels)


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
