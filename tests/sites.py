"""Three sites of patients, one of which is broken, and what each of them alone knows."""

import re
import struct
from collections.abc import Iterable
from functools import cache

import numpy as np

from flwr_kld import Binned, Labels, Reference, Table
from flwr_kld.report.node_comparison import NodeComparison
from flwr_kld.report.report import Report

TABLE = Table(
    {
        "height": Binned.uniform(140, 200, 12),
        "ward": Labels(["surgery", "medicine", "icu"]),
        "age": Binned([30.0, 45.0, 60.0, 75.0]),
    }
)
SITES, EACH, BROKEN = 3, 2003, 1  # of a prime number of records, fractions are long numbers


def people(seed: int, records: int = EACH, feet: bool = False, icu: float = 0.2):
    rng = np.random.default_rng(seed)
    height = rng.normal(170, 9, records)
    return {
        "height": height / 30.48 if feet else height,
        "ward": rng.choice(["surgery", "medicine", "icu"], records, p=[0.7 - icu, 0.3, icu]),
        "age": rng.normal(55, 15, records),
    }


def site(place: int):
    return people(place, feet=place == BROKEN)


@cache
def reference() -> Reference:
    return Reference.from_frame(TABLE, people(99, 50_000))


def compared(report: Report, rows) -> NodeComparison:
    return NodeComparison.of(report, reference(), TABLE.encode(rows))


def private_numbers(rows, report: Report) -> set[bytes]:
    """What a node alone knows: its counts, and fractions, as text and as machines write them."""
    shown = compared(report, rows).columns.values()
    exact = {n for one in shown for n in (one.own, one.elsewhere, one.divergence)}
    found = {repr(n).encode() for n in exact}
    symbols = TABLE.encode(rows)
    for own, part in zip(symbols.T, TABLE.parts, strict=True):
        for n in np.bincount(own - part.start).tolist():
            if 255 < n < len(own):  # small ones are anywhere
                share = n / len(own)
                found |= {repr(share).encode(), f"{100 * share:.3g} %".encode()}
                found |= {struct.pack("<d", share), struct.pack("<d", n), struct.pack("<i", n)}
    return found - {b"0.0", b"1.0"}


def carried(numbers: set[bytes], sent: Iterable[bytes]) -> set[bytes]:
    """Those that are in any of what was sent."""
    sent = list(sent)
    return {n for n in numbers if any(n in one and re.search(_whole(n), one) for one in sent)}


def _whole(number: bytes) -> bytes:
    """The pattern of a number; as a text, not of one that goes on in either direction."""
    pattern = re.escape(number)
    return rb"(?<![0-9.])" + pattern + rb"(?![0-9])" if number.startswith(b"0.") else pattern
