"""One app on all nodes; each node's key and roster are files of its operator."""

import json
import logging
from pathlib import Path

import pytest
from federation import FAR, REFERENCE, SHARES, app_of
from flwr.app import ConfigRecord, Context, Message, RecordDict

from flwr_kld.clients import FirstUse, PinnedByNode
from flwr_kld.common.errors import CheckFailed, QueryRefused
from flwr_kld.common.identity import claim_text
from flwr_kld.infer.divergence import skewed_divergence
from flwr_kld.secure_sums import Identity, Roster
from flwr_kld.simulations.in_process_grid import InProcessGrid
from flwr_kld.strategies import Distributed, KLDrift, SecureSum

NAMES = [f"hospital-{i}" for i in range(5)]
TRUTH = skewed_divergence(REFERENCE.probabilities, SHARES, 0.01)


class Hospitals:
    """Five nodes, their files, and one app for all."""

    def __init__(self, folder: Path) -> None:
        identities = {name: Identity.generate() for name in NAMES}
        self.public = {name: identity.public for name, identity in identities.items()}
        self.roster, self.list = Roster(self.public), folder / "roster.json"
        self.list.write_text(self.roster.to_json())
        self.configs = []
        for name, identity in identities.items():
            file = folder / f"{name}.key"
            file.write_bytes(identity.to_bytes())
            file.chmod(0o600)
            self.configs.append({"drift-identity": str(file), "drift-roster": str(self.list)})
        self.key = folder / "hospital-0.key"
        """The first node's."""
        self.app = app_of(secure_sum=PinnedByNode())

    def run(self, message: Message, context: Context) -> Message:
        context.node_config.update(self.configs[context.node_config["partition-id"]])
        return self.app(message, context)

    def context(self) -> Context:
        """The first node's."""
        return Context(1, 1000, self.configs[0], RecordDict(), {})

    def check(self, roster: Roster | None = None):
        trust = Distributed(epsilon=3.0, min_clients=3)
        summing = SecureSum(roster=roster or self.roster)
        return KLDrift(REFERENCE, trust, aggregation=summing).check(InProcessGrid(self.run, 5))


@pytest.fixture
def hospitals(tmp_path):
    return Hospitals(tmp_path)


def identities_of(run, challenge: bytes = bytes(32)) -> ConfigRecord:
    """What a node answers when it is asked how it signs."""
    grid = InProcessGrid(run, 1)
    content = RecordDict({"challenge": ConfigRecord({"challenge": challenge})})
    message = Message(content, 1000, "query.drift_identity")
    (reply,) = grid.send_and_receive([message])
    return reply.content["answer"]


def test_five_nodes_with_one_app_and_a_key_each(hospitals):
    report = hospitals.check()
    assert (report.cohort.asked, report.cohort.survivors, report.cohort.dropouts) == (5, 5, {})
    assert abs(report.reading.estimate - TRUTH) < FAR * report.reading.error.privacy + 0.02


def test_a_nodes_name_is_the_one_that_the_list_has_for_its_key(hospitals):
    answer = identities_of(hospitals.run)
    ((member, (name, key, proof)),) = json.loads(answer["signers"]).items()
    assert (member, name, key) == ("0", "hospital-0", hospitals.public["hospital-0"].hex())
    signed = claim_text(bytes(32), "1000:0", "hospital-0")
    Roster(hospitals.public).verify(0, bytes.fromhex(proof), signed)
    assert json.loads(answer["refused"]) == []


@pytest.mark.parametrize("challenge", [b"x", bytes(31), bytes(33), "x" * 32, 7])
def test_a_node_signs_no_other_challenge(hospitals, challenge):
    answer = identities_of(hospitals.run, challenge)
    assert json.loads(answer["signers"]) == {}
    assert "the challenge is not 32 bytes" in answer["refused"]


def test_a_server_with_another_list_is_refused(hospitals):
    other = Roster({**hospitals.public, "hospital-5": Identity.generate().public})
    with pytest.raises(CheckFailed, match="pinned"):
        hospitals.check(other)


def without(key):
    return lambda hospitals: hospitals.configs[0].pop(key)


def named(key, place):
    return lambda hospitals: hospitals.configs[0].update({key: place})


def other_key(hospitals):
    hospitals.key.write_bytes(Identity.generate().to_bytes())


SPOILT = [
    (
        without("drift-identity"),
        "drift-identity",
    ),
    (
        without("drift-roster"),
        "drift-roster",
    ),
    (named("drift-identity", "node.key"), "signing"),
    (named("drift-identity", 7), "signing"),
    (named("drift-roster", "./roster.json"), "roster"),
    (named("drift-identity", "/a\0b"), "signing"),
    (lambda hospitals: hospitals.key.unlink(), "signing"),
    (lambda hospitals: hospitals.key.chmod(0o604), "signing"),
    (lambda hospitals: hospitals.key.chmod(0o640), "signing"),
    (lambda hospitals: hospitals.key.write_bytes(bytes(31)), "signing"),
    (lambda hospitals: hospitals.list.unlink(), "roster"),
    (lambda hospitals: hospitals.list.write_text("[]"), "roster"),
    (lambda hospitals: hospitals.list.write_bytes(b"\xff"), "roster"),
    (other_key, "signing"),
]


@pytest.mark.parametrize(("spoil", "reason"), SPOILT)
def test_files_that_are_no_use_are_refused_in_words(hospitals, spoil, reason):
    spoil(hospitals)
    members, context = PinnedByNode(), hospitals.context()
    for ask in (members.name, members.identity):
        with pytest.raises(QueryRefused, match=reason):
            ask(context, 0)
    with pytest.raises(QueryRefused, match=reason):
        members.roster(context, hospitals.roster.fingerprint.hex())
    answer = identities_of(hospitals.run)
    assert json.loads(answer["signers"]) == {}
    assert reason in answer["refused"]
    assert str(hospitals.key.parent) not in answer["refused"]


def test_the_operators_log_says_which_file_and_why(hospitals, caplog):
    hospitals.key.chmod(0o604)
    with caplog.at_level(logging.ERROR), pytest.raises(QueryRefused):
        PinnedByNode().identity(hospitals.context(), 0)
    assert str(hospitals.key) in caplog.text
    assert "others may read it: set its mode to 0600" in caplog.text


def test_a_key_that_is_not_listed_is_refused_with_what_to_list(hospitals):
    other_key(hospitals)
    public = Identity(hospitals.key.read_bytes()).public.hex()
    with pytest.raises(QueryRefused, match=public):
        PinnedByNode().identity(hospitals.context(), 0)


def test_the_others_go_on_without_a_node_whose_key_is_no_use(hospitals):
    hospitals.key.chmod(0o644)
    report = hospitals.check()
    assert (report.cohort.asked, report.cohort.survivors) == (5, 4)
    assert sum(report.cohort.dropouts.values()) == 1


def test_the_server_says_which_key_all_node_configs_lack(hospitals):
    for config in hospitals.configs:
        config.clear()
    monitor = KLDrift(REFERENCE, Distributed(epsilon=3.0, min_clients=3), aggregation=SecureSum())
    with pytest.raises(CheckFailed) as failed:
        monitor.check(InProcessGrid(hospitals.run, 5))
    assert str(failed.value) == (
        "no client takes part in secure sums: 5: refused: this node's signing key must be named in "
        "the node config by its absolute path, under drift-identity"
    )


def test_a_list_that_changes_during_a_sum_ends_it_for_the_node(hospitals):
    phases, run = [], hospitals.run

    def spoil(message, context):
        if context.node_id == 1000 and "phase" in message.content:
            phases.append(1)
            if len(phases) == 3:
                hospitals.configs[0]["drift-roster"] += ".gone"
        return run(message, context)

    hospitals.run = spoil
    report = hospitals.check()
    assert report.cohort.survivors == 4
    (reason,) = report.cohort.dropouts
    assert reason.startswith("refused: QueryRefused: this node's roster cannot be read")


def test_what_breaks_while_a_key_is_looked_up_is_said_by_type_only(caplog):
    class Forgetful(FirstUse):
        def identity(self, context, member):
            raise KeyError("measles")

    answer = identities_of(app_of(secure_sum=Forgetful()))
    assert json.loads(answer["signers"]) == {}
    assert json.loads(answer["refused"]) == ["the client cannot sign (KeyError)"]
    assert "measles" not in caplog.text
