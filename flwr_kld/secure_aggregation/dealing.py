"""A client's phases 0 and 1: it makes one-use keys, and deals shares of its two secrets."""

from __future__ import annotations

from flwr_kld.secure_aggregation import keys
from flwr_kld.secure_aggregation.errors import KeyReused
from flwr_kld.secure_aggregation.identity import Roster
from flwr_kld.secure_aggregation.memory import Memory
from flwr_kld.secure_aggregation.messages import ADVERT, Advert, Adverts, SealedShares, signed_text
from flwr_kld.secure_aggregation.seat import Seat
from flwr_kld.secure_aggregation.shamir import SHARE, RandomBytes, split
from flwr_kld.secure_aggregation.wire import Slots

_KEYS = 2 * keys.PUBLIC


def advertise(seat: Seat, memory: Memory, random: RandomBytes) -> Advert:
    """Make the keys and the seed of this session; sign the public keys."""
    mask, seal = (keys.OneUseKey.generate(random) for _ in range(2))
    memory.session, memory.index = seat.session.to_bytes(), seat.index
    memory.mask_secret, memory.seal_secret = mask.secret, seal.secret
    memory.public = mask.public + seal.public
    memory.seed = random(32)
    signature = seat.sign(Advert.kind, memory.public)
    return Advert(seat.session.tag, seat.index, signature, mask.public, seal.public)


def deal(
    seat: Seat, memory: Memory, adverts: Adverts, roster: Roster, random: RandomBytes
) -> SealedShares:
    """Check the neighbours' keys; seal for each a share of the seed and one of the mask key.

    Raises
    ------
    Tampered, TooFewSurvivors, BadSignature, KeyReused
        What is wrong with the adverts.
    """
    session, me = seat.session, seat.index
    peers = seat.asked(adverts.adverts)
    seat.require_holders(peers)
    members = seat.neighbours[peers].tolist()
    theirs = _verified(seat, roster, members, adverts.adverts.items(ADVERT))
    _require_distinct([memory.public, *theirs])

    holders = session.shape.neighbours + 1
    shares = split(memory.seed + memory.mask_secret, holders, session.shape.threshold, random)
    plain = shares[1:][peers].reshape(-1, 2 * SHARE)
    seal_key = keys.OneUseKey(memory.seal_secret)
    boxes: list[bytes] = []
    kept: list[bytes] = []
    for peer, public, row in zip(members, theirs, plain, strict=True):
        outward, inward, confirm = keys.channel_keys(
            seal_key, public[keys.PUBLIC :], session.digest, me, peer
        )
        boxes.append(keys.seal(outward, row.tobytes(), session.digest, me, peer))
        kept += (inward, confirm)

    memory.own = shares[0, 0].tobytes()
    memory.peers = adverts.adverts.present
    memory.mask_keys = b"".join([public[: keys.PUBLIC] for public in theirs])
    memory.channels = b"".join(kept)
    memory.seal_secret = b""
    committed = keys.commitment(memory.seed, session.digest, me)
    slots = Slots.of(peers, boxes)
    signature = seat.sign(SealedShares.kind, committed + slots.to_bytes())
    return SealedShares(session.tag, me, signature, committed, slots)


def _verified(seat: Seat, roster: Roster, members: list[int], adverts: list[bytes]) -> list[bytes]:
    """Return the neighbours' public keys, 64 bytes each, which their identities signed."""
    session = seat.session
    for peer, advert in zip(members, adverts, strict=True):
        text = signed_text(session.digest, Advert.kind, peer, advert[:_KEYS])
        roster.verify(session.cohort[peer], advert[_KEYS:], text)
    return [advert[:_KEYS] for advert in adverts]


def _require_distinct(public: list[bytes]) -> None:
    """Refuse a key that appears twice, as mask or sealing key, its own among them."""
    seen = {key for both in public for key in (both[: keys.PUBLIC], both[keys.PUBLIC :])}
    if len(seen) != 2 * len(public):
        raise KeyReused("a one-use key appears twice among this client's neighbours")
