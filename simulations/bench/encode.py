"""Images encoded per second on one core, against the plain NumPy way in the same run.

Run ``python simulations/bench/encode.py``. The peer is ``images.reshape(-1, 4, b, 4, b)
.mean((2, 4)) <= 0`` in float64, packed to the same symbols; the two must agree.
"""

import argparse
import time
from collections.abc import Callable, Iterator

import numpy as np
from measuring import Row, cpu, measured
from numpy.typing import NDArray

from flwr_kld.domain.block_patterns import FULL_SCALE, BlockPatterns, Pixels


def mean_of_blocks(images: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Encode with a float64 mean over the two pixel axes of the blocks."""
    block = images.shape[1] // 4
    means = images.reshape(-1, 4, block, 4, block).mean((2, 4)).reshape(-1, 16)
    symbols: NDArray[np.int64] = (means <= 0) @ (1 << np.arange(16))
    return symbols


def images_per_second(
    encode: Callable[[NDArray[np.uint8]], NDArray[np.int64]],
    images: NDArray[np.uint8],
    repeats: int,
) -> float:
    """Return the best rate of several runs, in images per second of CPU time."""
    best = float("inf")
    for _ in range(repeats):
        start = time.process_time()
        encode(images)
        best = min(best, time.process_time() - start)
    return len(images) / best


def rows(repeats: int = 5, *, quick: bool = False) -> Iterator[Row]:
    """Encode 28×28 images."""
    for number in (100,) if quick else (1_000, 10_000, 100_000):
        images = np.random.default_rng(0).integers(0, 2, (number, 28, 28), dtype=np.uint8)
        domain = BlockPatterns(pixels="uint8", side=28)
        domain.encode(images)  # the first one fills caches
        yield measured(
            "encode",
            "images",
            cpu(lambda d=domain, i=images: d.encode(i)),
            repeats=repeats,
            size=number,
            peer="float64 means",
            theirs=cpu(lambda i=images: mean_of_blocks(i)),
        )


def main() -> None:
    """Measure both ways on random images, a tenth of them inked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--images", type=int, default=100_000, help="images per run")
    parser.add_argument("--repeats", type=int, default=5, help="runs; the best one counts")
    arguments = parser.parse_args()

    rng = np.random.default_rng(0)
    print(f"{'images':>8} {'BlockPatterns':>15} {'float64 mean':>15} {'ratio':>7}   [images/s]")
    conventions: list[tuple[int, Pixels]] = [(28, "uint8"), (8, "digits")]
    for side, pixels in conventions:
        shape = (arguments.images, side, side)
        images = rng.integers(1, FULL_SCALE[pixels] + 1, size=shape, dtype=np.uint8)
        images *= rng.random(shape, dtype=np.float32) < 0.1
        domain = BlockPatterns(pixels=pixels, side=side)
        if not np.array_equal(domain.encode(images), mean_of_blocks(images)):
            raise RuntimeError("the two encodings disagree")
        ours = images_per_second(domain.encode, images, arguments.repeats)
        peer = images_per_second(mean_of_blocks, images, arguments.repeats)
        print(f"{side:>5}x{side:<2} {ours:>15,.0f} {peer:>15,.0f} {ours / peer:>6.1f}x")


if __name__ == "__main__":
    main()
