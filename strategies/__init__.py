"""What runs in a ServerApp."""

from typing import TYPE_CHECKING

from flwr_kld.common.extras import on_request

if TYPE_CHECKING:
    from flwr_kld.ask.cohort import RotatingCohort, UniformCohort
    from flwr_kld.ask.period import Period, SinceLastCheck
    from flwr_kld.infer.alarm import Alarm
    from flwr_kld.kernel.promise import WholeClients
    from flwr_kld.strategies.aggregation import PlainSum
    from flwr_kld.strategies.drift_actions import Pause, Retrain, Reweight
    from flwr_kld.strategies.kl_drift import KLDrift
    from flwr_kld.strategies.label_discovery import LabelDiscovery
    from flwr_kld.strategies.ledger_accountant import LedgerAccountant, noise_claim
    from flwr_kld.strategies.population import HostedClients
    from flwr_kld.strategies.private_predictor import PrivatePredictor
    from flwr_kld.strategies.secure_sum import SecureSum
    from flwr_kld.strategies.statistics import Statistics
    from flwr_kld.strategies.with_drift_checks import WithDriftChecks
    from flwr_kld.trust.distributed import Distributed
    from flwr_kld.trust.standing import Standing
    from flwr_kld.trust.trusted import Trusted, TrustedAggregator, TwoAggregators

__all__ = [
    "Alarm",
    "Distributed",
    "HostedClients",
    "KLDrift",
    "LabelDiscovery",
    "LedgerAccountant",
    "Pause",
    "Period",
    "PlainSum",
    "PrivatePredictor",
    "Retrain",
    "Reweight",
    "RotatingCohort",
    "SecureSum",
    "SinceLastCheck",
    "Standing",
    "Statistics",
    "Trusted",
    "TrustedAggregator",
    "TwoAggregators",
    "UniformCohort",
    "WholeClients",
    "WithDriftChecks",
    "noise_claim",
]

__getattr__, __dir__ = on_request(__name__)
