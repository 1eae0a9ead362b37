"""A loader that hangs is ended at its deadline, and its node answers the next check."""

import signal
import threading
import time

import pytest
from federation import FRUIT
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.clientapp import ClientApp
from session_nights import TOMORROW

from flwr_kld.ask.plan import each_symbol
from flwr_kld.clients import answer_drift_queries
from flwr_kld.clients.deadline import TooLate, ended_in_time, loads_in_time
from flwr_kld.simulations.in_process_grid import InProcessGrid
from flwr_kld.strategies import Trusted
from flwr_kld.trust.envelopes import ANSWER, DRIFT_ACTION, MEMBERS, TERMS, Answer, Members


def stubborn() -> None:
    """Take no first interruption for an answer."""
    for _ in range(2):
        try:
            time.sleep(60)
        except Exception:
            continue
    time.sleep(60)


HANGING = {
    "sleeps": lambda: time.sleep(60),
    "waits for another thread": lambda: threading.Event().wait(60),
    "spins": lambda: [None for _ in iter(int, 1)],
    "swallows what interrupts it": stubborn,
}


@pytest.fixture
def node():
    """Ask a node whose loader hangs while it is told to; it answers, or says why not."""
    app, hangs = ClientApp(), [None]

    def records(context):
        if hangs[0]:
            hangs[0]()
        return ["apple"] * 3

    answer_drift_queries(app, records, FRUIT)
    (context,) = InProcessGrid(app, 1).contexts.values()

    def ask(check, loader=None, ttl=60.0):
        hangs[0] = loader
        terms = Trusted(1.0).terms(each_symbol(FRUIT), check=check, asked=20, until=TOMORROW)
        content = RecordDict(
            {
                TERMS: ConfigRecord(terms.to_config()),
                MEMBERS: ConfigRecord(Members([0]).to_config()),
            }
        )
        message = Message(content, 1000, f"query.{DRIFT_ACTION}", ttl=ttl)
        return Answer.from_config(app(message, context).content[ANSWER])

    return ask


@pytest.mark.parametrize("how", HANGING)
def test_a_loader_that_hangs_is_ended_and_the_node_answers_the_next_check(node, how, caplog):
    began = time.monotonic()
    answer = node("a", HANGING[how], ttl=0.5)
    assert time.monotonic() - began < 30
    assert (answer.answered, answer.reasons) == ([], ["the records could not be loaded (TooLate)"])
    assert "the loader of records was ended" in caplog.text
    assert node("b").answered == [0]


def test_a_loader_in_time_is_left_alone_and_so_is_anothers_timer(node):
    rung = []
    before = signal.signal(signal.SIGALRM, lambda *_: rung.append(1))
    signal.setitimer(signal.ITIMER_REAL, 0.6)
    try:
        assert node("a", lambda: time.sleep(0.05), ttl=0.4).answered == [0]
        time.sleep(0.7)
        assert rung == [1]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_only_loaders_are_interrupted():
    """A deadline that passes while the node's own code runs leaves that alone."""
    ran = []

    @loads_in_time
    def answer(message):
        with ended_in_time():
            ran.append("loaded")
        time.sleep(0.1)
        ran.append("counted")
        with pytest.raises(TooLate), ended_in_time():  # whoever begins late is ended soon
            time.sleep(60)

    began = time.monotonic()
    answer(Message(RecordDict(), 1000, "query", ttl=0.02))
    assert ran == ["loaded", "counted"]
    assert time.monotonic() - began < 30
    assert signal.getitimer(signal.ITIMER_REAL)[0] == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("ttl", [1e300, float("inf")])
def test_a_server_that_claims_to_wait_forever_is_answered(node, ttl):
    assert node("a", ttl=ttl).answered == [0]


def test_in_another_thread_nothing_is_interrupted(node):
    answers = []
    asked = threading.Thread(
        target=lambda: answers.append(node("a", lambda: time.sleep(0.3), ttl=0.1))
    )
    asked.start()
    asked.join(30)
    assert answers[0].answered == [0]
