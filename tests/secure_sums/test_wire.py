"""One encoding for each message, and no other is read."""

from dataclasses import replace

import pytest
from secure_sums.summing import PHASES, at, session_of

from flwr_kld.common import errors
from flwr_kld.secure_sums.messages import Survivors, decode
from flwr_kld.secure_sums.session import Session


@pytest.mark.parametrize("phase", PHASES)
def test_only_canonical_bytes_are_messages(phase):
    total = at(phase)
    total.collect(phase)
    blobs = [total.sent[phase, 0]] + ([total.requests[0]] if phase else [])
    for data in blobs:
        assert decode(data).to_bytes() == data
        for bad in (data[:-1], data + b"\0", b"kss0" + data[4:], data[:4] + b"\x63" + data[5:]):
            with pytest.raises(errors.Malformed):
                decode(bad)
        for cut in range(0, len(data), 7):
            with pytest.raises(errors.Malformed):
                decode(data[:cut])


def test_spare_bits_of_a_bitmap_are_zero():
    data = bytearray(Survivors(bytes(16), 5, b"\x1f").to_bytes())
    assert decode(bytes(data)).alive == b"\x1f"
    data[-1] = 0x3F
    with pytest.raises(errors.Malformed):
        decode(bytes(data))


@pytest.mark.parametrize(("n", "listed"), [(4, 4), (4, 64), (4, 65), (40, 10_000)])
def test_sessions_are_canonical_bytes(n, listed):
    session = replace(session_of(n), listed=listed, cohort=tuple(range(listed - n, listed)))
    data = session.to_bytes()
    assert Session.from_bytes(data) == session
    for bad in (data[:-1], data + b"\0", b"kss0" + data[4:], data[:5] + b"\x10" + data[6:]):
        with pytest.raises(errors.SecureSumError):
            Session.from_bytes(bad)


def test_a_cohort_names_nobody_twice():
    session = replace(session_of(4), listed=8)
    for cohort in ((0, 1, 1, 3), (1, 0, 2, 3)):
        with pytest.raises(errors.Malformed, match="once"):
            replace(session, cohort=cohort)
    data = bytearray(session.to_bytes())
    for named in (0b0111, 0b11111):
        data[-1] = named
        with pytest.raises(errors.Malformed, match="number"):
            Session.from_bytes(bytes(data))
