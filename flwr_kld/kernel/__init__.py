"""All that must be believed of a release: laws, promises, their proof, and noise that is drawn.

It imports the standard library and NumPy only. ``docs/audit.md`` leads through it.
"""

from flwr_kld.kernel.law import NoiseTable
from flwr_kld.kernel.promise import Guarantee
from flwr_kld.kernel.release import Release

__all__ = ["Guarantee", "NoiseTable", "Release"]
