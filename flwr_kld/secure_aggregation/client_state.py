"""What a client holds on to: its seat in the session, and its secrets between the phases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, Field

from flwr_kld.codec.model import Model, Unreadable, must
from flwr_kld.privacy.private import Private
from flwr_kld.secure_aggregation.errors import KeyReused, Malformed, Tampered, TooFewSurvivors
from flwr_kld.secure_aggregation.graph import neighbours_of
from flwr_kld.secure_aggregation.identity import Identity, Roster
from flwr_kld.secure_aggregation.keys import KEY, PUBLIC
from flwr_kld.secure_aggregation.messages import (
    ADVERT,
    Advert,
    Adverts,
    ClientMessage,
    Phase,
    signed_text,
)
from flwr_kld.secure_aggregation.session import Session
from flwr_kld.secure_aggregation.shamir import SHARE
from flwr_kld.secure_aggregation.wire import Slots, unpack_bits

PUBLIC_KEY = np.dtype(f"V{PUBLIC}")
CHANNEL = np.dtype([("inward", f"V{KEY}"), ("confirm", f"V{KEY}")])
"""Keys shared with a neighbour: they open what it sealed, and its confirmation."""
SHARES = np.dtype([("seed", f"V{SHARE}"), ("mask_key", f"V{SHARE}")])
"""A neighbour's two shares."""

_Signed = TypeVar("_Signed", bound=ClientMessage)


def _items(size: int) -> AfterValidator:
    return must(f"be items of {size} bytes", lambda raw: len(raw) % size == 0)


def _item(size: int) -> AfterValidator:
    return must(f"be {size} bytes, or none yet", lambda raw: len(raw) in (0, size))


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

    Attributes
    ----------
    phase : int
        The next phase.
    index : int
        The client's place in the cohort.
    session : bytes
        `Session.to_bytes`.
    public : bytes
        Its own two one-use public keys, `PUBLIC_KEY` each.
    mask_secret, seal_secret, seed : bytes
        Private keys, and the seed b of the self mask.
    peers : bytes
        Bitmap of the slots whose adverts were good.
    mask_keys : bytes
        Their public mask keys, `PUBLIC_KEY` each, in slot order.
    channels : bytes
        `CHANNEL` of each, in slot order.
    own : bytes
        The client's share of its own seed.
    view : bytes
        Bitmap of the slots whose shares arrived, so whose masks are added.
    shares : bytes
        `SHARES` of each, in slot order.
    alive : bytes
        The list of survivors that the client answered.
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
        """Refuse a key that appears twice, as mask or sealing key, the client's own among them.

        Raises
        ------
        KeyReused
            If one does.
        """
        own = np.frombuffer(self.public, PUBLIC_KEY).tolist()
        shown = own + [key for advert in theirs for key in (advert.mask_key, advert.seal_key)]
        if len(set(shown)) != len(shown):
            raise KeyReused("a one-use key appears twice among this client's neighbours")

    def inward_keys(self, some: NDArray[np.bool_]) -> list[bytes]:
        """Return the keys that open what some of the peers sealed, in slot order."""
        return self._of(some, np.frombuffer(self.channels, CHANNEL)["inward"])

    def confirm_keys(self, some: NDArray[np.bool_]) -> list[bytes]:
        """Return the keys of the confirmations shared with some of the peers, in slot order."""
        return self._of(some, np.frombuffer(self.channels, CHANNEL)["confirm"])

    def peers_mask_keys(self, some: NDArray[np.bool_]) -> list[bytes]:
        """Return the public mask keys of some of the peers, in slot order."""
        return self._of(some, np.frombuffer(self.mask_keys, PUBLIC_KEY))

    def _of(self, some: NDArray[np.bool_], kept: NDArray[np.void]) -> list[bytes]:
        found: list[bytes] = kept[some[unpack_bits(self.peers, len(some))]].tolist()
        return found

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
        """Read `to_dict`.

        Raises
        ------
        Malformed
            If a field is not as it should be, or there is another.
        """
        try:
            return cls(**vars(_Memory.from_config(state)))
        except Unreadable as error:
            fault = str(error)
        raise Malformed(fault)  # out here, it keeps nothing of the secrets


@dataclass(frozen=True, eq=False)
class Seat:
    """Where a client stands on the circle.

    Parameters
    ----------
    session : Session
        Whose circle it is.
    index : int
        The client's place in the cohort.
    neighbours : NDArray[np.int64]
        Shape [k]: the neighbours' cohort indices, by slot.
    identity : Identity
        Signs for the client.
    """

    session: Session
    index: int
    neighbours: NDArray[np.int64]
    identity: Identity = field(repr=False)

    @classmethod
    def of(cls, session: Session, index: int, identity: Identity) -> Seat:
        """Find the neighbours of one client of the cohort."""
        neighbours = neighbours_of(session.order, index, session.shape.neighbours)
        return cls(session, index, neighbours, identity)

    def signed(self, message: _Signed) -> _Signed:
        """Return this client's message with its signature."""
        text = signed_text(self.session.digest, message.kind, self.index, message.body())
        return replace(message, signature=self.identity.sign(text))

    def verified(self, adverts: Adverts, roster: Roster) -> list[Advert]:
        """Return the adverts of those neighbours that sent one, which their identities signed.

        Raises
        ------
        Tampered, BadSignature
            What is wrong with them.
        """
        session, members = self.session, self.neighbours[self.asked(adverts.adverts)].tolist()
        fields = np.frombuffer(adverts.adverts.data, ADVERT).tolist()
        theirs = [
            Advert(session.tag, peer, signature, mask_key, seal_key)
            for peer, (mask_key, seal_key, signature) in zip(members, fields, strict=True)
        ]
        for advert in theirs:
            text = signed_text(session.digest, advert.kind, advert.sender, advert.body())
            roster.verify(session.cohort[advert.sender], advert.signature, text)
        return theirs

    def slots(self, packed: bytes) -> NDArray[np.bool_]:
        """Read a bitmap over the neighbours, shape [k]."""
        return unpack_bits(packed, self.session.shape.neighbours)

    def asked(self, slots: Slots) -> NDArray[np.bool_]:
        """Which neighbours a server's message is about, shape [k].

        Raises
        ------
        Tampered
            If it is about another number of neighbours.
        """
        if slots.count != self.session.shape.neighbours:
            raise Tampered("the message is not about this client's neighbours")
        return slots.mask()

    def require_neighbours(self, left: NDArray[np.bool_]) -> None:
        """Go on only with neighbours enough to confirm a list (`Shape.confirmations`).

        Parameters
        ----------
        left : NDArray[np.bool_]
            Shape [k]: the neighbours that are still there.

        Raises
        ------
        TooFewSurvivors
            If this client would go on with too few.
        """
        there, needed = int(left.sum()), self.session.confirmations
        if there < needed:
            raise TooFewSurvivors(
                f"{there} of this client's neighbours are left; it needs {needed}"
            )
