"""A bit that flips in a file which must not forget: refused with a sentence, or nothing changes."""

import random
import shutil
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from guard.files import period_of
from secure_sums.test_session_book import ANN, BOB, KEY, SIZE, opened, sit
from trust.test_session_memory import asked, count

from flwr_kld.clients import check_memory
from flwr_kld.common.errors import QueryRefused
from flwr_kld.guard.receipts import Claim, Receipts
from flwr_kld.kernel.law import SystemBits
from flwr_kld.secure_sums import Identity
from flwr_kld.trust.session_book import SessionBook

IDENTITY = Identity.generate()
LIMITS = period_of(86_400, epsilon=1, delta=1)


class Claims:
    """What a node has answered."""

    def write(self, file: Path) -> None:
        for answer in range(40):
            check_memory._write_down(file, f"answer {answer}")

    def read(self, file: Path) -> object:
        with pytest.raises(QueryRefused):
            check_memory._write_down(file, "answer 7")
        check_memory._write_down(file, "another")
        return None


class SignedReceipts:
    """What a node has spent, in checks and in a session."""

    def _spend(self, check: str, epsilon: Fraction, account: str = "0", night: int = 0) -> Claim:
        session = "s" if night else ""
        return Claim(
            check, account, "p", "t", "none", "trusted", epsilon, Fraction(0), "record", 0, 0,
            session=session, night=night,
        )  # fmt: skip

    def write(self, file: Path) -> None:
        receipts = Receipts(file, IDENTITY)
        for number in range(4):
            receipts.reserve(self._spend(f"c{number}", Fraction(1, 8)), 1000.0, LIMITS)
            receipts.reserve(self._spend(f"c{number}", Fraction(1, 9), "1"), 1000.0, LIMITS)
        for night in (1, 2):
            receipts.reserve(self._spend(f"n{night}", Fraction(1, 4), night=night), 1000.0, LIMITS)

    def read(self, file: Path) -> object:
        receipts = Receipts(file, IDENTITY)
        for refused in (
            self._spend("more", Fraction(1, 4) + Fraction(1, 10**12)),
            self._spend("c1", Fraction(1, 100)),
            self._spend("again", Fraction(1, 4), night=2),
        ):
            with pytest.raises((QueryRefused, sqlite3.Error)):
                receipts.reserve(refused, 1000.0, LIMITS)
        last = receipts.last_night(self._spend("n3", Fraction(1, 4), night=3), 1000.0, LIMITS)
        receipts.reserve(self._spend("rest", Fraction(1, 4)), 1000.0, LIMITS)
        return last


class Lives:
    """What a client's records count as in two sessions."""

    def write(self, file: Path) -> None:
        for session in "st":
            for night in (1, 2, 4):
                for client in range(3):
                    records = {10 * client + i: i + night for i in range(9 - night)}
                    count(file, asked(night, session), records, client=client, node="n")

    def read(self, file: Path) -> object:
        with pytest.raises((QueryRefused, sqlite3.Error)):
            count(file, asked(4), {1: 1}, client=1, node="n")
        return [count(file, asked(5), {10 * c + 2: 7}, client=c, node="n") for c in range(3)]


class Book:
    """What whoever adds up keeps."""

    def write(self, file: Path) -> None:
        for session in ("5e", "5f"):
            book = SessionBook(file, KEY)
            for night in (1, 2, 3):
                answers = (ANN, bytes([night] * SIZE)), (BOB, bytes([7] * SIZE))
                sit(book, night, *answers[: 3 - night or 1], session=session)

    def read(self, file: Path) -> object:
        book = SessionBook(file, KEY)
        with pytest.raises(QueryRefused):
            opened(book, 3, released=0)
        night = opened(book, 4, released=0)  # so that no server knows what was released
        silent = night.silent()
        return silent, night.claim(SystemBits())._seeds[:-1]


KINDS = {kind.__name__: kind() for kind in (Claims, SignedReceipts, Lives, Book)}


@pytest.fixture
def folder() -> Iterator[Path]:
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as place:
        yield Path(place)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("flips", [40, pytest.param(700, marks=pytest.mark.slow)])
def test_a_flipped_bit_is_refused_or_changes_nothing(kind, flips, folder, capsys):
    what, fate, ends = KINDS[kind], random.Random(f"{kind} {flips}"), Counter()
    whole, file = folder / "whole.db", folder / "file.db"
    what.write(whole)
    content = whole.read_bytes()
    used = np.flatnonzero(np.frombuffer(content, np.uint8))  # most of a small file is empty
    shutil.copy(whole, file)
    right = what.read(file)
    for _ in range(flips):
        for beside in folder.glob("file.db*"):
            beside.unlink()
        bent = bytearray(content)
        place = int(fate.choice(used)) if fate.random() < 0.9 else fate.randrange(len(bent))
        bent[place] ^= 1 << fate.randrange(8)
        file.write_bytes(bent)
        try:
            found = what.read(file)
        except (QueryRefused, sqlite3.Error):  # callers have one sentence for all of the latter
            ends["refused"] += 1
        else:
            assert found == right
            ends["same"] += 1
    assert ends["refused"] > flips / 4
    with capsys.disabled():
        if flips > 100:
            print(f"\n{kind}: {dict(ends)}")
