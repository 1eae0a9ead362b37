"""The guard before each round of a model's training, whatever strategy trains."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, Context, Error, Message
from flwr.clientapp.typing import ClientAppCallable
from numpy.typing import NDArray

from flwr_kld.clients.admission import account, guard_of, unexpected
from flwr_kld.clients.check_memory import claim, claims_file
from flwr_kld.common.errors import QueryRefused
from flwr_kld.kernel.law import SystemBits
from flwr_kld.trust.envelopes import CLAIMED_NOISE
from flwr_kld.trust.terms import LONGEST_ID

logger = logging.getLogger("flwr_kld")

_MOD_FAILED_PRECONDITION = 6  # Flower's ErrorCode
_WIDEST = 8  # Bytes of a number


def guard_training(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
    """Let the node's guard refuse rounds of training: ``ClientApp(mods=[guard_training])``.

    To be the first mod: a round that the guard's ``[training]`` does not allow, or a guard without
    it, is answered with an error. With ``own_clipping_norm`` there, this mod clips the update and
    adds the noise. Without a guard, and for messages other than training's, it does nothing.
    """
    if message.metadata.message_type.split(".")[0] != "train":
        return call_next(message, context)
    try:
        noise = _admitted(message, context)
        if noise is not None:
            return _noised(message, context, call_next, *noise)
    except Exception as error:  # Flower would send its text, which may quote anything
        reason = str(error) if isinstance(error, QueryRefused) else unexpected(error)
        logger.warning("this node refused a round of training: %s", reason)
        return Message(Error(_MOD_FAILED_PRECONDITION, reason), reply_to=message)
    return call_next(message, context)


def _admitted(message: Message, context: Context) -> tuple[float, float] | None:
    """Reserve a round, or refuse it; return what `Guard.admit_round` does of the node's noise."""
    if (guard := guard_of(context)) is None:
        return None
    name, member = message.metadata.message_id, account(context, 0)
    if not (0 < len(name) <= LONGEST_ID and name.isprintable()):
        raise QueryRefused("a round of training needs the id of its message")
    noise = guard.admit_round(name, _claimed(message), member)
    claim(context, f"training {name} {member}", claims_file(context))
    return noise


def _claimed(message: Message) -> float:
    """Return the noise multiplier that the server claims, 0 for none."""
    records = message.content.config_records.values()
    claims = [record[CLAIMED_NOISE] for record in records if CLAIMED_NOISE in record] or [0.0]
    if len(claims) > 1 or not isinstance(claims[0], float) or not 0 <= claims[0] < math.inf:
        raise QueryRefused("the noise multiplier that the server claims is not one number from 0")
    return claims[0]


def _noised(
    message: Message, context: Context, call_next: ClientAppCallable, clip: float, deviation: float
) -> Message:
    """Return the app's reply, its one update clipped and with Gaussian noise.

    Not by Flower's ``LocalDpMod``: that lets an update with a NaN pass as it is, and an array
    without dimensions; fails if nothing changed; and draws noise that an app's seed makes known.
    """
    models = list(message.content.array_records.values())
    if len(models) != 1:
        raise QueryRefused("the node adds noise to one model, and this round sends another number")
    sent = {name: one.numpy() for name, one in models[0].items()}
    _require_real(sent)
    old = {name: one.astype(np.float64) for name, one in sent.items()}
    reply = call_next(message, context)
    if reply.has_error():
        return reply
    ((place, answer),) = reply.content.array_records.items()
    new = {name: one.numpy() for name, one in answer.items()}
    if new.keys() != old.keys() or any(new[name].shape != one.shape for name, one in old.items()):
        raise QueryRefused("the app's answer is not an update of the model that was sent")
    _require_real(new)
    with np.errstate(all="ignore"):
        moves = {name: np.asarray(new[name] - one) for name, one in old.items()}
        norm = math.sqrt(sum(float(np.sum(np.square(move))) for move in moves.values()))
        scale = min(1.0, clip / norm) if norm else 1.0
        if not math.isfinite(norm):  # no update: its numbers have no bound
            moves, scale = {name: np.zeros(move.shape) for name, move in moves.items()}, 1.0
        noisy = {}
        for name, move in moves.items():
            noised = np.asarray(old[name] + (move * scale + deviation * _gaussian(move.shape)))
            noisy[name] = Array(noised.astype(new[name].dtype))
    reply.content[place] = ArrayRecord(noisy)
    return reply


def _require_real(arrays: Mapping[str, NDArray[Any]]) -> None:
    """Refuse what has a part that noise in 64-bit floats does not reach: complex, or longer."""
    if any(one.dtype.kind not in "biuf" or one.dtype.itemsize > _WIDEST for one in arrays.values()):
        raise QueryRefused(
            "the node adds noise to real numbers of at most 64 bits, and this model has others"
        )


def _gaussian(shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Draw standard normal numbers by the operating system's randomness."""
    from scipy.special import ndtri  # imported here: most clients answer without it

    # The middles of 2^52 parts of [0, 1], which floats tell apart and of which none is an end.
    parts = (SystemBits().words(math.prod(shape)) >> np.uint64(12)) + 0.5
    return np.asarray(ndtri(parts / 2.0**52), dtype=np.float64).reshape(shape)
