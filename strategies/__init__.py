"""What runs in a ServerApp."""

from flwr_kld.check.decider import Alarm
from flwr_kld.cohort.cohort import RotatingCohort, RotatingRecords, UniformCohort
from flwr_kld.kernel.promise import Adjacency, Clip
from flwr_kld.strategies.kl_drift import KLDrift
from flwr_kld.strategies.plain_sum import PlainSum
from flwr_kld.strategies.population import HostedClients
from flwr_kld.strategies.private_predictor import PrivatePredictor
from flwr_kld.strategies.reference_from_clients import ReferenceFromClients
from flwr_kld.strategies.sealed_sum import SealedSum
from flwr_kld.strategies.secure_sum import SecureSum
from flwr_kld.strategies.with_drift_checks import WithDriftChecks
from flwr_kld.trust.distributed import Distributed
from flwr_kld.trust.trusted import Trusted
from flwr_kld.trust.trusted_aggregator import TrustedAggregator
from flwr_kld.trust.two_aggregators import TwoAggregators

__all__ = [
    "Adjacency",
    "Alarm",
    "Clip",
    "Distributed",
    "HostedClients",
    "KLDrift",
    "PlainSum",
    "PrivatePredictor",
    "ReferenceFromClients",
    "RotatingCohort",
    "RotatingRecords",
    "SealedSum",
    "SecureSum",
    "Trusted",
    "TrustedAggregator",
    "TwoAggregators",
    "UniformCohort",
    "WithDriftChecks",
]
