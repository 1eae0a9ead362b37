"""FEMNIST from the JSON files that LEAF's preprocessing writes.

Each ``all_data_*.json`` holds ``users``, ``num_samples`` and ``user_data``: for each user ``x``, a
list of images of 784 floats in row order with white background 1.0, and ``y``, their classes 0-61,
of which 0-9 are the digits. See https://leaf.cmu.edu.
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
