"""Write vectors.json: one whole sum with known randomness, and messages that must be refused.

python tests/secure_sums/make_vectors.py
"""

import json
import sys
from pathlib import Path

import numpy as np
from exact import words

sys.path.insert(0, str(Path(__file__).parents[1]))

from secure_sums.summing import PHASES, Sum, session_of

from flwr_kld.common.errors import SecureSumError
from flwr_kld.secure_sums.graph import Shape
from flwr_kld.secure_sums.messages import Phase, decode

FILE = Path(__file__).with_name("vectors.json")
CLIENTS, LENGTH, DROPPED = 4, 3, 2
VECTORS = np.array(
    [[1, 2, 2**64 - 1], [10, 20, 5], [100, 200, 7], [1000, 2000, 9]], dtype=np.uint64
)
BITS = {  # name: (phase, to, client, byte from the end (<0) or start, bit; None: of its request)
    "advert mask key": (0, "server", 1, 30, 0),
    "advert seal key": (0, "server", 1, 60, 7),
    "advert signature": (0, "server", 1, -1, 0),
    "advert sender": (0, "server", 1, 21, 1),
    "advert session": (0, "server", 1, 10, 3),
    "neighbour's key": (1, "client", 0, 30, 0),
    "neighbour's signature": (1, "client", 0, 100, 5),
    "neighbours' number": (1, "client", 0, 21, 2),
    "commitment": (1, "server", 3, 30, 4),
    "sealed share to server": (1, "server", 3, 70, 4),
    "delivered share": (2, "client", 0, 30, 1),
    "delivered share's tag": (2, "client", 0, -1, 1),
    "masked vector": (2, "server", 0, 30, 0),
    "masked vector's length": (2, "server", 0, 25, 3),
    "survivors without the client": (3, "client", 0, -1, 0),
    "survivors below the minimum": (3, "client", 0, -1, 1),
    "survivors of another cohort": (3, "client", 0, 21, 0),
    "another list after the answer": (3, "client again", 0, -1, 2),
    "reveal for another list": (3, "server", 0, -1, None),
    "reveal's list": (3, "server", 1, 30, 6),
    "confirmation": (3, "server", 0, 85, 0),
    "sealed reveal": (3, "server", 0, -70, 0),
    "protocol version": (2, "client", 1, 3, 0),
    "kind of message": (3, "server", 3, 4, 5),
}


def known() -> Sum:
    session = session_of(CLIENTS, length=LENGTH, shape=Shape(3, 3), check="known answers")
    return Sum(session, VECTORS, label="known answers", drop={DROPPED: Phase.MASK})


def tamper(name: str, data: bytes) -> bytes:
    changed = bytearray(data)
    _, _, _, where, bit = BITS[name]
    changed[where] ^= 1 << (2 if bit is None else bit)
    return bytes(changed)


def lied(name: str, total: Sum) -> bytes:
    """A client's answer, changed; or its answer to a changed request, which it signed."""
    phase, _, client, _, bit = BITS[name]
    request = total.requests[client]
    if bit is None:
        return total.answer(client, Phase(phase), tamper(name, request))
    return tamper(name, total.answer(client, Phase(phase), request))


def refusal(name: str, data: bytes | None = None) -> tuple[bytes, str]:
    """The tampered bytes, and the name of the error that they meet."""
    phase, to, client, *_ = BITS[name]
    total = known().until(Phase(phase))
    request = total.requests[client]
    try:
        if to.startswith("client"):
            if to.endswith("again"):
                total.answer(client, Phase(phase), request)
            data = data or tamper(name, request)
            total.answer(client, Phase(phase), data)
        else:
            data = data or lied(name, total)
            total.server.receive(decode(data))
    except SecureSumError as error:
        return data, type(error).__name__
    raise RuntimeError(f"{name} was not refused")


def transcript() -> dict:
    total, requests = known(), {}
    for phase in PHASES:
        requests |= {f"{phase} {i}": data.hex() for i, data in total.requests.items()}
        total.step(phase)
    result = total.server.result()
    session = total.session
    return {
        "identities": {name: key.to_bytes().hex() for name, key in total.who.items()},
        "session": session.to_bytes().hex(),
        "session digest": session.digest.hex(),
        "circle": session.order.tolist(),
        "vectors": VECTORS.tolist(),
        "requests (phase client)": requests,
        "answers (phase client)": {
            f"{phase} {i}": data.hex() for (phase, i), data in total.sent.items()
        },
        "sum": words(result).tolist(),
        "survivors": list(result.survivors),
    }


def main() -> None:
    tampered = {}
    for name, (phase, to, client, *_) in BITS.items():
        data, error = refusal(name)
        tampered[name] = {
            "phase": phase,
            "to": to,
            "client": client,
            "message": data.hex(),
            "error": error,
        }
        print(f"{name:35} {error}")
    FILE.write_text(json.dumps({"known": transcript(), "tampered": tampered}, indent=1) + "\n")


if __name__ == "__main__":
    main()
