"""k draws and not one more; nothing private shows."""

import io
import logging
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import asdict, replace

import numpy as np
import pytest
from integral.laws import finite_base

from flwr_kld.integral import Mollifier, Sampler, mbde, mollify
from flwr_kld.integral.draws import BoxLaw
from flwr_kld.integral.sampler import BudgetSpent, epsilon_of_draws
from flwr_kld.kernel.law import SeededBits

BASE, BOX = finite_base([0.5, 0.3, 0.2]), Mollifier.asymmetric(0.5, 0.2)
RECORDS = np.repeat([0, 1, 2], [20, 20, 160])


@pytest.fixture
def law():
    return mollify(RECORDS, BASE, BOX)


def test_the_draw_after_the_last_is_refused(law):
    sampler = Sampler(law, 5)
    assert sampler.draw().shape == (1,)
    assert sampler.draw(3).shape == (3,)
    assert sampler.left == 1
    with pytest.raises(BudgetSpent):
        sampler.draw(2)
    assert sampler.left == 1  # refused whole: nothing drawn, nothing lost
    sampler.draw()
    with pytest.raises(BudgetSpent):
        sampler.draw()


def test_draws_at_the_same_time_never_exceed_the_budget(law):
    sampler = Sampler(law, 100)

    def attempt(_):
        try:
            return len(sampler.draw())
        except BudgetSpent:
            return 0

    with ThreadPoolExecutor(16) as pool:
        assert sum(pool.map(attempt, range(300))) == 100
    assert sampler.left == 0


def test_a_draw_that_fails_is_spent():
    class Broken(BoxLaw):
        def _draw(self, size, bits):
            raise OSError

    sampler = Sampler(Broken(BASE, BOX, BASE.mass), 3)
    with pytest.raises(OSError):  # noqa: PT011
        sampler.draw()
    assert sampler.left == 2


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_the_event_is_what_a_ledger_books(law, delta):
    event = Sampler(law, 40, delta=delta, bits=SeededBits(1)).event
    assert event.epsilon == epsilon_of_draws(law.box, 40, delta)
    assert (event.delta, event.draws) == (delta, 40)
    assert not event.private
    assert Sampler(law, 40).event.private
    assert replace(event, draws=41) != event
    assert all(isinstance(v, str | float | int | bool) for v in asdict(event).values())
    if delta == 0:
        assert event.epsilon == 20.0


def shown(private) -> dict[str, object]:
    """Everything that the public names of an object give."""
    return {name: getattr(private, name) for name in dir(private) if not name.startswith("_")}


@pytest.mark.parametrize(
    "fit",
    [
        lambda records: mollify(records, BASE, BOX),
        lambda records: mbde(records, BASE, 1.0),
    ],
    ids=["mollify", "mbde"],
)
def test_only_paid_draws_tell_what_a_law_was_fitted_to(fit):
    """Everything else that a law or its sampler shows is the same for any other data."""
    one, other = fit(RECORDS), fit(2 - RECORDS)
    assert shown(one) == shown(other)
    assert not [name for name, value in shown(one).items() if callable(value)]
    samplers = [Sampler(law, 3) for law in (one, other)]
    of_one, of_other = map(shown, samplers)
    assert {name for name, value in of_one.items() if callable(value)} == {"draw"}
    del of_one["draw"], of_other["draw"]
    assert of_one == of_other


@pytest.mark.parametrize("other", [None, "mollify", BASE, Sampler(mollify(RECORDS, BASE, BOX), 1)])
def test_a_sampler_takes_fitted_laws_only(other):
    """Whatever else can be drawn from does not know what a draw costs."""
    with pytest.raises(ValueError, match="law"):
        Sampler(other, 3)


def test_nothing_is_logged_or_printed(caplog):
    out, err = io.StringIO(), io.StringIO()
    with caplog.at_level(logging.DEBUG), redirect_stdout(out), redirect_stderr(err):
        for fitted in (mollify(RECORDS, BASE, BOX), mbde(RECORDS, BASE, 1.0)):
            Sampler(fitted, 2).draw(2)
    assert not caplog.records
    assert out.getvalue() == err.getvalue() == ""


@pytest.mark.parametrize("draws", [0, -1])
def test_samplers_without_draws_are_refused(law, draws):
    with pytest.raises(ValueError, match="draws"):
        Sampler(law, draws)
    with pytest.raises(ValueError, match="size"):
        Sampler(law, 1).draw(draws)
