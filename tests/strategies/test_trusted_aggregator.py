"""Checks through an aggregator, in process: near the truth, and closed to the server."""

import json
from itertools import chain
from operator import attrgetter

import numpy as np
import pytest
from federation import FAR, FRUIT, REFERENCE, SHARES, app_of, basket
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.clientapp import ClientApp
from scipy.stats import chi2
from sealed_federation import (
    AGGREGATOR,
    KEY,
    NODES,
    WatchedGrid,
    federation,
    monitor,
    on_request,
    record_of,
)

from flwr_kld import Labels, MonteCarlo, Partition, Reference
from flwr_kld.clients import (
    AggregatorKey,
    AggregatorLimits,
    aggregate_drift_checks,
    answer_drift_queries,
)
from flwr_kld.errors import CheckFailed
from flwr_kld.inference.divergence import skewed_divergence
from flwr_kld.messages.question import Answer
from flwr_kld.messages.release_terms import ReleaseTerms
from flwr_kld.messages.sealing import NotOpened, SealContext, open_sealed, seal
from flwr_kld.strategies import (
    Adjacency,
    Distributed,
    KLDrift,
    PlainSum,
    RotatingCohort,
    Scalar,
    SealedSum,
    SecureSum,
    Trusted,
    TrustedAggregator,
)

TRUTH = skewed_divergence(REFERENCE.probabilities, SHARES, 0.01)
ADD_REMOVE = Adjacency.ADD_REMOVE
NOT_OPENED = (
    "rejected by the aggregator: NotOpened: the sealed counts were changed, or sealed for another "
    "check, sender or key"
)

DUPLICATED = "rejected by the aggregator: Duplicated: the same sealed counts under two names"


# ------------------------------------------------------------------------- what comes out


@pytest.mark.parametrize(
    ("epsilon", "options"),
    [
        (3.0, {}),
        (3, {"adjacency": ADD_REMOVE}),
        (3.0, {"delta": 1e-6, "noise": "gaussian"}),
        (100.0, {"release": Scalar()}),
        (100.0, {"release": Scalar("additive", 1), "delta": 1e-6, "noise": "gaussian"}),
        (100.0, {"release": Scalar(records=2000), "adjacency": ADD_REMOVE}),
        (200.0, {"adjacency": ADD_REMOVE, "clip": 100}),
        (200.0, {"adjacency": ADD_REMOVE, "clip": 100, "release": Scalar(records=2000)}),
    ],
)
def test_every_release_is_near_the_truth_and_like_the_trusted_one(epsilon, options):
    report = monitor(epsilon, options).check(federation())
    theta = 0.01 if report.reading.theta is None else report.reading.theta
    truth = skewed_divergence(REFERENCE.probabilities, SHARES, theta)
    assert abs(report.reading.estimate - truth) < FAR * report.reading.privacy + 0.03
    assert (report.cohort.asked, report.cohort.survivors, report.cohort.dropouts) == (20, 20, {})
    assert (report.protection.trust, report.protection.private) == ("trusted-aggregator", True)
    assert report.guarantee.epsilon == epsilon
    central = KLDrift(REFERENCE, Trusted(epsilon, **options)).check(WatchedGrid(app_of(), NODES))
    for name in ("guarantee", "protection.mechanism", "protection.noise", "cost.epsilon"):
        assert attrgetter(name)(report) == attrgetter(name)(central)
    assert report.reading.theta == central.reading.theta


@pytest.mark.parametrize("plan", [MonteCarlo(50), Partition(16)])
@pytest.mark.parametrize("release", ["counts", Scalar()])
def test_plans_that_do_not_ask_everything(plan, release):
    """A reference over 60 symbols, 10 of them impossible, and clients that follow it.

    The exact scalar is 0; with the plans of this seed a record moves it by 0.041 nats at most, so
    that at ε = 40 it exceeds 0.02 with probability e^-19.
    """
    domain = Labels([str(i) for i in range(60)])
    reference = Reference.from_counts(domain, [*range(1, 51), *[0] * 10])
    clients = ClientApp()
    records = [str(i) for i in range(50) for _ in range(i + 1)]
    answer_drift_queries(clients, lambda _: records, domain, aggregator=KEY.public)
    trust = TrustedAggregator(40.0, aggregator=KEY.public, release=release)
    report = KLDrift(reference, trust, plan=plan, seed=1).check(federation(clients))
    assert (report.cohort.survivors, report.reading.records) == (20, 20 * len(records))
    assert report.compared.cells < 60
    assert abs(report.reading.estimate) < 0.02


def test_bytes_are_those_of_a_box():
    report = monitor().check(federation())
    assert report.cost.bytes_up == 4 * report.compared.cells + 48
    assert 300 < report.cost.bytes_down < 1500


def test_records_are_exact_only_where_their_number_is_public():
    assert monitor().check(federation()).reading.records == 2000
    hidden = [
        monitor(0.03, {"adjacency": ADD_REMOVE}).check(federation()).reading.records
        for _ in range(4)
    ]
    assert len(set(hidden)) > 1  # all alike at σ = 115: 2e-8


def test_the_noise_is_new_in_every_check_and_no_seed_reaches_it():
    reports = [monitor(0.1, seed=3).check(federation()) for _ in range(3)]
    assert len({report.reading.estimate for report in reports}) == 3
    assert all(report.protection.private for report in reports)


def test_clients_count_no_more_records_than_client_level_privacy_allows():
    report = monitor(20.0, {"adjacency": ADD_REMOVE, "clip": 30}).check(federation())
    assert report.cohort.survivors == 20
    assert report.reading.records == pytest.approx(20 * 30, abs=60)
    assert report.guarantee.unit == "client"


def test_rounds_with_a_rotating_cohort():
    checks = monitor(cohort=RotatingCohort(5))
    result = checks.start(grid := federation(), num_rounds=4)
    assert [report.cohort.survivors for report in checks.reports.values()] == [5] * 4
    assert all("kld.estimate" in m for m in result.evaluate_metrics_clientapp.values())
    asked = [m.metadata.message_type for m in grid.sent]
    assert asked.count("query.drift_role") == 21  # once
    assert asked.count("query.drift_seal") == 20
    assert asked.count("query.drift_aggregate") == 4


# ------------------------------------------------------------------------- roles


def shared_app(**limits) -> ClientApp:
    """The one app that a deployment ships to all nodes."""
    app = ClientApp()
    answer_drift_queries(app, basket, FRUIT, aggregator=KEY.public)
    aggregate_drift_checks(app, limits=AggregatorLimits(**limits))
    return app


def deployed(app: ClientApp, node_config: dict, **grid) -> WatchedGrid:
    """Nodes that all run `app`; the last one's operator made it the aggregator."""

    def run(message, context):
        if context.node_id == AGGREGATOR:
            context.node_config.update({"drift-role": "aggregator", **node_config})
        return app(message, context)

    return WatchedGrid(run, **grid)


@pytest.fixture
def key_file(tmp_path, monkeypatch):
    monkeypatch.setenv("FLWR_HOME", str(tmp_path / "flower"))
    KEY.save(tmp_path / "key")
    return str(tmp_path / "key")


def test_one_app_serves_both_roles_by_node_config(key_file):
    report = monitor().check(grid := deployed(shared_app(), {"drift-key": key_file}))
    assert (report.cohort.asked, report.cohort.survivors) == (20, 20)
    asked = {m.metadata.dst_node_id for m in grid.sent if "seal" in m.metadata.message_type}
    assert asked == set(range(1000, 1020))


def test_the_aggregators_node_answers_no_other_check(key_file):
    grid = deployed(shared_app(), {"drift-key": key_file})
    report = KLDrift(REFERENCE, Trusted(3.0)).check(grid)
    assert report.cohort.survivors == 20
    assert report.cohort.dropouts == {
        "refused: this node does not host the client that is asked": 1
    }


def test_a_given_node_id_needs_no_roles_asked():
    report = monitor(aggregation=SealedSum(node=AGGREGATOR)).check(grid := federation())
    assert (report.cohort.asked, report.cohort.survivors) == (20, 20)
    assert not any("role" in m.metadata.message_type for m in grid.sent)


@pytest.mark.parametrize(
    "config",
    [{}, {"drift-key": "key"}, {"drift-key": "/nowhere/key"}, {"drift-key": "/etc/hostname"}],
)
def test_an_aggregator_without_its_key_is_no_client_either(config):
    with pytest.raises(CheckFailed, match="no connected node holds the aggregator's key: start a"):
        monitor().check(deployed(shared_app(), config))
    failure = r"the aggregator refused: the aggregator's key (cannot be read|must be named)"
    with pytest.raises(CheckFailed, match=failure):
        monitor(aggregation=SealedSum(node=AGGREGATOR)).check(deployed(shared_app(), config))


def test_a_node_that_is_no_aggregator_refuses_to_be_one(key_file):
    grid = deployed(shared_app(), {"drift-key": key_file})
    with pytest.raises(CheckFailed, match="the aggregator refused: this node is not an aggregator"):
        monitor(aggregation=SealedSum(node=1003)).check(grid)


def test_pairs_that_keep_no_promise_fail_at_construction():
    ours = TrustedAggregator(1.0, aggregator=KEY.public)
    for other in (PlainSum(), SecureSum()):
        with pytest.raises(ValueError, match=r"TrustedAggregator\(…\) needs aggregation=SealedSum"):
            KLDrift(REFERENCE, ours, aggregation=other)
    for trust in (Trusted(1.0), Distributed(1.0, min_survivors=5)):
        with pytest.raises(ValueError, match=r"SealedSum\(…\) needs trust=TrustedAggregator\(…\)"):
            KLDrift(REFERENCE, trust, aggregation=SealedSum())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"aggregator": b"short"}, "32 bytes: AggregatorKey.public"),
        ({"aggregator": bytes(32)}, "low-order point"),
        ({"epsilon": 0.0}, "epsilon must be a number of nats above 0"),
        ({"noise": "gaussian"}, "needs delta > 0"),
        ({"clip": 5}, "needs Adjacency.ADD_REMOVE"),
        ({"release": Scalar(records=9.0)}, "under add-remove adjacency"),
    ],
)
def test_contradictions_fail_at_construction(arguments, message):
    with pytest.raises(ValueError, match=message):
        TrustedAggregator(**{"epsilon": 1.0, "aggregator": KEY.public, **arguments})


def test_a_client_pins_a_key_that_protects():
    with pytest.raises(ValueError, match="low-order point"):
        app_of(aggregator=bytes(32))


# ------------------------------------------------------------------------- server-blindness

ROW = (10, 20, 30, 40, 0, 0)  # nothing other, nothing missing
SUMS = tuple(20 * n for n in ROW)


def appears(vector, handled) -> bool:
    """Whether a vector of integers is written in any usual form in anything handled."""
    array = np.array(vector)
    kinds = ("u1", "i2", "i4", "u4", "i8", "f4", "f8")[max(vector) > 255 :]
    forms = [array.astype(order + kind).tobytes() for kind in kinds for order in "<>"]
    texts = [", ".join(map(str, vector)), ",".join(map(str, vector)), " ".join(map(str, vector))]
    for value in handled:
        if isinstance(value, bytes) and any(form in value for form in forms):
            return True
        if isinstance(value, str) and any(text in value for text in texts):
            return True
    return False


def test_the_search_for_counts_finds_them_where_the_server_is_trusted():
    KLDrift(REFERENCE, Trusted(0.1)).check(grid := WatchedGrid(app_of(), NODES))
    assert appears(ROW, grid.handled())


@pytest.mark.parametrize("release", ["counts", Scalar()])
def test_no_exact_counts_pass_the_server_in_any_usual_form(release):
    """Noise of scale 20 hits zero in all six cells of a sum with P < 1e-9."""
    monitor(0.1, {"release": release}).check(grid := federation())
    assert len(grid.received) == 21 + 20 + 1
    assert not appears(ROW, grid.handled())
    assert not appears(SUMS, grid.handled())


def test_nothing_that_the_server_handles_opens_a_box():
    monitor().check(grid := federation())
    (request,) = grid.requests()
    question, terms = request.content["question"], request.content["terms"]["terms"]
    handled = [v for v in grid.handled() if isinstance(v, bytes)]
    pieces = {v[i : i + 32] for v in handled for i in (0, len(v) - 32) if len(v) >= 32}
    guesses = [AggregatorKey(piece) for piece in pieces | {KEY.public, bytes(32)}]
    for sender, box in list(request.content["sealed"].items())[:5]:
        context = SealContext(
            grid.run.run_id,
            question["check"],
            question["reference"],
            question["plan"],
            terms,
            sender,
        )
        assert open_sealed(KEY, box, context) == np.array(ROW, "<i4").tobytes()
        for guess in guesses:
            with pytest.raises(NotOpened):
                open_sealed(guess, box, context)


def test_boxes_tell_nothing_of_the_counts():
    """Uniform bytes, in one length, never twice; the same test tells plain counts apart."""
    boxes = []
    for shares in (SHARES, (1.0, 0, 0, 0), SHARES):
        clients = app_of(lambda c, s=shares: basket(c, shares=s), aggregator=KEY.public)
        grid = federation(clients)
        for _ in range(4):
            monitor(1.0, {"adjacency": ADD_REMOVE}).check(grid)
        boxes.append(grid.boxes())
    everything = list(chain(*boxes))
    assert len(everything) == 3 * 4 * NODES
    assert {len(box) for box in everything} == {24 + 48}
    assert len({box[:32] for box in everything}) == len({box[32:48] for box in everything}) == 240
    assert chi_squared([box[32:] for box in everything]) < chi2.isf(1e-9, 255)
    plain = np.array(ROW, "<i4").tobytes()
    assert chi_squared([plain] * 480) > chi2.isf(1e-9, 255)
    for one, other in ((0, 1), (0, 2)):  # different data, the same data: half of the bits differ
        pairs = zip(boxes[one], boxes[other], strict=True)
        differ = sum(differing_bits(a[32:48], b[32:48]) for a, b in pairs)
        bits = 80 * 128
        assert abs(differ - bits / 2) < 6 * (bits / 4) ** 0.5


def chi_squared(texts) -> float:
    """Of the bytes against uniform: 255 degrees of freedom."""
    seen = np.bincount(np.frombuffer(b"".join(texts), np.uint8), minlength=256)
    expected = seen.sum() / 256
    return float(((seen - expected) ** 2 / expected).sum())


def differing_bits(a: bytes, b: bytes) -> int:
    return (int.from_bytes(a, "big") ^ int.from_bytes(b, "big")).bit_count()


def test_the_size_of_nothing_depends_on_the_data():
    def sizes(shares):
        clients = app_of(lambda c: basket(c, shares=shares), aggregator=KEY.public)
        monitor().check(grid := federation(clients))
        return [
            [len(v) for r in m.content.values() for v in r.values() if hasattr(v, "__len__")]
            for m in (*grid.sent, *grid.received)
            if m.has_content()
            and m.metadata.src_node_id != AGGREGATOR
            and m.metadata.dst_node_id != AGGREGATOR
        ]

    assert sizes(SHARES) == sizes((1.0, 0.0, 0.0, 0.0))


# ------------------------------------------------------------------------- whom clients trust


def test_a_client_seals_to_no_other_key_than_the_pinned_one():
    other = AggregatorKey.generate()
    trust = TrustedAggregator(1.0, aggregator=other.public)
    with pytest.raises(
        CheckFailed, match="20: refused: WrongAggregator: the key to seal to is not"
    ):
        KLDrift(REFERENCE, trust).check(federation(key=other))


def test_an_aggregator_opens_nothing_for_another_key():
    def change(content: RecordDict) -> None:
        terms = json.loads(content["terms"]["terms"])
        terms["aggregator"] = AggregatorKey.generate().public.hex()
        content["terms"]["terms"] = json.dumps(terms, sort_keys=True, separators=(",", ":"))

    with pytest.raises(CheckFailed, match="refused: WrongAggregator: the counts are sealed for an"):
        monitor().check(federation(meddle=on_request(change)))


def test_clients_that_pinned_nobody_seal_nothing():
    with pytest.raises(
        CheckFailed, match=r"0 clients answered and 2 are needed \(20: client error"
    ):
        monitor().check(federation(app_of()))


@pytest.mark.parametrize(("name", "value"), [("epsilon", 0.01), ("adjacency", "add-remove")])
def test_a_client_refuses_a_question_that_claims_less_than_the_terms_spend(name, value):
    def meddle(message: Message) -> None:
        if message.metadata.message_type == "query.drift_seal":
            message.content["question"][name] = value

    with pytest.raises(CheckFailed, match="claims another guarantee than the aggregator's terms"):
        monitor().check(federation(meddle=meddle))


@pytest.mark.parametrize(
    "terms",
    ["", "[]", "{}", "nonsense", '{"release":"counts"}', "[" * 10000, '{"release":{"lam":1e300}}'],
)
def test_terms_that_cannot_be_read_are_refused_on_both_sides(terms):
    for asked in ("query.drift_seal", "query.drift_aggregate"):

        def meddle(message: Message, asked: str = asked) -> None:
            if message.metadata.message_type == asked:
                message.content["terms"]["terms"] = terms

        with pytest.raises(CheckFailed, match="refused: the terms of the release"):
            monitor().check(federation(meddle=meddle))


def test_terms_have_one_form():
    terms = TrustedAggregator(1, aggregator=KEY.public, release=Scalar()).release_terms
    assert ReleaseTerms.from_json(terms.to_json()) == terms
    spaced = json.dumps(json.loads(terms.to_json()))
    for text in (spaced, terms.to_json().replace("1.0", "1", 1)):
        with pytest.raises(ValueError, match="the terms of the release: not in the one form"):
            ReleaseTerms.from_json(text)


def test_a_client_is_asked_for_one_box_a_check():
    """However often a server asks, and by whatever number of a member."""
    monitor().check(grid := federation())
    first = next(m for m in grid.sent if m.metadata.message_type == "query.drift_seal")
    reply = grid.again(first)
    assert "AnsweredAlready" in reply["answer"]["answer"]
    assert not reply["sealed"]
    first.content["question"].update({"check": "anew", "members": [0, 1, 2]})
    reply = grid.again(first)
    assert list(reply["sealed"]) == ["0"]
    assert json.loads(reply["answer"]["answer"])["answered"] == [0]


# ------------------------------------------------------------------------- boxes that are not right


def test_a_tampered_box_is_left_out_by_reason():
    def change(content: RecordDict) -> None:
        box = bytearray(content["sealed"]["1003:0"])
        box[40] ^= 1
        content["sealed"]["1003:0"] = bytes(box)

    report = monitor().check(federation(meddle=on_request(change)))
    assert (report.cohort.survivors, report.reading.records, report.cohort.dropouts) == (
        19,
        1900,
        {NOT_OPENED: 1},
    )


def test_a_cut_box_is_left_out_by_reason():
    report = monitor().check(
        federation(meddle=on_request(lambda c: c["sealed"].update({"1003:0": b"junk"})))
    )
    assert report.cohort.dropouts == {
        "rejected by the aggregator: NotOpened: the sealed counts are cut short": 1
    }


def test_a_box_of_an_earlier_check_does_not_open():
    grid = federation()
    monitor().check(grid)
    (earlier,) = grid.requests()
    grid.meddle = on_request(
        lambda c: c["sealed"].update({"1003:0": earlier.content["sealed"]["1003:0"]})
    )
    assert monitor().check(grid).cohort.dropouts == {NOT_OPENED: 1}


def test_a_box_does_not_open_for_another_sender():
    def swap(content: RecordDict) -> None:
        sealed = content["sealed"]
        sealed["1003:0"], sealed["1004:0"] = sealed["1004:0"], sealed["1003:0"]

    report = monitor().check(federation(meddle=on_request(swap)))
    assert (report.cohort.survivors, report.cohort.dropouts) == (18, {NOT_OPENED: 2})


@pytest.mark.parametrize("name", ["1003:1", "1004:0"])
def test_a_box_under_two_names_is_left_out_under_both(name):
    def double(content: RecordDict) -> None:
        content["sealed"][name] = content["sealed"]["1003:0"]

    grid = federation(meddle=on_request(double))
    if name == "1004:0":
        assert monitor().check(grid).cohort.dropouts == {DUPLICATED: 2}
        return
    with pytest.raises(CheckFailed, match="numbers of clients do not add up"):
        monitor().check(grid)
    said = json.loads(grid.received[-1].content["published"]["rejected"])
    assert said == dict.fromkeys(["1003:0", name], DUPLICATED.partition(": ")[2])


def test_a_server_cannot_have_the_boxes_opened_for_a_larger_epsilon():
    def raise_epsilon(content: RecordDict) -> None:
        terms = json.loads(content["terms"]["terms"]) | {"epsilon": 20.0}
        content["terms"]["terms"] = json.dumps(terms, sort_keys=True, separators=(",", ":"))
        content["question"]["epsilon"] = 20.0

    with pytest.raises(CheckFailed, match="CohortTooSmall: 0 clients are left, 20: NotOpened"):
        monitor().check(federation(meddle=on_request(raise_epsilon)))


@pytest.mark.parametrize(
    ("name", "key", "value", "message"),
    [
        ("question", "epsilon", 9.0, "another guarantee than the aggregator's terms"),
        ("question", "trust", "trusted", "another guarantee than the aggregator's terms"),
        ("question", "reference", "x", "the aggregator cannot read the query plan"),
        ("plan", "domain", "{}", "the aggregator cannot read the query plan"),
        ("plan", "domain", "[" * 10000, "the query plan: domain is out of range"),
        ("plan", "weight", b"", "the query plan's weights are out of range"),
        ("plan", "weight", np.full(4, np.nan).tobytes(), "weights are out of range"),
        ("plan", "weight", np.full(4, 1e300).tobytes(), "weights are out of range"),
        ("plan", "weight", np.full(4, -0.5).tobytes(), "weights are out of range"),
        ("plan", "probabilities", np.full(4, 0.25).tobytes(), "another reference than the clients"),
        ("terms", "least", "many", "the order of a release: least is not of its type"),
        ("sealed", "1003:0", "text", "sealed counts are bytes"),
    ],
)
def test_a_server_that_changes_the_request_is_refused(name, key, value, message):
    grid = federation(meddle=on_request(lambda c: c[name].update({key: value})))
    with pytest.raises(CheckFailed, match=f"the aggregator refused: .*{message}"):
        monitor().check(grid)


# ------------------------------------------------------------------------- rows that lie


def lying(values, dtype="<i4", **trust):
    """Client 1000 seals these counts, properly."""
    honest = app_of(aggregator=KEY.public)

    def app(message: Message, context):
        reply = honest(message, context)
        if context.node_id == 1000 and "sealed" in reply.content:
            question, terms = message.content["question"], message.content["terms"]["terms"]
            context_of = SealContext(
                context.run_id, question["check"], question["reference"], question["plan"],
                terms, "1000:0",
            )  # fmt: skip
            raw = np.asarray(values).astype(dtype).tobytes()
            reply.content["sealed"]["0"] = seal(KEY.public, raw, context_of)
        return reply

    return monitor(20.0, trust).check(federation(app))


@pytest.mark.parametrize(
    ("values", "options", "reason"),
    [
        ([1, 2, -3, 4, 0, 0], {}, "counts must not be negative"),
        ([2**31 - 1] * 6, {}, "counts exceed the most records that a client may have"),
        ([1, 2, 3], {}, "counts have the wrong shape: one number a cell is expected"),
        ([1, 2, 3, 4, 5], {}, "counts have the wrong shape: one number a cell is expected"),
        (
            [101, 0, 0, 0, 0, 0],
            {"clip": 100, "adjacency": ADD_REMOVE},
            "counts exceed the most records",
        ),
    ],
)
def test_the_aggregator_leaves_out_rows_that_cannot_be(values, options, reason):
    report = lying(values, **options)
    assert report.cohort.survivors == 19
    ((said, n),) = report.cohort.dropouts.items()
    assert said.startswith(f"rejected by the aggregator: {reason}")
    assert n == 1


# ------------------------------------------------------------------------- the minimum


def test_the_server_cannot_lower_the_aggregators_minimum():
    grid = federation(limits=AggregatorLimits(min_clients=21))
    with pytest.raises(
        CheckFailed, match="CohortTooSmall: 20 clients sealed their counts; the agg"
    ):
        monitor(min_clients=1).check(grid)


def test_rejected_boxes_do_not_count_towards_the_minimum():
    def spoil(content: RecordDict) -> None:
        content["sealed"].update({f"{1000 + i}:0": bytes([i]) * 64 for i in range(6)})

    grid = federation(limits=AggregatorLimits(min_clients=15), meddle=on_request(spoil))
    with pytest.raises(CheckFailed, match="CohortTooSmall: 14 clients are left, 6: NotOpened"):
        monitor().check(grid)
    (request,) = grid.requests()
    grid.meddle = lambda message: None
    assert "AnsweredAlready" in grid.again(request)["answer"]["answer"]  # and no second try


def test_the_servers_own_minimum_holds_before_anything_is_noised():
    def spoil(content: RecordDict) -> None:
        content["sealed"]["1003:0"] = bytes(64)

    with pytest.raises(CheckFailed, match=r"CohortTooSmall: 19 clients are left.*minimum is 20"):
        monitor(min_clients=20).check(federation(meddle=on_request(spoil)))


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"drift-min-clients": 21}, "CohortTooSmall: .* the aggregator's minimum is 21"),
        ({"drift-most-epsilon": 1}, "EpsilonTooLarge"),
        ({"drift-reference": "another"}, "not the one that the aggregator serves"),
        ({"drift-min-clients": "many"}, "limits in its node config are not readable"),
        ({"drift-most-epsilon": "all"}, "limits in its node config are not readable"),
        ({"drift-min-clients": True}, "not readable: min_clients is not of its type"),
        ({"drift-min-clients": 21.0}, "not readable: min_clients is not of its type"),
        ({"drift-min-clients": -1}, "not readable: min_clients is out of range"),
        ({"drift-most-epsilon": True}, "not readable: most_epsilon is not of its type"),
        ({"drift-most-epsilon": 0.0}, "not readable: most_epsilon is out of range"),
        ({"drift-most-epsilon": float("nan")}, "not readable: most_epsilon is out of range"),
        ({"drift-reference": 7}, "not readable: reference is not of its type"),
        ({"drift-reference": ""}, "not readable: reference is out of range"),
        ({"drift-memory": b"/memory"}, "not readable: memory is not of its type"),
        ({"drift-memory": "relative"}, "not readable: memory is out of range; .* absolute path"),
        ({"drift-memory": "/nowhere/memory"}, "the memory of checks cannot be used"),
    ],
)
def test_the_operators_limits_come_from_the_node_config(key_file, config, message):
    grid = deployed(shared_app(), {"drift-key": key_file, **config})
    with pytest.raises(CheckFailed, match=message):
        monitor().check(grid)


def test_a_node_config_cannot_loosen_what_the_app_says():
    strict = AggregatorLimits(min_clients=9, most_epsilon=0.5, reference="a")
    loose = strict.stricter({"drift-min-clients": 2, "drift-most-epsilon": 5.0})
    assert loose == strict
    with pytest.raises(ValueError, match="name two references"):
        strict.stricter({"drift-reference": "b"})
    assert strict.stricter({"drift-most-epsilon": 0.25}).most_epsilon == 0.25
    with pytest.raises(ValueError, match="min_clients must be"):
        AggregatorLimits(min_clients=1)


# ------------------------------------------------------------------------- once


def test_a_check_is_answered_once_whatever_is_changed_in_the_second_request():
    monitor(0.1).check(grid := federation())
    (request,) = grid.requests()
    for drop in range(3):
        sealed = dict(list(request.content["sealed"].items())[drop:])
        request.content["sealed"] = ConfigRecord(dict(reversed(sealed.items())))
        reply = grid.again(request)
        assert "AnsweredAlready" in reply["answer"]["answer"]
        assert "published" not in reply


def aggregators_context(grid: WatchedGrid):
    return grid._contexts[AGGREGATOR]


def test_boxes_do_not_open_in_another_run():
    """A server that starts a run anew, so that the aggregator's state is blank."""
    monitor(0.1).check(grid := federation())
    context = aggregators_context(grid)
    context.state, context.run_id = RecordDict(), 2
    answer = grid.again(grid.requests()[0])["answer"]["answer"]
    assert "CohortTooSmall: 0 clients are left, 20: NotOpened" in answer


def test_a_memory_on_disk_outlives_the_node(tmp_path):
    limits = AggregatorLimits(memory=tmp_path / "checks.db")
    monitor(0.1).check(grid := federation(limits=limits))
    monitor(0.1).check(grid)
    for request in grid.requests()[:2]:
        aggregators_context(grid).state = RecordDict()
        reply = grid.again(request)
        assert "AnsweredAlready" in reply["answer"]["answer"]
    assert monitor(0.1).check(grid).cohort.survivors == 20


# ------------------------------------------------------------------------- who takes part


def test_dropouts_by_reason():
    def records(context):
        if context.node_id == 1001:
            raise RuntimeError("zucchini")
        return basket(context)

    grid = federation(
        app_of(records, aggregator=KEY.public), lose=lambda m: m.metadata.dst_node_id == 1002
    )
    report = monitor().check(grid)
    assert (report.cohort.asked, report.cohort.survivors, report.reading.records) == (20, 18, 1800)
    assert report.cohort.dropouts.pop("no reply") == 1
    ((reason, n),) = report.cohort.dropouts.items()
    assert reason.startswith("refused: ")
    assert "zucchini" not in report.to_json()
    assert n == 1


def test_below_the_servers_minimum_the_aggregator_is_not_even_asked():
    grid = federation(lose=lambda m: m.metadata.dst_node_id in range(1004, 1020))
    with pytest.raises(CheckFailed, match=r"4 clients answered and 5 are needed \(16: no reply\)"):
        monitor(min_clients=5).check(grid)
    assert not grid.requests()


def test_what_a_handler_raises_is_reported_by_code_only():
    honest = app_of(aggregator=KEY.public)

    def app(message, context):
        if context.node_id == 1000:
            raise RuntimeError("measles")
        return honest(message, context)

    report = monitor().check(federation(app))
    assert report.cohort.dropouts == {"client error (Flower code 2)": 1}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda c: c.pop("answer"), "the answer: not readable"),
        (lambda c: c.pop("sealed"), "carries no sealed counts"),
        (lambda c: c.update(sealed=ConfigRecord({"0": "text"})), "no reply"),
        (
            lambda c: c.update(answer=ConfigRecord(Answer("x", "y", [0], []).to_config())),
            "another check",
        ),
    ],
)
def test_a_bad_reply_is_left_out_by_reason(change, reason):
    honest = app_of(aggregator=KEY.public)

    def app(message, context):
        reply = honest(message, context)
        if context.node_id == 1000 and "sealed" in reply.content:
            change(reply.content)
        return reply

    report = monitor().check(federation(app))
    assert report.cohort.survivors == 19
    ((said, n),) = report.cohort.dropouts.items()
    assert reason in said
    assert n == 1


def test_a_cohort_without_any_record_has_nothing_to_compare():
    with pytest.raises(CheckFailed, match="the cohort holds no records"):
        monitor().check(federation(app_of(lambda _: [], aggregator=KEY.public)))


def test_a_silent_aggregator_gives_no_number():
    grid = federation(lose=lambda m: m.metadata.message_type == "query.drift_aggregate")
    with pytest.raises(
        CheckFailed, match="the aggregator did not answer; count the check as spent"
    ):
        monitor().check(grid)


def published(**changes):
    def change(content: RecordDict) -> None:
        content["published"].update(changes)

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c.pop("published"), "the published numbers"),
        (published(check="x"), "another check"),
        (published(clients=7), "do not add up"),
        (published(values=bytes(8)), "another number of counts than cells"),
        (published(records=float("nan")), "the published numbers"),
        (published(rejected="[]"), "the published numbers"),
        (published(rejected='{"why": -3}'), "the published numbers"),
        (published(clients=True), "the published numbers"),
    ],
)
def test_an_aggregator_that_talks_nonsense_gives_no_number(change, message):
    app = ClientApp()
    aggregate_drift_checks(app, key=KEY)
    people = app_of(aggregator=KEY.public)

    def run(asked, context):
        reply = (app if context.node_id == AGGREGATOR else people)(asked, context)
        if "published" in reply.content:
            change(reply.content)
        return reply

    with pytest.raises(CheckFailed, match=message):
        monitor().check(WatchedGrid(run))


def test_another_reference_is_refused_by_a_client_that_agreed_to_one():
    other = Reference.from_probabilities(FRUIT, [0.1, 0.2, 0.3, 0.4])
    grid = federation(app_of(aggregator=KEY.public, reference=REFERENCE))
    with pytest.raises(CheckFailed, match="refused: the server's reference is not the one"):
        KLDrift(other, TrustedAggregator(1.0, aggregator=KEY.public)).check(grid)
    assert record_of(grid.received[-1].content, "answer")
