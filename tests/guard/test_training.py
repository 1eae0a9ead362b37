"""Rounds of training at a guarded node: lies of the server, limits, receipts, the node's noise."""

import math
import shutil
import sqlite3
from collections import Counter
from contextlib import closing
from fractions import Fraction

import numpy as np
import pytest
from federation import FRUIT, REFERENCE, basket
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import DifferentialPrivacyServerSideFixedClipping, FedAvg
from forks import forget_claims, forked, joined
from guard.files import guard_file, question
from scipy.stats import kstest, norm

from flwr_kld.clients import answer_drift_queries, guard_training
from flwr_kld.common.errors import QueryRefused
from flwr_kld.guard import verify
from flwr_kld.guard.guard import Guard
from flwr_kld.guard.limits import GuardFileError, read_limits
from flwr_kld.kernel.law import SystemBits
from flwr_kld.ledger import Budget, Cost, Ledger
from flwr_kld.simulations.in_process_grid import InProcessGrid
from flwr_kld.strategies import KLDrift, LedgerAccountant, Trusted, WithDriftChecks, noise_claim
from flwr_kld.trust.envelopes import CLAIMED_NOISE

TRAINING = """
[training]
max_rounds = 3
days = 30
max_epsilon = 4.0
max_delta = 1e-9
"""
OWN = "own_clipping_norm = 2.0"
ANY = "max_epsilon = 4.0", "max_epsilon = 1000000"
DEVIATION = 5.9512
"""Of the noise that keeps them, with that norm."""
ENOUGH = 8.0
"""A noise multiplier that those limits let pass, for each record."""


class Node:
    """A node whose app trains one model, and what a server gets from it."""

    def __init__(self, folder, answer=lambda model: {"w": model["w"] + 1}):
        self.folder, self.trained, self.asked = folder, 0, 0
        self.app = ClientApp(mods=[guard_training])
        (self.context,) = InProcessGrid(self.app, 1).contexts.values()

        @self.app.train()
        def train(message, context):
            self.trained += 1
            model = message.content["arrays"]
            new = answer({name: one.numpy() for name, one in model.items()})
            arrays = ArrayRecord({name: Array(np.asarray(one)) for name, one in new.items()})
            metrics = MetricRecord({"num-examples": 1})
            return Message(RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=message)

        @self.app.evaluate()
        def evaluate(message, context):
            return Message(RecordDict({"metrics": MetricRecord({"n": 1})}), reply_to=message)

    def guard(self, *changes, more=TRAINING):
        path = guard_file(self.folder, *changes, more=more)
        self.context.node_config["drift-guard"] = str(path)
        return path

    def train(self, *claims, name=None, model=None, kind="train"):
        """Send a round; return its model, or why there is none."""
        self.asked += 1
        arrays = model or {"w": np.zeros(3, dtype=np.float32)}
        content = RecordDict(
            {"arrays": ArrayRecord({name: Array(np.asarray(a)) for name, a in arrays.items()})}
        )
        for number, claim in enumerate(claims):
            content[f"config-{number}"] = ConfigRecord({CLAIMED_NOISE: claim})
        message = Message(content, 7, kind)
        message.metadata.__dict__["_message_id"] = f"m{self.asked}" if name is None else name
        reply = self.app(message, self.context)
        if reply.has_error():
            return reply.error.reason
        if kind != "train":
            return reply.content
        return {name: one.numpy() for name, one in reply.content["arrays"].items()}

    def receipts(self):
        path = self.folder / "receipts.db"
        return verify(path).receipts if path.exists() else ()


@pytest.fixture
def node(tmp_path):
    return Node(tmp_path)


# ------------------------------------------------------------------------------ a lying server


LIES = [
    -1.0, -1e-320, math.nan, math.inf, -math.inf, "8.0", b"8", True, 8, 10**30, [8.0], [8.0, 8.0],
]  # fmt: skip


@pytest.mark.parametrize("lie", LIES, ids=repr)
@pytest.mark.parametrize("changes", [[], [ANY]], ids=["asks for noise", "asks for none"])
def test_a_claim_that_is_no_noise_multiplier_is_refused(node, lie, changes):
    node.guard(*changes)
    assert "one number" in node.train(lie)
    assert (node.trained, node.receipts()) == (0, ())


@pytest.mark.parametrize("claims", [(), (0.0,), (-0.0,), (1e-320,), (5e-324,), (0.1,), (0.9,)])
def test_too_little_noise_or_none_is_refused(node, claims):
    node.guard()
    assert "limit for a round is 4" in node.train(*claims)
    assert (node.trained, node.receipts()) == (0, ())


def test_two_claims_are_none(node):
    node.guard()
    assert "one number" in node.train(8.0, 9.0)
    assert node.trained == 0


@pytest.mark.parametrize("claim", [ENOUGH, 1e9, 1e300])
def test_a_claim_is_taken_for_the_noise_and_stands_in_the_receipt(node, claim):
    node.guard()
    assert node.train(claim)["w"].tolist() == [1, 1, 1]
    (receipt,) = node.receipts()
    cost = Cost.training(claim, 1e-9, "record")
    assert (receipt.epsilon, receipt.delta) == (cost.epsilon, Fraction("1e-9"))
    assert (receipt.trust, receipt.protects) == ("training: claimed noise", "record")
    assert receipt.terms == f"noise multiplier {claim!r}"


def test_limits_for_each_client_read_the_same_noise_as_more(node):
    node.guard(('key = "node.key"', 'key = "node.key"\nprotects = "client"'))
    node.train(4.0)
    (receipt,) = node.receipts()
    assert receipt.epsilon == Cost.gaussian(4.0, 1e-9, "client").epsilon
    assert receipt.protects == "client"


@pytest.mark.parametrize("name", ["", "x" * 65, "a\x1b[31m", "a\nb"])
def test_a_message_without_a_usable_id_is_refused(node, name):
    node.guard()
    assert "id of its message" in node.train(ENOUGH, name=name)
    assert (node.trained, node.receipts()) == (0, ())


def test_a_copy_of_a_message_is_not_answered_again_in_any_process(node):
    node.guard()
    node.train(ENOUGH, name="m")
    for again in (lambda: None, forget_claims):
        again()
        assert "answered" in node.train(ENOUGH, name="m")
    assert (node.trained, len(node.receipts())) == (1, 1)


def test_rounds_beyond_the_limit_are_refused_whatever_they_claim(node):
    node.guard()
    for _ in range(203):
        last = node.train(ENOUGH)
    assert "rounds" in last
    assert (node.trained, len(node.receipts())) == (3, 3)


def test_other_messages_pass(node):
    node.guard(more="")
    assert "metrics" in node.train(kind="evaluate")
    assert node.receipts() == ()


# ------------------------------------------------------------- the operator, the clock, the files


def test_without_a_guard_nothing_is_limited(node):
    for claims in [(), (math.nan,), (8.0, 8.0)]:
        assert node.train(*claims, name="")["w"].tolist() == [1, 1, 1]
    assert node.receipts() == ()


def test_a_guard_that_says_nothing_of_training_refuses_it(node):
    node.guard(more="")
    assert "no training" in node.train(1e9)
    assert (node.trained, node.receipts()) == (0, ())


def test_rounds_without_noise_can_be_allowed(node):
    node.guard(ANY)
    assert node.train()["w"].tolist() == [1, 1, 1]
    assert node.receipts()[0].epsilon == 10**6


@pytest.mark.parametrize("spoil", ["[training", "[training]\nmax_round = 3", ""])
def test_a_file_with_a_mistake_or_none_refuses_every_round(node, spoil):
    path = node.guard(more=spoil)
    if not spoil:
        path.unlink()
    assert "not usable" in node.train(ENOUGH)
    assert node.trained == 0


def test_files_that_are_damaged_or_of_another_key_refuse_every_round(node):
    node.guard()
    node.train(ENOUGH)
    kept = {name: (node.folder / name).read_bytes() for name in ("receipts.db", "node.key")}
    for name, left in (("receipts.db", b""), ("receipts.db", kept["receipts.db"][:5000]),
                       ("node.key", b"k" * 32), ("receipts.db.claims", b"")):  # fmt: skip
        before = (node.folder / name).read_bytes()
        (node.folder / name).write_bytes(left)
        assert isinstance(node.train(ENOUGH), str)
        (node.folder / name).write_bytes(before)
    assert node.trained == 1


def test_a_backup_that_was_put_back_answers_no_copy_again(node):
    node.guard()
    node.train(ENOUGH, name="before")
    shutil.copy(node.folder / "receipts.db", node.folder / "copy.db")
    node.train(ENOUGH, name="m")
    head = verify(node.folder / "receipts.db").head
    shutil.copy(node.folder / "copy.db", node.folder / "receipts.db")
    with pytest.raises(ValueError, match="earlier audit"):
        verify(node.folder / "receipts.db", head=head)
    forget_claims()
    assert "answered" in node.train(ENOUGH, name="m")
    assert node.trained == 2


def test_rounds_leave_the_window_and_come_back_by_no_clock_that_is_set_back(tmp_path):
    now = 1e9
    guard = Guard.from_file(guard_file(tmp_path, more=TRAINING), clock=lambda: now)
    for name in "abc":
        guard.admit_round(name, ENOUGH, "0")
    now -= 40 * 86400
    with pytest.raises(QueryRefused, match="rounds"):
        guard.admit_round("d", ENOUGH, "0")
    guard.admit_round("d", ENOUGH, "another client")
    now = 1e9 + 30 * 86400
    with pytest.raises(QueryRefused, match="rounds"):
        guard.admit_round("e", ENOUGH, "0")
    now += 1
    guard.admit_round("e", ENOUGH, "0")


def test_processes_at_once_do_not_pass_the_limit(node):
    node.guard(("max_rounds = 3", "max_rounds = 5"))
    node.train(ENOUGH)

    def many(first):
        for number in range(6):
            node.train(ENOUGH, name=f"{first}-{number}")

    assert joined(*[forked(lambda first=f: many(first)) for f in "ab"]) == [0, 0]
    assert len(node.receipts()) == 5


def test_rounds_and_checks_do_not_count_in_each_others_limits(tmp_path):
    guard = Guard.from_file(guard_file(tmp_path, more=TRAINING), clock=lambda: 1e9)
    for number in range(3):
        guard.admit_round(f"r{number}", ENOUGH, "0")
        guard.admit(question(f"c{number}"), "0")
    with pytest.raises(QueryRefused, match="rounds"):
        guard.admit_round("r", ENOUGH, "0")
    with pytest.raises(QueryRefused, match="epsilon"):
        guard.admit(question("c"), "0")
    assert len(verify(tmp_path / "receipts.db").receipts) == 6


def test_a_receipt_of_a_round_that_was_made_a_checks_is_found(tmp_path):
    guard = Guard.from_file(guard_file(tmp_path, more=TRAINING), clock=lambda: 1e9)
    guard.admit_round("r", ENOUGH, "0")
    with closing(sqlite3.connect(tmp_path / "receipts.db")) as db, db:
        db.execute("UPDATE receipts SET trust = 'trusted'")
    with pytest.raises(ValueError, match="receipt 1"):
        verify(tmp_path / "receipts.db")
    with pytest.raises(QueryRefused):
        guard.admit_round("s", ENOUGH, "0")


BAD = [
    ("max_rounds = 3", "max_rounds = 0", "training.max_rounds"),
    ("max_rounds = 3", "max_rounds = 3.0", "training.max_rounds"),
    ("max_rounds = 3", "", "training.max_rounds"),
    ("max_rounds = 3", "max_round = 3", "unknown key training.max_round"),
    ("max_epsilon = 4.0", "max_epsilon = 0", "training.max_epsilon"),
    ("max_epsilon = 4.0", 'max_epsilon = "any"', "training.max_epsilon"),
    ("max_delta = 1e-9", "max_delta = -1", "training.max_delta"),
    ("max_delta = 1e-9", "max_delta = 1.5", "training.max_delta"),
    ("max_delta = 1e-9", "max_delta = nan", "training.max_delta"),
    ("own_clipping_norm = 2.0", "own_clipping_norm = 0", "training.own_clipping_norm"),
    ("own_clipping_norm = 2.0", "own_noise = 2.0", "unknown key training.own_noise"),
]


@pytest.mark.parametrize(("old", "new", "named"), BAD)
def test_a_bad_key_is_named(tmp_path, old, new, named):
    with pytest.raises(GuardFileError, match=named.replace(".", r"\.")):
        read_limits(guard_file(tmp_path, (old, new), more=TRAINING + OWN))


# ----------------------------------------------------------------------------- the node's own noise


def test_the_nodes_own_noise_is_the_operators_whatever_the_server_claims(node):
    node.guard(("max_rounds = 3", "max_rounds = 30"), more=TRAINING + OWN)
    for claims in [(), (1e9,), (0.0,)]:
        assert set(node.train(*claims)) == {"w"}
    assert {one.trust for one in node.receipts()} == {"training: own noise"}
    (noise,) = {float(one.terms.removeprefix("noise multiplier ")) for one in node.receipts()}
    mu = 2 / noise  # a record moves an update by twice the norm (Balle & Wang 2018, Theorem 8)
    near, far = 4.0 / mu - mu / 2, 4.0 / mu + mu / 2
    upper = [math.erfc(x / math.sqrt(2)) / 2 for x in (near, far)]
    assert upper[0] - math.exp(4.0) * upper[1] == pytest.approx(1e-9, rel=1e-3)
    assert {4 * (1 - 1e-6) < one.epsilon <= 4 for one in node.receipts()} == {True}
    assert 2.0 * noise == pytest.approx(DEVIATION, rel=1e-5)


@pytest.mark.parametrize("change", ["max_delta = 0", "max_delta = 1", "max_delta = 1e-300"])
def test_limits_that_no_noise_keeps_let_no_round_pass(node, change):
    for more in ("", OWN):
        node.guard(("max_delta = 1e-9", change), more=TRAINING + more)
        assert "limit for a round is 4" in node.train(8.0)
    assert (node.trained, node.receipts()) == (0, ())


def noise_of(node, answer, model, seed=None):
    """What a node that adds noise answers, without the model."""

    def app(old):
        if seed is not None:
            np.random.seed(seed)  # as many apps do
        return answer(old)

    one = Node(node.folder, app)
    one.asked = node.asked
    one.guard(("max_rounds = 3", "max_rounds = 30"), more=TRAINING + OWN)
    new = one.train(model=model)
    node.asked = one.asked
    assert not isinstance(new, str), new
    with np.errstate(all="ignore"):
        return {name: new[name].astype(float) - model[name] for name in model}


LARGE = 10_000


@pytest.mark.rate(1e-9)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_an_update_is_clipped_and_its_noise_is_as_large_as_the_operator_says(node, dtype):
    """Of 10,000 normal numbers the standard deviation is within 5 % but for 1e-11."""
    model = {"w": np.zeros(LARGE, dtype), "scale": np.asarray(dtype(3))}
    noise = noise_of(node, lambda old: {k: v + 1e6 for k, v in old.items()}, model)
    assert np.std(noise["w"]) == pytest.approx(DEVIATION, rel=0.05)
    assert kstest(noise["w"] - np.mean(noise["w"]), norm(scale=DEVIATION).cdf).pvalue > 1e-9
    assert abs(noise["scale"]) < DEVIATION * 7 + 2
    assert noise["w"].dtype.kind == "f"


def test_an_update_is_clipped_to_the_norm_and_its_noise_is_the_systems(node, monkeypatch):
    """Where the system's words are all the middle one, its normal numbers are 0."""
    middle = np.uint64(1) << np.uint64(63)
    monkeypatch.setattr(SystemBits, "words", lambda _, count: np.full(count, middle))
    model = {"w": np.zeros(10), "scale": np.asarray(3.0)}
    moved = noise_of(node, lambda old: {k: v + 1e6 for k, v in old.items()}, model)
    square = sum(float(np.sum(np.square(move))) for move in moved.values())
    assert math.sqrt(square) == pytest.approx(2.0, rel=1e-9)


ODD = {
    "NaN in the update": (lambda old: {"w": old["w"] + np.array([np.nan] + [1e6] * 9)}, 0.0),
    "NaN in the model": (lambda old: {"w": np.full(10, 1e6)}, [np.nan] + [0.0] * 9),
    "an infinite move": (
        lambda old: {"w": np.array([-1.7e308] + [1e6] * 9)},
        [1.7e308] + [0.0] * 9,
    ),
    "beyond any square": (lambda old: {"w": old["w"] + 1e200}, 0.0),
    "nothing changed": (lambda old: old, 0.0),
    "an app's seed": (lambda old: {"w": old["w"] + 1e6}, 0.0),
}


@pytest.mark.rate(1e-9)
@pytest.mark.parametrize(("answer", "start"), ODD.values(), ids=ODD)
def test_no_update_gets_by_the_clipping_or_the_noise(node, answer, start):
    """Flower 1.42's `LocalDpMod` fails or lets each pass. One of 18 beyond 7 sigma: 5e-11."""
    model = {"w": np.zeros(10) + start}
    first, again = (noise_of(node, answer, model, seed=0)["w"] for _ in range(2))
    for one in (first, again):
        assert np.all(np.abs(one[1:]) < DEVIATION * 7 + 2)
        assert np.all(one[1:] != 0)
    assert np.all(first[1:] != again[1:])


@pytest.mark.parametrize(
    "answer",
    [
        lambda old: {},
        lambda old: {"other": old["w"]},
        lambda old: {"w": old["w"][:2]},
        lambda old: {"w": old["w"], "data": old["w"]},
        lambda old: {"w": np.array(["secret"] * 3)},
        lambda old: {"w": old["w"] + 1j},
        lambda old: {"w": old["w"].astype(np.longdouble)},
        lambda old: 1 / 0,
    ],
)
def test_what_is_no_update_of_the_model_is_not_sent(tmp_path, answer):
    node = Node(tmp_path, answer)
    node.guard(more=TRAINING + OWN)
    reason = node.train()
    assert isinstance(reason, str)
    assert "secret" not in reason
    assert node.trained == 1


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128, np.longdouble, "S8", "M8[s]"])
def test_a_model_whose_numbers_noise_does_not_cover_is_not_trained(tmp_path, dtype):
    """Of complex numbers the imaginary part would leave without noise, of longer ones the end."""
    node = Node(tmp_path, lambda old: old)
    node.guard(more=TRAINING + OWN)
    reason = node.train(model={"w": np.zeros(3, dtype)})
    assert "real numbers of at most 64 bits" in reason
    assert node.trained == 0


# --------------------------------------------------------------------- beside the server's ledger


@pytest.fixture
def federation(tmp_path, monkeypatch, ledger_at):
    """A ledger, and a function that trains on five guarded nodes for some rounds."""
    ledger = Ledger(ledger_at(tmp_path / "drift.db"))
    ledger.set_budget(Budget(60.0, 1e-6, composition="sum"))
    path = guard_file(tmp_path, ("max_rounds = 3", "max_rounds = 2"), more=TRAINING)
    monkeypatch.setenv("FLWR_KLD_GUARD", str(path))
    app = ClientApp(mods=[guard_training])
    answer_drift_queries(app, basket, FRUIT)

    @app.train()
    def train(message, context):
        moved = ArrayRecord({"w": Array(message.content["arrays"]["w"].numpy() + 1)})
        content = {"arrays": moved, "metrics": MetricRecord({"num-examples": 1})}
        return Message(RecordDict(content), reply_to=message)

    grid = InProcessGrid(app, 5)

    def run(rounds, config, wrapped=lambda strategy: strategy):
        strategy = DifferentialPrivacyServerSideFixedClipping(
            FedAvg(fraction_evaluate=0.0, min_train_nodes=5),
            noise_multiplier=8.0,
            clipping_norm=1.0,
            num_sampled_clients=5,
            accountant=LedgerAccountant(ledger, grid),
        )
        start, sent = ArrayRecord({"w": Array(np.zeros(4))}), config(strategy)
        return wrapped(strategy).start(
            grid, start, num_rounds=rounds, timeout=60, train_config=sent
        )

    return ledger, run


def test_receipts_claim_what_the_ledger_charged(federation, tmp_path):
    ledger, run = federation
    assert not run(3, lambda _: None).arrays  # it claims nothing: no node trains
    assert not (tmp_path / "receipts.db").exists()
    assert run(3, noise_claim).arrays
    settled = [entry for entry in ledger.history() if entry.state == "settled"]
    receipts = verify(tmp_path / "receipts.db").receipts
    assert (len(settled), len(receipts)) == (2, 10)
    charged = {(entry.release.asked.epsilon, entry.release.asked.delta) for entry in settled}
    assert {(one.epsilon, one.delta) for one in receipts} == charged
    assert {one.terms for one in receipts} == {"noise multiplier 8.0"}
    states = [entry.state for entry in ledger.history()]
    assert states == ["failed", "failed", "reserved", "settled", "settled", "reserved"]


def test_checks_beside_training_have_receipts_of_their_own(federation, tmp_path):
    ledger, run = federation
    checks = KLDrift(REFERENCE, Trusted(epsilon=1.0), ledger=ledger)
    assert run(2, noise_claim, lambda strategy: WithDriftChecks(strategy, checks, every=1)).arrays
    kinds = Counter(one.trust for one in verify(tmp_path / "receipts.db").receipts)
    assert kinds == {"training: claimed noise": 10, "trusted": 10}
    assert [str(entry.kind) for entry in ledger.history()] == ["training", "check"] * 2


def test_only_a_strategy_that_adds_the_noise_can_claim_it():
    with pytest.raises(ValueError, match="fixed clipping"):
        noise_claim(FedAvg())
