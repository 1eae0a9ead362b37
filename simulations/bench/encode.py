"""Images encoded per second on one core, against the plain NumPy way in the same run.

The peer is ``images.reshape(-1, 4, b, 4, b)
.mean((2, 4)) <= 0`` in float64, packed to the same symbols; the two must agree.
"""

from collections.abc import Iterator

import numpy as np
from measuring import Row, cpu, measured
from numpy.typing import NDArray

from flwr_kld.domain.block_patterns import BlockPatterns


def mean_of_blocks(images: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Encode with a float64 mean over the two pixel axes of the blocks."""
    block = images.shape[1] // 4
    means = images.reshape(-1, 4, block, 4, block).mean((2, 4)).reshape(-1, 16)
    symbols: NDArray[np.int64] = (means <= 0) @ (1 << np.arange(16))
    return symbols


def rows(repeats: int = 5, *, quick: bool = False) -> Iterator[Row]:
    """Encode 28×28 images, a tenth of whose pixels are inked."""
    rng = np.random.default_rng(0)
    for number in (100,) if quick else (1_000, 10_000, 100_000):
        shape = (number, 28, 28)
        images = rng.integers(1, 256, shape, dtype=np.uint8)
        images *= rng.random(shape, dtype=np.float32) < 0.1
        domain = BlockPatterns(pixels="uint8", side=28)
        if not np.array_equal(domain.encode(images), mean_of_blocks(images)):
            raise RuntimeError("the two encodings disagree")
        yield measured(
            "encode",
            "images",
            cpu(lambda d=domain, i=images: d.encode(i)),
            repeats=repeats,
            size=number,
            peer="float64 means",
            theirs=cpu(lambda i=images: mean_of_blocks(i)),
        )
