"""What a client remembers between phases, as plain values that a Flower context can hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import IntEnum

from flwr_kld.secure_sum.errors import Malformed


class Phase(IntEnum):
    """The phases of a sum; a client's is the next one that it answers."""

    ADVERTISE = 0
    SHARE = 1
    MASK = 2
    AGREE = 3
    UNMASK = 4
    DONE = 5
    REFUSED = 6
    """Something was wrong; this object answers nothing more."""


@dataclass
class Memory:
    """A client's secrets in one session. Private: shows no value.

    Parameters
    ----------
    phase : int
        The next phase.
    session : bytes
        `Session.to_bytes`.
    index : int
        The client's place in the cohort.
    public : bytes
        Its own one-use public keys, 32 bytes each.
    mask_secret, seal_secret, seed : bytes
        Private keys, and the seed b of the self mask.
    peers : bytes
        Bitmap of the slots whose adverts were good.
    mask_keys : bytes
        Their public mask keys, 32 bytes each, in slot order.
    channels : bytes
        Inward sealing key and confirmation key of each, 64 bytes, in slot order.
    own : bytes
        The client's share of its own seed.
    view : bytes
        Bitmap of the slots whose shares arrived, so whose masks are added.
    shares : bytes
        Their shares of seed and mask key, 68 bytes each, in slot order.
    alive : bytes
        The list of survivors that the client signed.
    """

    phase: int = Phase.ADVERTISE
    session: bytes = b""
    index: int = -1
    public: bytes = b""
    mask_secret: bytes = field(default=b"", repr=False)
    seal_secret: bytes = field(default=b"", repr=False)
    seed: bytes = field(default=b"", repr=False)
    peers: bytes = b""
    mask_keys: bytes = b""
    channels: bytes = field(default=b"", repr=False)
    own: bytes = field(default=b"", repr=False)
    view: bytes = b""
    shares: bytes = field(default=b"", repr=False)
    alive: bytes = b""

    def to_dict(self) -> dict[str, int | bytes]:
        """Return all fields. Contains secrets: keep it on the client."""
        return {**vars(self), "phase": int(self.phase)}

    @classmethod
    def from_dict(cls, state: Mapping[str, object]) -> Memory:
        """Read `to_dict`."""
        memory = cls()
        for entry in fields(cls):
            value = state.get(entry.name)
            if type(value) is not type(getattr(memory, entry.name)) and not (
                isinstance(value, int) and entry.name == "phase"
            ):
                raise Malformed(f"the client's memory lacks {entry.name}")
            setattr(memory, entry.name, value)
        return memory

    def forget(self, phase: Phase) -> None:
        """Drop every secret; remember only the session and how it ended."""
        session, alive = self.session, self.alive
        self.__init__(phase=phase, session=session, alive=alive)  # type: ignore[misc]
