"""The guard before each round of a model's training, whatever strategy trains."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, Context, Error, Message
from flwr.clientapp.typing import ClientAppCallable
from numpy.typing import NDArray

from flwr_kld.clients.admission import account, guard_of, refusals, unexpected
from flwr_kld.clients.check_memory import claim, claims_file
from flwr_kld.common.errors import QueryRefused
from flwr_kld.guard.limits import OwnNoise
from flwr_kld.trust.envelopes import CLAIMED_NOISE
from flwr_kld.trust.terms import LONGEST_ID

_MOD_FAILED_PRECONDITION = 6  # Flower's ErrorCode


def guard_training(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
    """Let the node's guard refuse rounds of training: ``ClientApp(mods=[guard_training])``.

    To be the first mod. A round that the guard's ``[training]`` does not allow, or a guard without
    it, is answered with an error, and nothing is trained. Where the operator's file has
    ``[training.own_noise]``, this mod clips the update and adds the noise. Without a guard, and for
    all messages but those of training, it does nothing.
    """
    if message.metadata.message_type.split(".")[0] != "train":
        return call_next(message, context)
    try:
        noise = _admitted(message, context)
    except QueryRefused as error:
        return _refused(message, str(error))
    if noise is None:
        return call_next(message, context)
    try:
        return _noised(message, context, call_next, noise)
    except QueryRefused as error:
        return _refused(message, str(error))
    except Exception as error:  # Flower would send its text, which may quote anything
        return _refused(message, unexpected(error))


def _admitted(message: Message, context: Context) -> OwnNoise | None:
    """Reserve a round, or refuse it; return the noise that the node itself adds."""
    if (guard := guard_of(context)) is None:
        return None
    name, member = message.metadata.message_id, account(context, 0)
    with refusals("a round of training"):
        if not (0 < len(name) <= LONGEST_ID and name.isprintable()):
            raise QueryRefused("a round of training needs the id of its message")
        training = guard.admit_round(name, _claimed(message), member)
        claim(context, f"training {name} {member}", claims_file(context))
    return training.own_noise


def _claimed(message: Message) -> float:
    """Return the noise multiplier that the server claims, 0 for none."""
    records = message.content.config_records.values()
    claims = [record[CLAIMED_NOISE] for record in records if CLAIMED_NOISE in record]
    if not claims:
        return 0.0
    (noise, *more) = claims
    if more or not isinstance(noise, float) or not 0 <= noise < math.inf:
        raise QueryRefused("the noise multiplier that the server claims is not one number from 0")
    return noise


def _noised(
    message: Message, context: Context, call_next: ClientAppCallable, noise: OwnNoise
) -> Message:
    """Return the app's reply, its one update clipped and with Gaussian noise.

    Not by Flower's ``LocalDpMod``: that lets an update with a NaN pass as it is, and an array
    without dimensions; fails if nothing changed; and draws noise that an app's seed makes known.
    """
    models = [
        {name: one.numpy().astype(np.float64) for name, one in record.items()}
        for record in message.content.array_records.values()
    ]
    reply = call_next(message, context)
    if reply.has_error():
        return reply
    answers = list(reply.content.array_records.items())
    if len(models) != 1 or len(answers) != 1:
        raise QueryRefused("the node adds noise to one model, which comes and goes as one record")
    (old,), ((place, answer),) = models, answers
    new = {name: one.numpy() for name, one in answer.items()}
    if _shapes(new) != _shapes(old):
        raise QueryRefused("the app's answer is not an update of the model that was sent")
    with np.errstate(all="ignore"):
        moves = {name: np.asarray(new[name] - one) for name, one in old.items()}
        norm = math.sqrt(sum(float(np.sum(np.square(move))) for move in moves.values()))
        clip, generator = float(noise.clipping_norm), np.random.default_rng()
        scale = min(1.0, clip / norm) if norm else 1.0
        if not math.isfinite(norm):  # no update: its numbers have no bound
            moves, scale = {name: np.zeros(move.shape) for name, move in moves.items()}, 1.0
        deviation = clip * float(noise.noise_multiplier)
        noisy = {}
        for name, move in moves.items():
            drawn = generator.normal(0.0, deviation, move.shape)
            noised = np.asarray(old[name] + (move * scale + drawn))
            noisy[name] = Array(noised.astype(new[name].dtype))
    reply.content[place] = ArrayRecord(noisy)
    return reply


def _shapes(model: Mapping[str, NDArray[Any]]) -> dict[str, tuple[int, ...]]:
    return {name: one.shape for name, one in model.items()}


def _refused(message: Message, reason: str) -> Message:
    return Message(Error(_MOD_FAILED_PRECONDITION, reason), reply_to=message)
