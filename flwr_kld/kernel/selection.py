"""Private selection of unlisted labels: they leave under the noise of a `Release`, or not at all.

Every label that somebody has gets noise that reaches no farther than W, and is shown with its
noised count if this exceeds W. A label that nobody has would never be, had it noise as well: so
what is shown is computed from noised counts of *all* texts, and costs what one of these does
(partition selection: Desfontaines, Voss, Gipson, Mandayam 2022).
Proof note: ``docs/proofs/discovery.md``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flwr_kld.kernel.channels import seal
from flwr_kld.kernel.law import BitSource, sample
from flwr_kld.kernel.promise import hides
from flwr_kld.kernel.release import Release
from flwr_kld.kernel.vector import Held, NightNoise, Private, Released, own_bits

LONGEST = 40
"""Bytes of a label's text."""
MOST_COUNTED = 2**24
"""Records that one client counts."""
_ENTRY = np.dtype([("records", "<u4"), ("text", f"S{LONGEST}")])


class ClientLabels(Private):
    """How many records of each client have which label, a row each. Private: shows no value.

    Parameters
    ----------
    texts : Sequence[NDArray]
        One array a client: the text of each record in UTF-8, filled up with zeros, as the bytes of
        int64 [records, LONGEST / 8]; zeros alone for a record that tells of none.
    """

    __slots__ = ("_sizes", "_values")

    def __init__(self, texts: Sequence[NDArray[np.signedinteger[Any]]]) -> None:
        self._sizes = [_ENTRY.itemsize * len(own) for own in texts]
        self._values = [_entries(own) for own in texts]

    def to_wire(self, client: int, token: bytes = b"") -> bytes:
        """Write a row for a server that may see it: labels in order, each behind its count."""
        return token + self._values[client].tobytes()

    def sealed(self, client: int, public: bytes, context: bytes, token: bytes = b"") -> bytes:
        """Return a box for the holder of an X25519 key, in this context only.

        It holds `to_wire`, and as many zeros as if each record had a label of its own: its length
        tells how many records there are.
        """
        row = self.to_wire(client)
        return seal(public, token + row.ljust(self._sizes[client], b"\0"), context)


def _entries(texts: NDArray[np.signedinteger[Any]]) -> NDArray[np.void]:
    names, records = np.unique(
        np.ascontiguousarray(texts).view(f"S{LONGEST}").reshape(-1), return_counts=True
    )
    entries = np.zeros(len(names), _ENTRY)
    entries["text"], entries["records"] = names, records
    found: NDArray[np.void] = entries[names != b""]
    return found


def _read(row: bytes) -> NDArray[np.void]:
    """Return the labels of a row, and how many records have each, without zeros behind them."""
    used = row.rstrip(b"\0")
    return np.frombuffer(used + bytes(-len(used) % _ENTRY.itemsize), _ENTRY)


def _fault_of(row: bytes) -> str:
    """Say why no honest client answers so; nothing if one does."""
    if len(row) % _ENTRY.itemsize:
        return "an answer is not a list of labels and their numbers"
    entries = _read(row)
    texts, records = entries["text"], entries["records"]
    if (texts == b"").any() or (texts[1:] <= texts[:-1]).any():
        return "labels must be in order, each once, and none of them empty"
    if (records == 0).any() or int(records.sum(dtype=np.int64)) > MOST_COUNTED:
        return f"labels must be of 1 to {MOST_COUNTED:,} records of a client"
    written = texts.astype(f"S{LONGEST + 1}").tobytes()  # a zero after each
    return "" if written.decode(errors="ignore").encode() == written else "labels must be UTF-8"


class LabelSum(Private):
    """Exact number of a cohort's records with each label. Private: leaves only through `release`.

    Parameters
    ----------
    answers : Iterable[tuple[Sequence[Any], Held[list[bytes]]]]
        Names of some clients, and `ClientLabels.to_wire` of each, or what a box of theirs holds.
        What no honest client answers is left out.
    """

    __slots__ = ("_values", "clients", "refused")

    def __init__(self, answers: Iterable[tuple[Sequence[Any], Held[list[bytes]]]]) -> None:
        self._values = Counter[bytes]()
        self.clients = 0
        """Number of clients in the sum. Public."""
        self.refused: dict[Any, str] = {}
        """Why the others are not in it, by name. Public."""
        for names, held in answers:
            for name, row in zip(names, held._value, strict=True):
                if fault := _fault_of(row):
                    self.refused[name] = fault
                else:
                    self._values.update({text: n for n, text in _read(row).tolist()})
                    self.clients += 1

    def release(self, release: Release, noise: BitSource | NightNoise) -> Released:
        """Add the release's noise to the count of each label, and show those beyond its reach.

        Raises
        ------
        ValueError
            If the noise has a tail, or hides less than what one record moves these counts by.
        TypeError
            If the noise is that of a night, or its bits are not the kernel's.
        """
        table, promised = release.table, release.guarantee
        needed = (1, -1)
        if table.tail or promised.protects != "record" or not hides(release.moves, needed):
            raise ValueError(
                f"labels are shown by noise that ends and hides {needed} for each record, not by "
                f"{release.mechanism} noise that hides {release.moves} for each "
                f"{promised.protected}"
            )
        bits = own_bits(noise)
        drawn = sample(table, len(self._values), bits).tolist()
        shown = {  # no frame holds a label that is not
            text.decode(): count + more
            for (text, count), more in zip(self._values.items(), drawn, strict=True)
            if count + more > table.reach
        }
        labels = tuple(sorted(shown, key=lambda label: (-shown[label], label)))
        values = np.array([shown[label] for label in labels], dtype=np.int64)
        return Released(values, None, self.clients, release, bits.private, labels)
