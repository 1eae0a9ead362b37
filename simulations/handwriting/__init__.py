"""Virtual handwriters: any number of clients from a small source of real handwriting."""

from flwr_kld.simulations.handwriting.digits import load_digits
from flwr_kld.simulations.handwriting.resample import WriterResampler
from flwr_kld.simulations.handwriting.source import load_source
from flwr_kld.simulations.handwriting.style import StylePopulation, WriterStyle

__all__ = [
    "StylePopulation",
    "WriterResampler",
    "WriterStyle",
    "load_digits",
    "load_source",
]
