"""Handwriting from an ``.npz`` file."""

import zipfile
from pathlib import Path
from typing import Literal

import numpy as np

from flwr_kld.clients.handwriting.dataset import Handwriting

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
