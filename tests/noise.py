"""In tests the operating system's random numbers are a stream that begins at a number.

The number stands in the test, by ``@pytest.mark.noise(7)``, and is 0 where there is none; by
``@pytest.mark.noise(None)`` the product asks the operating system, as it does outside of tests. A
fixture that several tests share has a stream of its own, so that it is the same for whichever of
them comes first. Other processes, of Ray or a SuperLink, ask the operating system, and so do forks.

``FLWR_KLD_NOISE=5`` gives all tests other noise, and those that state a rate of failures, by
``@pytest.mark.rate(1e-6)``, other generators as well: ``make fuzz`` does.
"""

import os
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

SHIFT = int(os.environ.get("FLWR_KLD_NOISE", "0"))
"""What is fresh about this run; 0 in `make test`."""
HERE = str(Path(__file__).parent)


class Noise:
    """The stream that the test that runs now draws from."""

    def __init__(self) -> None:
        self.stream: np.random.Generator | None = None
        self.process = os.getpid()
        self.shift = SHIFT
        self.statistical = False
        self.node = ""
        self.drawn_by: set[str] = set()

    def begin(self, node: pytest.Item | pytest.Collector, *key: int) -> None:
        self.node, mark = node.nodeid, node.get_closest_marker("noise")
        number = mark.args[0] if mark else 0
        words = None if number is None else np.random.SeedSequence([self.shift, number, *key])
        self.stream = None if words is None else np.random.Generator(np.random.Philox(words))


NOISE = Noise()


@pytest.fixture(scope="session", autouse=True)
def _noise() -> Iterator[None]:
    from flwr_kld.kernel.law import SeededBits, SystemBits

    system, seeded, default_rng = SystemBits.words, SeededBits.__init__, np.random.default_rng

    def words(self: SystemBits, count: int) -> NDArray[np.uint64]:
        if NOISE.stream is None or os.getpid() != NOISE.process:
            return system(self, count)
        NOISE.drawn_by.add(NOISE.node)
        return NOISE.stream.integers(0, 2**64, count, dtype=np.uint64)

    def shifted(seed: object) -> object:
        """Another seed, for what a test draws itself, where it states how often it fails."""
        of_a_test = sys._getframe(2).f_code.co_filename.startswith(HERE)
        if NOISE.statistical and of_a_test and isinstance(seed, int | np.integer):
            return int(seed) + (NOISE.shift << 32)
        return seed

    def init(self: SeededBits, seed: int) -> None:
        seeded(self, shifted(seed))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SystemBits, "words", words)
        if NOISE.shift:
            patch.setattr(SeededBits, "__init__", init)
            patch.setattr(np.random, "default_rng", lambda seed=None: default_rng(shifted(seed)))
        yield


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    NOISE.begin(item)
    NOISE.statistical = item.get_closest_marker("rate") is not None


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef, request: pytest.FixtureRequest) -> Iterator:
    if fixturedef.scope == "function":
        return (yield)
    before = NOISE.stream, NOISE.node
    NOISE.begin(request.node, zlib.crc32(fixturedef.argname.encode()))
    try:
        return (yield)
    finally:
        NOISE.stream, NOISE.node = before
