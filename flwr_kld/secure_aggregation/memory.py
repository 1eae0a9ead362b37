"""What a client remembers between phases, as plain values that a Flower context can hold."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from flwr_kld.privacy.private import Private
from flwr_kld.secure_aggregation.errors import Malformed


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


class Memory(Private):
    """A client's secrets in one session. Private: shows no value.

    Attributes
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

    __slots__ = (
        "alive",
        "channels",
        "index",
        "mask_keys",
        "mask_secret",
        "own",
        "peers",
        "phase",
        "public",
        "seal_secret",
        "seed",
        "session",
        "shares",
        "view",
    )
    _hidden = frozenset({"channels", "mask_secret", "own", "seal_secret", "seed", "shares"})

    def __init__(self) -> None:
        self.phase: int = Phase.ADVERTISE
        self.index = -1
        self.session = self.public = self.peers = self.mask_keys = self.view = self.alive = b""
        self.mask_secret = self.seal_secret = self.seed = b""
        self.channels = self.own = self.shares = b""

    def to_dict(self) -> dict[str, int | bytes]:
        """Return all of it. Contains secrets: keep it on the client."""
        state = {name: getattr(self, name) for name in self.__slots__}
        return {**state, "phase": int(self.phase)}

    @classmethod
    def from_dict(cls, state: Mapping[str, object]) -> Memory:
        """Read `to_dict`."""
        memory = cls()
        for name in cls.__slots__:
            value = state.get(name)
            if type(value) is not type(getattr(memory, name)) and not (
                isinstance(value, int) and name == "phase"
            ):
                raise Malformed(f"the client's memory lacks {name}")
            setattr(memory, name, value)
        return memory

    def forget(self, phase: Phase) -> None:
        """Drop every secret; remember only the session and how it ended."""
        session, alive = self.session, self.alive
        self.__init__()  # type: ignore[misc]
        self.phase, self.session, self.alive = phase, session, alive
