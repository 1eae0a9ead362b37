"""Private objects show nothing to whoever looks at them from outside, and cannot be copied."""

import copy
import dataclasses
import importlib
import io
import json
import pickle
import pkgutil
import pprint
from pathlib import Path

import numpy as np
import pytest
import rich
from exact import words
from forks import in_a_fork
from integral.laws import finite_base
from numbered import Numbered
from rich.console import Console
from rows import rows_of
from secure_sums.summing import EASY, Sum, people, session_of
from session_nights import TOMORROW, a_night
from splitting import Actors

import flwr_kld
from flwr_kld.ask.partition import Partition
from flwr_kld.clients.own_records import Records
from flwr_kld.integral import Mollifier, Sampler, mbde, mollify
from flwr_kld.kernel import Guarantee
from flwr_kld.kernel.continual import Continual
from flwr_kld.kernel.selection import LONGEST, ClientLabels, LabelSum
from flwr_kld.kernel.vector import (
    ClearSum,
    ClientRows,
    Held,
    Layout,
    NightNoise,
    OneProcess,
    PartialSum,
    Private,
    RingSum,
    ShareSum,
    SumVector,
)
from flwr_kld.reference import Reference
from flwr_kld.secure_sums import Identity
from flwr_kld.secure_sums.client import SumClient
from flwr_kld.secure_sums.keys import OneUseKey
from flwr_kld.secure_sums.messages import Phase
from flwr_kld.secure_sums.prio3.shares import Checked
from flwr_kld.secure_sums.split_sum import Addition
from flwr_kld.strategies import Trusted
from flwr_kld.trust.calibration import calibrate_shares
from flwr_kld.trust.sealing import AggregatorKey
from flwr_kld.trust.session_book import NightAnswers, SessionBook
from flwr_kld.trust.session_records import RecordLifetimes
from flwr_kld.trust.standing import Standing

REFERENCE = Reference.from_counts(Numbered(4), [4, 3, 2, 1])
PLAN = Partition(16).draw(REFERENCE, np.random.default_rng(0))
COUNT = 48_611_337
"""Digits that nothing else shows: more of them than chance has in an address."""
NEEDLE = b"NEEDLE_IN_A_KEY_"
KEY = 2 * NEEDLE


def counts() -> ClientRows:
    return rows_of(PLAN.layout, [COUNT, 1, 0, 2], [0, 0, 0, COUNT])


def advertised() -> SumClient:
    who, roster = people(3)
    client = SumClient(who["c000"], "c000", roster, EASY, random=lambda n: (NEEDLE * n)[:n])
    client.advertise(session_of(3), terms="plan", length=4)
    assert client.state()["seed"] == KEY
    return client


def summed() -> Sum:
    total = Sum(session_of(3), np.array([[COUNT] * 4] + 2 * [[0] * 4], dtype=np.uint64))
    assert words(total.run())[0] == COUNT
    return total


def added_up() -> Addition:
    actors = Actors(3)
    addition = actors.addition(1, actors.portions()[1])
    addition._total[:] = COUNT
    return addition


def noised() -> ShareSum:
    share = calibrate_shares(Guarantee(1.0, 1e-6), n_min=2)
    words = RingSum(np.array([COUNT] * 4, dtype=np.uint64))
    return ShareSum(words, Layout((4,)), share, clients=2, counted=False)


def answered() -> NightAnswers:
    book, night = SessionBook(Path("nowhere"), KEY), a_night("s", 1, 9, 2)
    terms = (
        Standing(Trusted(1.0, 1e-6), 9).on(night).terms(PLAN, check="c", asked=2, until=TOMORROW)
    )
    answers = NightAnswers(book, terms, 4, {}, [])
    assert answers.came(NEEDLE + b"\xff", COUNT.to_bytes(4, "little"), "x")
    return answers


def labelled() -> ClientLabels:
    texts = np.array([NEEDLE, b""], f"S{LONGEST}").view(np.int64).reshape(2, -1)
    return ClientLabels([np.repeat(texts, [COUNT % 997, 1], axis=0)])


def private_objects() -> list[Private]:
    base = finite_base([0.5, 0.3, 0.2])
    records = np.repeat([0, 1, 2], [20, 20, 160])
    box, rejection = mollify(records, base, Mollifier.asymmetric(0.5, 0.2)), mbde(records, base, 1)
    client, total, addition = advertised(), summed(), added_up()
    counted = Records(Held(np.array([COUNT, COUNT])))
    return [
        Held(COUNT),
        counted,
        RecordLifetimes(1).after(
            [0], Held([np.array([COUNT], np.uint64)]), Held([np.array([COUNT])]), 2
        ),
        SumVector(np.array([COUNT, 0])),
        counts(),
        ClearSum(PLAN.layout, counts()),
        total.server.result().total,
        PartialSum(np.array([COUNT, 0], dtype=np.uint64), 0),
        Checked(np.array([COUNT, 0], dtype=np.uint64), bytes(32)),
        noised(),
        labelled(),
        LabelSum([(["a"], Held([labelled().to_wire(0)]))]),
        NightNoise(Continual(9), [KEY]),
        (answers := answered()),
        answers._book,
        box,
        rejection,
        Sampler(box, 3),
        addition,
        Identity(KEY),
        AggregatorKey(KEY),
        OneUseKey(KEY),
        client,
        client._state,
        total.server,
        total.collected,
        total.server.result(),
    ]


OBJECTS = private_objects()
each = pytest.mark.parametrize("private", OBJECTS, ids=lambda p: type(p).__name__)


def descendants(base: type) -> set[type]:
    return {base}.union(*(descendants(kind) for kind in base.__subclasses__()))


def test_every_private_type_is_looked_at():
    for module in pkgutil.walk_packages(flwr_kld.__path__, "flwr_kld."):
        if ".cli" not in module.name and ".ledger" not in module.name:
            importlib.import_module(module.name)
    kinds = {k for k in descendants(Private) if k.__module__.startswith("flwr_kld.")}
    assert kinds - {Private, OneProcess} == {type(private) for private in OBJECTS}


def inspected(private: Private) -> str:
    console = Console(file=io.StringIO(), width=10_000)
    rich.inspect(private, console=console, private=True, methods=True, dunder=False)
    console.print(private)
    rich.pretty.pprint(private, console=console)
    return console.file.getvalue()


@each
def test_no_usual_look_at_it_shows_a_value(private):
    texts = [
        repr(private),
        f"{private!s:>60}",
        str([private]),
        pprint.pformat(private),
        json.dumps({"x": private}, default=str),
        inspected(private),
        *(repr(getattr(private, name)) for name in dir(private)),
    ]
    for text in texts:
        assert str(COUNT) not in text
        assert f"{COUNT:.1f}" not in text
        assert "NEEDLE" not in text
        assert KEY.hex() not in text
    assert repr(private).startswith(type(private).__name__)


@each
def test_it_has_no_state_to_copy_or_store(private):
    with pytest.raises(TypeError, match=r"vars\(\)"):
        vars(private)
    with pytest.raises(TypeError, match="private"):
        private.__getstate__()
    assert not dataclasses.is_dataclass(private)
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises(TypeError, match="pickled"):
            pickle.dumps(private, protocol)
    for duplicate in (copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="pickled"):
            duplicate(private)


@each
def test_it_is_no_sequence_array_or_buffer_and_equals_itself_only(private):
    for look in (list, iter, tuple, bytes, memoryview, float, int, np.asarray, np.array):
        with pytest.raises(TypeError):
            look(private)
    for operation in (np.add, np.equal, np.maximum):
        with pytest.raises(TypeError):
            operation(private, 1)
    with pytest.raises(TypeError):
        private[0]
    with pytest.raises(TypeError):
        dataclasses.asdict(private)
    twin = next(p for p in private_objects() if type(p) is type(private))
    assert private == private
    assert private != twin
    assert type(private).__eq__ is object.__eq__
    assert type(private).__hash__ is object.__hash__


def tried(work) -> bytes:
    try:
        work()
    except RuntimeError as refusal:
        return type(refusal).__name__.encode() + b": " + str(refusal).encode()
    return b"went on"


def test_a_fork_of_a_sampler_draws_nothing():
    """Two processes with one budget would draw twice as often as was paid for."""
    sampler = Sampler(mollify([0, 1, 2], finite_base([0.5, 0.3, 0.2]), Mollifier.symmetric(1.0)), 2)
    told = in_a_fork(lambda: tried(sampler.draw))
    assert told.startswith(b"RuntimeError: this Sampler belongs to the process that made it")
    assert (len(sampler.draw(2)), sampler.left) == (2, 0)


@pytest.mark.parametrize("phase", [Phase.ADVERTISE, Phase.MASK, Phase.REVEAL])
def test_a_fork_of_a_client_answers_nothing(phase):
    """Two answers to one phase would show a difference of vectors, or both of its secrets."""
    total = Sum(session_of(3), np.zeros((3, 4), dtype=np.uint64)).until(phase)
    total.client(0)
    told = in_a_fork(lambda: tried(lambda: total.answer(0, phase, total.requests[0])))
    assert told.startswith(b"RuntimeError: this SumClient belongs to the process that made it")
    assert total.answer(0, phase, total.requests[0])
