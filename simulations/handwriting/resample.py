"""Any number of virtual writers from a small source, reproducibly.

Writer i depends on the seed and on i alone: not on how many others are made, in what order, or in
which process.

>>> from flwr_kld.simulations.handwriting.source import load_digits
>>> from flwr_kld.simulations.handwriting.resample import WriterResampler
>>> from flwr_kld.simulations.handwriting.style import StylePopulation
>>> source = load_digits()
>>> usual = WriterResampler(source, seed=1)
>>> usual.writer(2500, records=100).images.shape
(100, 8, 8)
>>> drifted = WriterResampler(source, seed=1, styles=StylePopulation(slant=0.4, thickness=0.05))
"""

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flwr_kld.clients.handwriting.dataset import Handwriting
from flwr_kld.kernel.arguments import integer
from flwr_kld.simulations.handwriting.style import StylePopulation, WriterStyle, restyle


class WriterResampler:
    """Draw virtual writers: each has a style, and redraws images of the source in it."""

    def __init__(
        self, source: Handwriting, seed: int, styles: StylePopulation | None = None
    ) -> None:
        if len(source) == 0:
            raise ValueError("the source of a WriterResampler must hold at least one image")
        self._seed = integer("seed", seed, least=0)
        self._styles = styles or StylePopulation()
        self.digits, counts = np.unique(source.labels, return_counts=True)
        self._counts = counts.astype(np.int64)
        self._starts = np.cumsum(self._counts) - self._counts
        self._images = source.images[np.argsort(source.labels, kind="stable")]
        self._source = source

    def style(self, index: int) -> WriterStyle:
        """Return the style of writer ``index``."""
        return self._styles.draw(self._generators(index)[0], self._counts / self._counts.sum())

    def writer(self, index: int, records: int, digit_mix: ArrayLike | None = None) -> Handwriting:
        """Let writer ``index`` write."""
        records = integer("records", records, least=0)
        style = self.style(index)
        if digit_mix is not None:
            style = replace(style, digit_mix=self._checked(digit_mix))
        rng = self._generators(index)[1]
        which = rng.choice(len(self.digits), size=records, p=style.digit_mix)
        rows = self._starts[which] + rng.integers(self._counts[which])
        images = restyle(self._images[rows], style, rng)
        return replace(
            self._source, images=images, labels=self.digits[which], writer=np.full(records, index)
        )

    def mostly(self, *digits: int) -> NDArray[np.float64]:
        """Return a digit mix in which these are seven tenths of the ten digits."""
        mix = np.where(np.isin(self.digits, digits), 0.7 / len(digits), 0.3 / (10 - len(digits)))
        return np.asarray(mix / mix.sum(), dtype=np.float64)

    def _generators(self, index: int) -> list[np.random.Generator]:
        """Return two independent streams: for the writer's style, and for what is written."""
        index = integer("index", index, least=0)
        sequence = np.random.SeedSequence([self._seed, index])
        return [np.random.default_rng(child) for child in sequence.spawn(2)]

    def _checked(self, digit_mix: ArrayLike) -> NDArray[np.float64]:
        mix = np.asarray(digit_mix, dtype=np.float64)
        if mix.shape != self.digits.shape or not (mix >= 0).all() or abs(mix.sum() - 1) > 1e-9:
            raise ValueError(
                "digit_mix must hold a probability for each of .digits, and they must sum to 1"
            )
        normal: NDArray[np.float64] = mix / mix.sum()
        return normal
