"""Names that people type first: the error says what to use, and that works."""

import pytest
from report.samples import REPORT

from flwr_kld import KLDrift, Reference, Trusted
from flwr_kld.ledger import Budget
from flwr_kld.planner import Setting
from flwr_kld.strategies import Distributed, TrustedAggregator
from flwr_kld.views import CheckSeries

LOOKED_FOR = ["clients", "date", "drift", "epsilon", "kl", "records", "value"]


@pytest.mark.parametrize("name", LOOKED_FOR)
def test_what_an_error_recommends_for_a_report_works(name):
    with pytest.raises(AttributeError, match=f"{name!r}: use ") as error:
        getattr(REPORT, name)
    advice = str(error.value).partition(": use ")[2]
    known = {"report": REPORT, "CheckSeries": CheckSeries, "str": str}
    assert eval(advice, {"__builtins__": {}}, known) is not None


def test_other_names_are_as_in_any_object():
    with pytest.raises(AttributeError, match=r"'colour'$"):
        REPORT.colour  # noqa: B018
    assert not hasattr(REPORT, "colour")


@pytest.mark.parametrize(
    ("make", "named", "better"),
    [
        (Trusted, {"epsilon": 1.0, "adjacency": "add-remove"}, "WholeClients"),
        (Distributed, {"epsilon": 1.0, "min_clients": 9, "unit": "client"}, "WholeClients"),
        (TrustedAggregator, {"epsilon": 1.0, "clip": 9}, "WholeClients"),
        (Budget, {"epsilon": 1.0, "days": 30}, "window_days="),
        (KLDrift, {"epsilon": 1.0}, r"trust=Trusted\("),
        (Setting, {"clients": 9, "records": 9, "epsilon": 1.0}, r"trust=Trusted\("),
        (Reference, {"rows": 1}, "probabilities"),
    ],
)
def test_an_argument_of_another_tool_names_ours(make, named, better):
    with pytest.raises(TypeError, match=better):
        make(**named)
