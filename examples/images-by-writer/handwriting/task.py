"""Writers: each redraws scikit-learn's digits in a hand of its own."""

import numpy as np

from flwr_kld.simulations.handwriting.resample import WriterResampler
from flwr_kld.simulations.handwriting.source import load_digits
from flwr_kld.simulations.handwriting.style import StylePopulation

DIGITS = load_digits(clients=1)
DOMAIN = DIGITS.patterns()  # which of an image's 4×4 blocks are background


def images(writer: int, slant: float = 0.0) -> np.ndarray:
    """Return what a writer wrote, shape [images, side, side].

    For real writers, read ``load_femnist`` or ``load_npz`` of
    ``flwr_kld.clients.handwriting`` instead.
    """
    hands = WriterResampler(DIGITS, seed=1, styles=StylePopulation(slant=slant))
    return hands.writer(writer, records=100).images
