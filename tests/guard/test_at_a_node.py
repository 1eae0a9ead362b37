"""A guard at its node: its plans bind what is counted, and its file is named by the operator."""

from dataclasses import replace

import numpy as np
import pytest
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.clientapp import ClientApp
from guard.files import guard_file
from session_nights import TOMORROW

from flwr_kld import Binned, Reference, Table
from flwr_kld.ask.partition import plan_to_pin
from flwr_kld.ask.plan import each_symbol
from flwr_kld.clients import answer_drift_queries
from flwr_kld.guard import verify
from flwr_kld.simulations.in_process_grid import InProcessGrid
from flwr_kld.strategies import KLDrift, Trusted
from flwr_kld.table.rounded_table import rounded
from flwr_kld.trust.envelopes import ANSWER, DRIFT_ACTION, MEMBERS, TERMS, Answer, Members

TABLE = Table({"job": ["nurse", "smith"], "age": Binned([30, 40, 50, 60])})
USUAL = Reference.from_counts(TABLE, np.arange(1, TABLE.size + 1))
"""It has mass everywhere, so that checks count each symbol by itself."""
ROWS = {"job": ["nurse"] * 3 + ["smith"] * 2, "age": [20, 35, 35, 70, 45]}
_COARSE = each_symbol(TABLE).cell_of.copy()
_COARSE[TABLE.parts[1]] = np.minimum(_COARSE[TABLE.parts[1]], TABLE.parts[1].start + 1)
COARSE = replace(each_symbol(TABLE), cell_of=_COARSE, weight=np.ones(_COARSE.max() + 1))

OF_ENVIRONMENT = "environment"


@pytest.fixture
def ask(tmp_path):
    """Ask a node whose operator pins plans; it answers, or says why not."""

    def asking(pinned: str, plan, name: str | None = None, file: str | None = None) -> list[str]:
        path = guard_file(tmp_path, ('plans = "any"', f'plans = ["{pinned}"]'))
        app = ClientApp()
        answer_drift_queries(app, lambda _: ROWS, TABLE)
        (context,) = InProcessGrid(app, 1).contexts.values()
        if file != OF_ENVIRONMENT:
            context.node_config["drift-guard"] = file or str(path)
        terms = Trusted(1.0).over(2).terms(plan, check=f"of {len(asked)}", asked=20, until=TOMORROW)
        terms = replace(terms, plan=name or terms.plan)
        asked.append(terms)
        content = RecordDict(
            {
                TERMS: ConfigRecord(terms.to_config()),
                MEMBERS: ConfigRecord(Members([0]).to_config()),
            }
        )
        reply = app(Message(content, 1000, f"query.{DRIFT_ACTION}"), context)
        return Answer.from_config(reply.content[ANSWER]).reasons

    asked = []
    return asking


@pytest.mark.parametrize("domain", [TABLE, rounded(TABLE)], ids=["check", "description"])
def test_what_is_pinned_is_counted(ask, tmp_path, domain):
    pinned = each_symbol(domain)
    assert (pinned.fingerprint == plan_to_pin(USUAL)) is (domain is TABLE)
    assert ask(pinned.fingerprint, pinned) == []
    (receipt,) = verify(tmp_path / "receipts.db").receipts
    assert receipt.plan == pinned.fingerprint


def test_a_printed_report_names_the_check_as_receipts_do(tmp_path):
    path = guard_file(tmp_path, ("min_asked = 5", "min_asked = 1"))
    app = ClientApp()
    answer_drift_queries(app, lambda _: ROWS, TABLE)
    grid = InProcessGrid(app, 1)
    (context,) = grid.contexts.values()
    context.node_config["drift-guard"] = str(path)
    report = KLDrift(USUAL, Trusted(1.0), min_clients=1).check(grid)
    (receipt,) = verify(tmp_path / "receipts.db").receipts
    assert receipt.check in str(report)


def test_a_guard_that_pins_checks_refuses_grid_points_within_bins(ask, caplog):
    refused = ["the plan is not one that this client's operator allows"]
    assert ask(plan_to_pin(USUAL), each_symbol(rounded(TABLE))) == refused
    assert refused[0] in caplog.text  # so that the node's operator sees it, too


def test_other_cells_are_refused_under_their_own_name_and_under_the_pinned_one(ask, tmp_path):
    for pinned, plan in (
        (COARSE.fingerprint, each_symbol(TABLE)),
        (each_symbol(TABLE).fingerprint, COARSE),
    ):
        assert ask(pinned, plan) == ["the plan is not one that this client's operator allows"]
        assert ask(pinned, plan, name=pinned) == ["the query plan does not match its fingerprint"]
    assert not (tmp_path / "receipts.db").exists()


def test_cells_that_are_drawn_for_each_check_cannot_be_pinned():
    long = Table({"code": Binned(list(range(2000)))})
    assert plan_to_pin(Reference.from_counts(long, np.arange(1, long.size + 1))) is None


@pytest.mark.parametrize("file", ["guard.toml", "./guard.toml", "missing.toml", 7])
def test_a_guard_that_is_named_otherwise_refuses_all(ask, here, tmp_path, file):
    """A relative path could lead into the app's own folder, which the server fills."""
    told = ask(plan_to_pin(USUAL), each_symbol(TABLE), file=file)
    assert told == ["this client's guard is not usable: the operator's log says why"]


def test_a_relative_path_in_the_environment_is_refused_too(ask, environment, here, tmp_path):
    environment["FLWR_KLD_GUARD"] = "guard.toml"
    assert "not usable" in str(ask(plan_to_pin(USUAL), each_symbol(TABLE), file=OF_ENVIRONMENT))
