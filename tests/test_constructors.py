"""Every public constructor and function refuses what is no number where a number is due.

What is public is read from the `__all__` of every package, and which arguments are numbers from
their annotations: whoever publishes something that takes a number has to add an example here.
What these are made of has examples, too.
"""

import inspect
import math

import numpy as np
import pytest
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAvg
from public_face import numbers, public
from report.samples import STATISTICS

from flwr_kld import (
    Table,
    clients,
    integral,
    kernel,
    ledger,
    planner,
    predictors,
    report,
    simulations,
    strategies,
    views,
)
from flwr_kld.ask.cohort import Participant
from flwr_kld.ask.noisy import NoisyCounts
from flwr_kld.ask.partition import Partition
from flwr_kld.ask.period import SinceLastCheck
from flwr_kld.ask.plan import QueryPlan, cells_from_wire
from flwr_kld.clients import handwriting
from flwr_kld.common.errors import SecureSumError
from flwr_kld.guard.receipts import Receipt
from flwr_kld.guard.secure_sum_policy import ClientPolicy
from flwr_kld.infer.e_detector import EDetector
from flwr_kld.infer.estimators.posterior_ratios import posterior_ratios
from flwr_kld.infer.estimators.result import ErrorSplit, Estimate
from flwr_kld.infer.outside import OutsideLimits
from flwr_kld.infer.upper_limit import UpperLimit, upper_limit
from flwr_kld.integral.draws import BoxLaw
from flwr_kld.integral.sampler import IntegralEvent, delta_of_draws, epsilon_of_draws
from flwr_kld.kernel import Guarantee
from flwr_kld.kernel.channels import from_ring
from flwr_kld.kernel.delta import hockey_stick
from flwr_kld.kernel.law import NoiseTable, SeededBits, SystemBits, sample
from flwr_kld.kernel.promise import WholeClients
from flwr_kld.kernel.release import Release, ShareRelease
from flwr_kld.kernel.vector import ClientRows
from flwr_kld.ledger.budget import Spent
from flwr_kld.ledger.entry import Entry, ReleaseCost
from flwr_kld.ledger.reservations import Reservation
from flwr_kld.planner.forecast import Forecast
from flwr_kld.predictors.bayes_mixture import Intake
from flwr_kld.predictors.readouts import Leader
from flwr_kld.predictors.tally import LocalReports
from flwr_kld.reference import Reference
from flwr_kld.report.envelope import Point
from flwr_kld.report.predictor_report import PredictorReport
from flwr_kld.report.report import Report as DriftReport
from flwr_kld.report.statistics_report import StatisticsReport
from flwr_kld.report.survival import Survival
from flwr_kld.secure_sums.graph import Shape, Tolerance, choose_shape
from flwr_kld.secure_sums.server import SumResult
from flwr_kld.secure_sums.session import Session
from flwr_kld.simulations import InProcessGrid
from flwr_kld.simulations.handwriting.resample import WriterResampler
from flwr_kld.simulations.handwriting.source import load_digits, load_source
from flwr_kld.simulations.handwriting.style import StylePopulation, WriterStyle
from flwr_kld.simulations.studies.papers.learners import LocallyPrivateWMA, PureLocalEXP3
from flwr_kld.table.binned import Binned
from flwr_kld.table.block_patterns import BlockPatterns
from flwr_kld.table.codes import Codes
from flwr_kld.table.dialect import Dialect
from flwr_kld.table.labels import Labels
from flwr_kld.trust.calibration import calibrated_gaussian, calibrated_laplace

DOMAIN = Labels([f"label {i}" for i in range(20)])
EVEN = Reference.from_counts(DOMAIN, np.ones(DOMAIN.size))
ODD = Reference.from_counts(DOMAIN, np.arange(1, DOMAIN.size + 1))
EVENT = calibrated_laplace(Guarantee(1.0))
PLAN = Partition(20).draw(EVEN, np.random.default_rng(0))
COUNTS = NoisyCounts(np.arange(1, PLAN.cells + 1), 200.0, EVENT, PLAN, True)
BASE, BOX = integral.FiniteBase.uniform(DOMAIN), integral.Mollifier.symmetric(1.0)
HYPOTHESES = predictors.Hypotheses({"even": EVEN, "odd": ODD})
MIXTURE = predictors.BayesMixture(HYPOTHESES, 1.0)
IMAGES = handwriting.Handwriting(np.zeros((2, 8, 8), np.uint8), np.arange(2), np.arange(2))
TRUST = strategies.Trusted(1.0)
TRUSTED = {"epsilon": 1.0, "delta": 0.0}
SETTING = planner.Setting(clients=20, records=9.0, trust=TRUST)
SESSION = {
    "check": "c", "terms": "p", "roster": bytes(32), "listed": 3, "cohort": (0, 1, 2),
    "length": 4, "shape": Shape(2, 2), "min_clients": 3,
}  # fmt: skip

EXAMPLES = {
    EDetector: {},
    upper_limit: {"noisy": COUNTS, "theta": 0.01},
    clients.AggregatorLimits: {"most_epsilon": 1.0},
    Binned: {"edges": [0.0, 1.0]},
    BlockPatterns: {},
    Dialect: {"delimiter": ";", "missing": ["", "NA"]},
    Codes: {"names": ["a", "b"], "buckets": 2, "prefix": 1},
    Labels: {"names": ["a", "b"]},
    SinceLastCheck: {"column": "day"},
    Survival: {"time": "months", "event": "died"},
    Reference: {"domain": Labels(["a", "b"]), "probabilities": [0.5, 0.5], "records": 9.0},
    posterior_ratios: {"counts": COUNTS},
    StylePopulation: {},
    WriterResampler: {"source": IMAGES, "seed": 1},
    WriterStyle: {
        "right": 0.0, "down": 0.0, "thickness": 0.0, "slant": 0.0, "digit_mix": np.ones(1),
    },
    handwriting.Handwriting: {
        "images": np.zeros((2, 8, 8), np.uint8), "labels": np.arange(2), "writer": np.arange(2),
    },
    integral.GaussianCells: {"dimension": 1, "per_axis": 2},
    integral.Mollifier: {"epsilon": 1.0, "floor": 0.5},
    integral.Sampler: {"law": BoxLaw(BASE, BOX, BASE.mass), "draws": 1},
    InProcessGrid: {"app": ClientApp(), "nodes": 3},
    delta_of_draws: {"box": BOX, "draws": 1, "epsilon": 0.5},
    epsilon_of_draws: {"box": BOX, "draws": 1, "delta": 0.0},
    integral.mbde: {"symbols": [0, 1], "base": BASE, "epsilon": 1.0, "rounds": 1},
    integral.mollify: {"symbols": [0, 1, 1], "base": BASE, "box": BOX},
    ledger.Budget: {"epsilon": 1.0, "delta": 0.0, "window_days": 1.0},
    ledger.Charge: {"cost": ledger.Cost.claimed("m", Guarantee(1.0)), "clients": ["a"]},
    ledger.Cost: {
        "mechanism": "m", "epsilon": 1, "delta": 0, "protects": "record", "shifts": (1, -1),
    },
    ledger.Ledger: {"url": "sqlite:///{folder}/ledger.db"},
    planner.Setting: {"clients": 20, "records": 9.0, "trust": TRUST, "population": 40},
    planner.forecast: {"reference": EVEN, "setting": SETTING},
    predictors.BayesMixture: {"hypotheses": HYPOTHESES, "epsilon": 1.0},
    predictors.Hypotheses: {"candidates": {"even": EVEN, "odd": ODD}},
    Intake: {"predictor": MIXTURE, "round": 1},
    LocallyPrivateWMA: {"laws": HYPOTHESES.at(), "epsilon": 1.0, "horizon": 2},
    PureLocalEXP3: {"laws": HYPOTHESES.at(), "epsilon": 1.0, "horizon": 2},
    LocalReports: {
        "round": 1, "queries": np.zeros(1, int), "symbols": np.zeros(1, int),
    },
    NoiseTable: {"weights": (1, 2**128 - 2, 1)},
    SeededBits: {"seed": 1},
    kernel.Guarantee: {"epsilon": 1.0},
    calibrated_gaussian: {"guarantee": Guarantee(1.0, 1e-6)},
    calibrated_laplace: {"guarantee": Guarantee(1.0)},
    hockey_stick: {"table": EVENT.table, "shifts": (1, -1), "epsilon": 1.0},
    sample: {"table": EVENT.table, "size": 3, "bits": SystemBits()},
    Partition: {},
    views.CheckSeries: {"points": [], "drift_from": 2},
    report.best_candidate: {
        "report": STATISTICS, "column": "minutes", "design_effect": 1.0,
        "candidates": {"even": [0.25, 0.25, 0.25, 0.25, 0], "few": [1, 0, 0, 0, 0]},
    },
    ClientPolicy: {},
    Session: SESSION,
    Shape: {"neighbours": 2, "threshold": 2},
    Tolerance: {},
    choose_shape: {"cohort": 3, "tolerance": Tolerance()},
    from_ring: {"total": np.zeros(1, "<u8")},
    strategies.Alarm: {},
    WholeClients: {"most_records": 3},
    strategies.Distributed: {"epsilon": 1.0, "min_clients": 3},
    strategies.KLDrift: {
        "reference": EVEN, "trust": TRUST, "threshold": 0.1, "most_records": 9,
    },
    strategies.LabelDiscovery: {
        "reference": Table({"job": ["nurse"]}), "column": "job",
        "trust": strategies.Trusted(1.0, 1e-6),
    },
    Participant: {"node": 1},
    strategies.PrivatePredictor: {"predictor": MIXTURE},
    strategies.Statistics: {"domain": DOMAIN, "trust": TRUST, "most_records": 9},
    strategies.Retrain: {"rounds": 2},
    strategies.RotatingCohort: {"size": 2},
    strategies.SecureSum: {},
    strategies.Standing: {
        "trust": strategies.Trusted(1.0, 1e-6), "nights": 9, "moves": 2, "name": "year",
        "book": "standing.db",
    },
    strategies.Trusted: {**TRUSTED, "protects": WholeClients(3)},
    strategies.TrustedAggregator: {
        **TRUSTED, "protects": WholeClients(3),
        "aggregator": clients.AggregatorKey.generate().public,
    },
    strategies.TwoAggregators: {
        **TRUSTED, "protects": WholeClients(3),
        "aggregators": tuple(clients.AggregatorKey.generate().public for _ in range(2)),
    },
    simulations.simulate: {
        "monitor": strategies.KLDrift(EVEN, TRUST), "records": lambda _: [0, 1], "clients": 2,
        "seed": 1,
    },
    strategies.UniformCohort: {"size": 2},
    strategies.WithDriftChecks: {"strategy": FedAvg(), "monitor": strategies.KLDrift(EVEN, TRUST)},
}  # fmt: skip
"""Arguments that are right, for everything public that takes a number, or a list of any."""

ANSWERS = {
    UpperLimit, OutsideLimits, NoisyCounts,
    ledger.BudgetExhausted,
    Entry, ReleaseCost, Reservation, Spent,
    ledger.entry.Remembered, ErrorSplit, Estimate,
    Receipt, IntegralEvent,
    Forecast, Leader, Release, ShareRelease, QueryPlan, Point,
    PredictorReport, StatisticsReport, DriftReport, report.BestCandidate, report.Verdict,
    SumResult,
}  # fmt: skip
"""What the library computes and returns: nobody gives these numbers."""

FROM_ELSEWHERE = {
    ClientRows,  # a message's
    load_digits, handwriting.load_femnist, handwriting.load_leaf, handwriting.load_npz,
    load_source,  # files and networks: see their own tests
    cells_from_wire,  # a message's, checked against its fingerprint
}  # fmt: skip

NO_NUMBERS = [
    None,
    math.nan,
    math.inf,
    -math.inf,
    True,
    np.True_,
    "1",
    b"1",
    [1],
    np.float64("nan"),
]

TAKES_NUMBERS = {
    value: found
    for value in dict.fromkeys([*public(), *EXAMPLES])
    if (found := list(numbers(value)))
}
ARGUMENTS = [
    pytest.param(value, parameter, kind, id=f"{value.__name__}-{parameter.name}")
    for value, parameters in TAKES_NUMBERS.items()
    if value in EXAMPLES
    for parameter, kind in parameters
]


@pytest.fixture
def call(tmp_path):
    def call(value, **changes):
        given = {**EXAMPLES[value], **changes}
        return value(
            **{k: v.format(folder=tmp_path) if k == "url" else v for k, v in given.items()}
        )

    return call


def test_whatever_takes_a_number_has_an_example():
    known = EXAMPLES.keys() | ANSWERS | FROM_ELSEWHERE
    assert {value.__name__ for value in TAKES_NUMBERS.keys() - known} == set()


@pytest.mark.parametrize("value", EXAMPLES, ids=lambda value: value.__name__)
def test_the_examples_are_right(value, call):
    call(value)


@pytest.mark.parametrize(("value", "parameter", "kind"), ARGUMENTS)
def test_what_is_no_number_is_refused(value, parameter, kind, call):
    wrong = list(NO_NUMBERS)
    if kind in ("whole", "wholes"):
        wrong += [2.5, 1.0, np.float64(3)]
    if kind in ("wholes", "reals"):
        wrong = [[one] for one in wrong] + ["12", 12, b"12"]
    if kind == "texts":
        wrong = ["ab", b"ab", 12, [None], [b"a"]]
    if inspect.formatannotation(parameter.annotation).strip("'").endswith("None"):
        wrong = [one for one in wrong if one is not None]
    for one in wrong:
        with pytest.raises((ValueError, SecureSumError)) as caught:
            call(value, **{parameter.name: one})
        assert len(str(caught.value)) > 15, one  # a sentence


@pytest.mark.parametrize(("value", "parameter", "kind"), ARGUMENTS)
def test_numpys_numbers_pass_and_become_pythons(value, parameter, kind, call):
    name = parameter.name
    given = EXAMPLES[value].get(name, parameter.default)
    many = given if kind in ("wholes", "reals") else [given]
    if given is None or kind == "texts" or any(abs(one) >= 2**63 for one in many):
        pytest.skip("nothing that NumPy has a scalar for")
    as_numpy = {
        "whole": lambda: np.int64(given),
        "real": lambda: np.float64(given),
        "wholes": lambda: [np.int64(one) for one in given],
        "reals": lambda: [np.float64(one) for one in given],
    }[kind]()
    made, plain = call(value, **{name: as_numpy}), call(value)
    kept = getattr(made, name, None) if isinstance(value, type) else None
    if isinstance(kept, (int, float, tuple, list, np.generic)):
        assert repr(kept) == repr(getattr(plain, name))
