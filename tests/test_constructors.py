"""Every public constructor and function refuses what is no number where a number is due.

What is public is read from the `__all__` of every package, and which arguments are numbers from
their annotations: whoever publishes something that takes a number has to add an example here.
"""

import enum
import importlib
import inspect
import math
import re
import tomllib
from pathlib import Path

import numpy as np
import pytest
from flwr.serverapp.strategy import FedAvg

from flwr_kld import (
    accounting,
    alerts,
    clients,
    domain,
    guard,
    integral,
    planner,
    predictors,
    privacy,
    query,
    report,
    secure_aggregation,
    strategies,
)
from flwr_kld.clients import handwriting
from flwr_kld.counts import ClientCounts, NoisyCounts
from flwr_kld.inference import estimators
from flwr_kld.inference.design_effect import DesignEffect
from flwr_kld.inference.e_detector import EDetector, Standing
from flwr_kld.inference.evidence import Evidence
from flwr_kld.inference.interval import Interval, two_sided_interval
from flwr_kld.inference.lower_bound import LowerBound, lower_confidence_bound
from flwr_kld.inference.power import Power
from flwr_kld.inference.witness import Witness
from flwr_kld.privacy import Guarantee
from flwr_kld.reference import Reference
from flwr_kld.report import explanation
from flwr_kld.simulations import handwriting as virtual

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))

REPLACE_ONE, ADD_REMOVE = privacy.Adjacency
DOMAIN = domain.Labels([f"label {i}" for i in range(20)])
EVEN = Reference.from_counts(DOMAIN, np.ones(DOMAIN.size))
ODD = Reference.from_counts(DOMAIN, np.arange(1, DOMAIN.size + 1))
EVENT = privacy.calibrated_laplace(Guarantee(1.0))
PLAN = query.Partition(20).draw(EVEN, np.random.default_rng(0))
COUNTS = NoisyCounts(np.arange(1, PLAN.cells + 1), 200.0, EVENT, PLAN, True)
WITNESS = Witness.from_counts(COUNTS)
LEVELS = WITNESS.query_plan().over(query.Selection(groups=10))
SECOND = NoisyCounts(np.arange(LEVELS.length) + 9, 500.0, EVENT, LEVELS, True)
BOUND = lower_confidence_bound(WITNESS, SECOND, theta=0.01)
BASE, BOX = integral.FiniteBase.uniform(DOMAIN), integral.Mollifier.symmetric(1.0)
HYPOTHESES = predictors.Hypotheses({"even": EVEN, "odd": ODD})
MIXTURE = predictors.BayesMixture(HYPOTHESES, 1.0)
IMAGES = handwriting.Handwriting(np.zeros((2, 8, 8), np.uint8), np.arange(2), np.arange(2))
TRUST = strategies.Trusted(1.0)
TRUSTED = {"epsilon": 1.0, "delta": 0.0}
LIMITS = {
    "receipts": Path("r"), "key": Path("k"), "trust": frozenset({"trusted"}), "domains": None,
    "references": None, "epsilon": 1, "delta": 0, "min_cohort": 1, "period": 1,
    "period_epsilon": 1, "period_delta": 0, "secure_sum": secure_aggregation.ClientPolicy(),
}  # fmt: skip
SESSION = {
    "check": "c", "plan": "p", "roster": bytes(32), "listed": 3, "cohort": (0, 1, 2), "bits": 32,
    "length": 4, "shape": secure_aggregation.Shape(2, 2), "min_survivors": 3,
}  # fmt: skip

EXAMPLES = {
    EDetector: {},
    Evidence: {"excess": (0.5, 1.0), "spread": 1.0, "threshold": 0.0},
    alerts.Command: {"argv": ["true"]},
    alerts.Webhook: {"url": "https://example.org"},
    Power: {"mass": np.full(4, 0.25), "records": 9.0, "noise": 1.0},
    lower_confidence_bound: {"witness": WITNESS, "noisy": SECOND, "theta": 0.01},
    two_sided_interval: {"counts": COUNTS, "bound": BOUND, "theta": 0.01},
    clients.AggregatorLimits: {"most_epsilon": 1.0},
    domain.Binned: {"edges": [0.0, 1.0]},
    domain.BlockPatterns: {},
    domain.Labels: {"names": ["a", "b"]},
    estimators.estimate: {"counts": COUNTS},
    estimators.hybrid: {"counts": COUNTS},
    estimators.paper: {"counts": COUNTS},
    estimators.posterior_counts: {"counts": COUNTS},
    estimators.skew_plugin: {"counts": COUNTS},
    explanation.explain: {"counts": COUNTS, "estimate": estimators.estimate(COUNTS)},
    explanation.pattern_svg: {"symbol": 3},
    guard.Limits: LIMITS,
    virtual.StylePopulation: {},
    virtual.WriterResampler: {"source": IMAGES, "seed": 1},
    virtual.WriterStyle: {
        "right": 0.0, "down": 0.0, "thickness": 0.0, "slant": 0.0, "digit_mix": np.ones(1),
    },
    integral.GaussianBase: {"dimension": 1},
    integral.GaussianCells: {"dimension": 1, "per_axis": 2},
    integral.Mollifier: {"epsilon": 1.0, "floor": 0.5},
    integral.Network: {},
    integral.RejectionLaw: {
        "base": BASE, "log_ratio": lambda x: np.zeros(len(x)), "epsilon": 1.0, "tries": 4,
    },
    integral.Sampler: {"law": integral.BoxLaw(BASE, BOX, BASE.mass), "draws": 1},
    integral.Tree: {},
    integral.delta_of_draws: {"box": BOX, "draws": 1, "epsilon": 0.5},
    integral.epsilon_of_draws: {"box": BOX, "draws": 1, "delta": 0.0, "bounded_range": 1.0},
    integral.mbde: {"records": [0, 1], "base": BASE, "epsilon": 1.0, "rounds": 1, "tries": 4},
    integral.mollify: {"symbols": [0, 1, 1], "base": BASE, "box": BOX, "rounds": 1},
    integral.recommend: {"draws": 1, "epsilon": 1.0, "records": 9, "size": 2},
    integral.reference_from_draws: {"base": EVEN, "draws": np.array([0])},
    accounting.Budget: {"epsilon": 1.0, "delta": 0.0, "window_days": 1.0},
    accounting.Clients: {"names": ["a"]},
    accounting.Cost: {
        "mechanism": "m", "epsilon": 1, "delta": 0, "adjacency": REPLACE_ONE,
        "unit": privacy.Unit.RECORD, "shifts": (1, -1),
    },
    accounting.Ledger: {"url": "sqlite:///{folder}/accounting.db"},
    accounting.RecordBuckets: {"key": "k", "modulus": 4, "residues": [1]},
    planner.Setting: {"clients": 20, "records": 9.0, "trust": TRUST, "population": 40},
    planner.design_effect_of: {"records": 2.0, "correlation": 0.5},
    predictors.BayesMixture: {"hypotheses": HYPOTHESES, "epsilon": 1.0, "prior": [0.5, 0.5]},
    predictors.Hypotheses: {"candidates": {"even": EVEN, "odd": ODD}},
    predictors.Intake: {"predictor": MIXTURE, "round": 1},
    predictors.LocallyPrivateWMA: {"hypotheses": HYPOTHESES, "epsilon": 1.0, "horizon": 2},
    predictors.PureLocalEXP3: {"hypotheses": HYPOTHESES, "epsilon": 1.0, "horizon": 2},
    predictors.Report: {"query": 0, "symbol": (1,)},
    predictors.Reports: {
        "round": 1, "queries": np.zeros(1, int), "symbols": np.zeros((1, 1), int),
    },
    predictors.drift_scenarios: {"base": EVEN, "towards": {"odd": ODD}, "amount": 0.5},
    predictors.kl_risk_bound: {"design": MIXTURE.design()},
    privacy.NoiseTable: {"weights": (1, 2**128 - 2, 1)},
    privacy.SeededBits: {"seed": 1},
    privacy.Guarantee: {"epsilon": 1.0},
    privacy.calibrated_gaussian: {"guarantee": Guarantee(1.0, 1e-6)},
    privacy.calibrated_laplace: {"guarantee": Guarantee(1.0)},
    privacy.hockey_stick: {"table": EVENT.table, "shifts": (1, -1), "epsilon": 1.0},
    privacy.sample: {"table": EVENT.table, "size": 3, "bits": privacy.SystemBits()},
    query.MonteCarlo: {},
    query.Partition: {},
    query.Selection: {"modulus": 4, "residues": (1, 2)},
    report.CheckSeries: {"points": [], "drift_from": 2},
    secure_aggregation.ClientPolicy: {},
    secure_aggregation.Session: SESSION,
    secure_aggregation.Shape: {"neighbours": 2, "threshold": 2},
    secure_aggregation.Tolerance: {},
    secure_aggregation.choose_shape: {"cohort": 3, "tolerance": secure_aggregation.Tolerance()},
    secure_aggregation.from_ring: {"total": np.zeros(1, "<u4")},
    secure_aggregation.require_room: {"bits": 32, "largest": 1, "clients": 1},
    secure_aggregation.to_ring: {"values": np.zeros(1, int)},
    strategies.Alarm: {},
    strategies.Clip: {"bound": 3},
    strategies.Distributed: {"epsilon": 1.0, "min_survivors": 3},
    strategies.KLDrift: {
        "reference": EVEN, "trust": TRUST, "threshold": 0.1, "seed": 1, "most_records": 9,
    },
    strategies.Participant: {"node": 1},
    strategies.PrivatePredictor: {"predictor": MIXTURE},
    strategies.ReferenceFromClients: {"domain": DOMAIN, "trust": TRUST},
    strategies.RotatingCohort: {"size": 2},
    strategies.RotatingRecords: {"buckets": 2},
    strategies.Scalar: {"records": 9.0},
    strategies.SealedSum: {"node": 1},
    strategies.SecureSum: {},
    strategies.Trusted: {**TRUSTED, "clip": 3, "adjacency": ADD_REMOVE},
    strategies.TrustedAggregator: {
        **TRUSTED, "clip": 3, "adjacency": ADD_REMOVE,
        "aggregator": clients.AggregatorKey.generate().public,
    },
    strategies.UniformCohort: {"size": 2},
    strategies.WithDriftChecks: {"strategy": FedAvg(), "monitor": strategies.KLDrift(EVEN, TRUST)},
}  # fmt: skip
"""Arguments that are right, for everything public that takes a number, or a list of any."""

ANSWERS = {
    LowerBound, DesignEffect, Interval, NoisyCounts, Standing, accounting.BudgetExhausted,
    accounting.Entry, accounting.Release, accounting.Reservation, accounting.Spent,
    accounting.State, alerts.Delivery, estimators.ErrorSplit, estimators.Estimate,
    explanation.Movement, guard.Receipt, integral.IntegralEvent, integral.Recommendation,
    planner.Forecast, predictors.Leader, privacy.PrivacyEvent, query.QueryPlan, report.Point,
    report.PredictorReport, report.ReferenceReport, report.Report, report.Verdict,
    secure_aggregation.SumResult,
}  # fmt: skip
"""What the library computes and returns: nobody gives these numbers."""

FROM_ELSEWHERE = {
    ClientCounts,  # a message's
    Witness,  # made by from_counts
    virtual.load_digits, handwriting.load_femnist, handwriting.load_leaf,
    virtual.load_source,  # files and networks: see their own tests
    query.cells_from_wire, query.record_ids,  # a message's, checked against its fingerprint
}  # fmt: skip

BY_MODULE = (
    DesignEffect, EDetector, Standing, Evidence, Interval, two_sided_interval, LowerBound,
    lower_confidence_bound, Power, Witness,
)  # fmt: skip
"""Public in modules of ``flwr_kld.inference``, which loads none of them: clients do without."""

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
KINDS = {
    r"int": "whole", r"float": "real",
    r"(tuple\[int, \.\.\.\]|(Sequence|Iterable)\[int\])": "wholes",
    r"(tuple\[float, \.\.\.\]|(Sequence|Iterable)\[float\])": "reals",
    r"(tuple\[str, \.\.\.\]|(Sequence|Iterable)\[str\])( \| Sequence\[int\])?": "texts",
}  # fmt: skip


def public():
    """Yield everything public that can be called to make or compute something."""
    yield from BY_MODULE
    for package in PROJECT["tool"]["setuptools"]["packages"]:
        module = importlib.import_module(package)
        for name in getattr(module, "__all__", ()):
            value = getattr(module, name)
            if not callable(value) or getattr(value, "_is_protocol", False):
                continue
            if not isinstance(value, type):
                if inspect.isfunction(inspect.unwrap(value)):
                    yield value
            elif not (issubclass(value, enum.Enum) or inspect.isabstract(value)):
                yield value


def numbers(value):
    """Name the arguments that are numbers or lists of any, with their kind."""
    try:
        parameters = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):  # an exception
        return
    for parameter in parameters:
        written = inspect.formatannotation(parameter.annotation).replace("collections.abc.", "")
        written = written.strip("'").removesuffix(" | None")
        for pattern, kind in KINDS.items():
            if re.fullmatch(pattern, written):
                yield parameter, kind


TAKES_NUMBERS = {value: list(numbers(value)) for value in public() if list(numbers(value))}
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
    assert {value.__name__ for value in known - set(public())} == set()  # and nothing is left over


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
        with pytest.raises((ValueError, secure_aggregation.SecureSumError)) as caught:
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
