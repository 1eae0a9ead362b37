"""Evidence of a check: what its report follows from, so that anybody can compute it again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flwr_kld.infer.alarm import Alarm, Tolerated
from flwr_kld.infer.e_detector import EDetector
from flwr_kld.kernel.count import ClientSizes
from flwr_kld.trust.signed_numbers import SignedNumbers


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Everything in it is public."""

    version: str  # Of flwr-kld, whose arithmetic it is
    reference: dict[str, Any]  # `Reference.to_dict`
    terms: dict[str, Any]  # `Terms.to_config`, with bytes in hexadecimal
    cells: int  # Of each column, at most
    seed: int  # That the cells were drawn from
    values: tuple[int, ...]  # Noised numbers as they were released, in steps
    records: float  # As in `Released`
    clients: int
    sizes: ClientSizes | None  # How records are shared out, where that is public
    drawn: bool  # Whether the clients were drawn from more
    corrupted: int  # Clients that may have told their share of the noise
    tolerated: dict[str, Tolerated] | None  # By column; None if nothing is decided
    alarm: Alarm
    adds_up: bool  # Whether evidence adds up over checks, and what earlier ones gave, by column
    gathered: dict[str, EDetector]
    aggregators: tuple[SignedNumbers, ...]  # What aggregators signed
    public: str = ""  # Ed25519 key of the server, and its signature of the report, hexadecimal
    signature: str = ""
