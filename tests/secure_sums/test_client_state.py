"""A client's memory between two phases: read as it was written, and else refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from secure_sums.summing import EASY, Sum, people, session_of

from flwr_kld.common.errors import Malformed
from flwr_kld.secure_sums.client import ClientState, SumClient
from flwr_kld.secure_sums.messages import Phase


def states():
    """What one client remembers after each phase that it answered."""
    total, found = Sum(session_of(4), np.ones((4, 4), np.uint64)), []
    for phase in range(4):
        total.step(Phase(phase))
        found.append(total.clients[0].state())
    return found


STATES = states()
SHARED = STATES[Phase.SHARE]
SECRETS = [SHARED[n] for n in ("mask_secret", "seal_secret", "seed", "own", "shares", "channels")]


@pytest.mark.parametrize("state", STATES, ids=[s["phase"] for s in STATES])
def test_what_is_written_is_read(state):
    assert ClientState.from_dict(state).to_dict() == state


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"phase": True}, "phase"),
        ({"phase": 2.0}, "phase"),
        ({"phase": -1}, "phase"),
        ({"phase": 7}, "phase"),
        ({"session": "text"}, "session"),
        ({"session": None}, "session"),
        ({"mask_secret": SHARED["mask_secret"][1:]}, "mask_secret"),
        ({"seed": SHARED["seed"] * 2}, "seed"),
        ({"own": SHARED["own"] + b"x"}, "own"),
        ({"channels": SHARED["channels"][:-32]}, "channels"),
        ({"shares": SHARED["shares"] + b"x"}, "shares"),
        ({"mask_keys": SHARED["mask_keys"] + b"x"}, "mask_keys"),
        ({"peers": 3}, "peers"),
        ({"alive": []}, "alive"),
        ({"more": b""}, "field"),
    ],
)  # fmt: skip
def test_what_is_not_so_is_refused_and_tells_no_secret(change, words):
    with pytest.raises(Malformed, match=words) as refused:
        ClientState.from_dict(SHARED | change)
    assert refused.value.__cause__ is refused.value.__context__ is None
    assert not any(repr(secret) in str(refused.value) for secret in SECRETS)


@pytest.mark.parametrize("name", SHARED)
def test_nothing_may_be_missing(name):
    with pytest.raises(Malformed, match=name):
        ClientState.from_dict({n: v for n, v in SHARED.items() if n != name})


@given(st.sampled_from(sorted(SHARED)), st.none() | st.booleans() | st.text() | st.floats())
def test_no_field_takes_another_type(name, value):
    who, roster = people(4)
    with pytest.raises(Malformed):
        SumClient.resume(SHARED | {name: value}, who["c000"], "c000", roster, EASY)
