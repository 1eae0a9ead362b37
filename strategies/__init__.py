"""What runs in a ServerApp."""

from flwr_kld.privacy import Adjacency
from flwr_kld.scalar import Scalar
from flwr_kld.strategies.cohort import Participant, RotatingCohort, UniformCohort
from flwr_kld.strategies.kl_drift import KLDrift
from flwr_kld.strategies.population import HostedClients, Nodes
from flwr_kld.strategies.trusted import Trusted

__all__ = [
    "Adjacency",
    "HostedClients",
    "KLDrift",
    "Nodes",
    "Participant",
    "RotatingCohort",
    "Scalar",
    "Trusted",
    "UniformCohort",
]
