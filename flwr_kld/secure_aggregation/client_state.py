"""What a client holds on to between the phases: its secrets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, Field

from flwr_kld.codec.model import Model, Unreadable, must
from flwr_kld.kernel.vector import Private, SumVector
from flwr_kld.secure_aggregation import keys
from flwr_kld.secure_aggregation.errors import KeyReused, Malformed, WrongSession
from flwr_kld.secure_aggregation.keys import KEY, PUBLIC
from flwr_kld.secure_aggregation.messages import (
    UNSIGNED,
    Advert,
    MaskedVector,
    Phase,
)
from flwr_kld.secure_aggregation.seat import Seat
from flwr_kld.secure_aggregation.session import Session
from flwr_kld.secure_aggregation.shamir import SECRET, SHARE
from flwr_kld.secure_aggregation.wire import MOST_SUMS, pack_bits, unpack_bits

PUBLIC_KEY = np.dtype(f"V{PUBLIC}")
CHANNEL = np.dtype([("inward", f"V{KEY}"), ("confirm", f"V{KEY}")])
"""Keys shared with a neighbour: they open what it sealed, and its confirmation."""
SHARES = np.dtype([("seed", f"V{SHARE}"), ("mask_key", f"V{SHARE}")])
"""A neighbour's two shares."""


def _items(size: int) -> AfterValidator:
    return must(f"be items of {size} bytes", lambda raw: len(raw) % size == 0)


def _item(size: int) -> AfterValidator:
    told = f"be {size} bytes for each sum, or none"
    return must(told, lambda raw: len(raw) in (0, size, MOST_SUMS * size))


def each(items: bytes, size: int) -> list[bytes]:
    """Return the items of a row."""
    return [items[at : at + size] for at in range(0, len(items), size)]


def by_sum(items: list[bytes], sums: int) -> bytes:
    """Join neighbours' items, each one part for each sum: all first parts, then all second ones."""
    parts = np.frombuffer(b"".join(items), dtype=np.uint8).reshape(len(items), sums, -1)
    return parts.transpose(1, 0, 2).tobytes()


@dataclass(frozen=True, repr=False)
class _Memory(Model, what="the client's memory"):
    """The fields of a `ClientState`, as a Flower context keeps them."""

    phase: Annotated[int, Field(ge=Phase.ADVERTISE, le=Phase.REFUSED)]
    index: Annotated[int, Field(ge=-1)]
    session: bytes
    public: Annotated[bytes, _items(PUBLIC)]
    mask_secret: Annotated[bytes, _item(KEY)]
    seal_secret: Annotated[bytes, _item(KEY)]
    seed: Annotated[bytes, _item(KEY)]
    peers: bytes
    mask_keys: Annotated[bytes, _items(PUBLIC_KEY.itemsize)]
    channels: Annotated[bytes, _items(CHANNEL.itemsize)]
    own: Annotated[bytes, _item(SHARE)]
    view: bytes
    shares: Annotated[bytes, _items(SHARES.itemsize)]
    alive: bytes


class ClientState(Private):
    """A client's secrets in one session, a value that nothing changes. Private: shows nothing.

    Numbers and bytes only, so that a Flower context can hold it.
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

    def __init__(
        self,
        *,
        phase: int = Phase.ADVERTISE,
        index: int = -1,
        session: bytes = b"",
        public: bytes = b"",
        mask_secret: bytes = b"",
        seal_secret: bytes = b"",
        seed: bytes = b"",
        peers: bytes = b"",
        mask_keys: bytes = b"",
        channels: bytes = b"",
        own: bytes = b"",
        view: bytes = b"",
        shares: bytes = b"",
        alive: bytes = b"",
    ) -> None:
        self.phase: Final = int(phase)
        self.index: Final = index
        self.session: Final = session
        self.public: Final = public
        self.mask_secret: Final = mask_secret
        self.seal_secret: Final = seal_secret
        self.seed: Final = seed
        self.peers: Final = peers
        self.mask_keys: Final = mask_keys
        self.channels: Final = channels
        self.own: Final = own
        self.view: Final = view
        self.shares: Final = shares
        self.alive: Final = alive

    def require_distinct(self, theirs: list[Advert]) -> None:
        """Refuse a key that appears twice, as mask or sealing key, the client's own among them."""
        own = np.frombuffer(self.public, PUBLIC_KEY).tolist()
        advertised = b"".join([advert.mask_keys + advert.seal_key for advert in theirs])
        shown = own + np.frombuffer(advertised, PUBLIC_KEY).tolist()
        if len(set(shown)) != len(shown):
            raise KeyReused("a one-use key appears twice among this client's neighbours")

    def inward_keys(self, some: NDArray[np.bool_]) -> list[bytes]:
        """Return the keys that open what some of the peers sealed, in slot order."""
        return self._of(some, np.frombuffer(self.channels, CHANNEL)["inward"])

    def confirm_keys(self, some: NDArray[np.bool_]) -> list[bytes]:
        """Return the keys of the confirmations shared with some of the peers, in slot order."""
        return self._of(some, np.frombuffer(self.channels, CHANNEL)["confirm"])

    def peers_mask_keys(self, some: NDArray[np.bool_]) -> list[bytes]:
        """Return some peers' public mask keys for the sum at hand, in slot order."""
        return self._of(some, np.frombuffer(self.mask_keys, PUBLIC_KEY))

    def _of(self, some: NDArray[np.bool_], kept: NDArray[np.void]) -> list[bytes]:
        chosen = some[unpack_bits(self.peers, len(some))]
        found: list[bytes] = kept[: len(chosen)][chosen].tolist()
        return found

    def shares_of(self, view: NDArray[np.bool_]) -> tuple[NDArray[np.void], NDArray[np.void]]:
        """Return the neighbours' shares for the sum at hand, and for the one after it."""
        kept, count = np.frombuffer(self.shares, SHARES), int(view.sum())
        return kept[:count], kept[count:]

    def masked(self, seat: Seat, beside: NDArray[np.bool_], vector: SumVector) -> MaskedVector:
        """Return the vector of the sum at hand under its own mask and those of some neighbours."""
        session, me = seat.session, seat.index
        own = keys.OneUseKey(self.mask_secret[:SECRET])
        added = [keys.self_mask_key(self.seed[:SECRET], session.digest, me)]
        removed: list[bytes] = []
        members, public = seat.neighbours[beside].tolist(), self.peers_mask_keys(beside)
        for peer, theirs in zip(members, public, strict=True):
            key = keys.mask_key(own, theirs, session.digest, me, peer)
            (added if me < peer else removed).append(key)
        words = vector.masked(added, removed, length=session.length, bits=session.bits)
        return MaskedVector(session.tag, me, UNSIGNED, words)

    def require_next(self, session: Session) -> None:
        """Refuse a session that does not go on where the first sum ended."""
        if self.phase != Phase.AGAIN:
            raise WrongSession("this client has no first sum to continue")
        first, check = Session.from_bytes(self.session), session.check
        terms, length = session.terms, session.length
        if session != first.following(self.alive, check=check, terms=terms, length=length):
            raise WrongSession("the second sum is not over the survivors of the first")

    def for_second(self, beside: NDArray[np.bool_], shares: NDArray[np.void]) -> ClientState:
        """Return what the second sum needs, over these neighbours, whose shares for it are given.

        Whoever opened the first sum's boxes with these keys now would find its secrets.
        """
        channels = np.frombuffer(self.channels, CHANNEL).copy()
        channels["inward"] = bytes(KEY)
        changes = {
            "phase": Phase.AGAIN,
            "channels": channels.tobytes(),
            "own": self.own[SHARE:],
            "view": pack_bits(beside),
            "shares": shares.tobytes(),
        }
        return ClientState(**{**self.to_dict(), **changes})

    def next(self, **changes: Any) -> ClientState:
        """Return the state after this phase was answered."""
        return ClientState(**{**self.to_dict(), "phase": self.phase + 1, **changes})

    def ended(self, phase: Phase) -> ClientState:
        """Return what is left at the end: no secret, only the session and how it ended."""
        return ClientState(phase=phase, session=self.session, alive=self.alive)

    def to_dict(self) -> dict[str, Any]:
        """Return all of it. Contains secrets: keep it on the client."""
        return {name: getattr(self, name) for name in self.__slots__}

    @classmethod
    def from_dict(cls, state: Mapping[str, object]) -> ClientState:
        """Read `to_dict`."""
        try:
            return cls(**vars(_Memory.from_config(state)))
        except Unreadable as error:
            fault = str(error)
        raise Malformed(fault)  # out here, it keeps nothing of the secrets
