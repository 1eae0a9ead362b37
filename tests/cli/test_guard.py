"""``flwr-kld guard check`` and ``receipts``: what an operator and an auditor see of a node."""

import json
import re
from datetime import datetime
from pathlib import Path

import pytest
from guard.files import guard_file, question

from flwr_kld.common.errors import QueryRefused
from flwr_kld.guard.guard import Guard


@pytest.fixture
def node(tmp_path):
    """The guard file of a node that answered two checks of one client, and one of another."""
    file = guard_file(tmp_path)
    guard = Guard.from_file(file)
    for check, account in (("monday", "0"), ("tuesday", "0"), ("tuesday", "1")):
        guard.admit(question(check), account)
    return file


def test_a_guard_file_is_sound_before_the_first_check(cli, tmp_path):
    done = cli("guard", "check", guard_file(tmp_path))
    assert (done.exit_code, "nothing answered yet" in done.stdout) == (0, True)
    assert [file.name for file in tmp_path.iterdir()] == ["guard.toml"]  # it makes no key


def test_what_is_left_is_that_of_the_client_charged_most(cli, node):
    before = {file.name: file.read_bytes() for file in node.parent.iterdir()}
    done = cli("guard", "check", node)
    assert done.exit_code == 0, done.stderr
    assert "3 checks answered" in done.stdout
    assert "epsilon 1 of 3" in done.stdout
    assert {name: node.with_name(name).read_bytes() for name in before} == before


def test_a_file_whose_only_check_was_refused_has_all_left(cli, tmp_path):
    file = guard_file(tmp_path, ("max_epsilon = 3.0", "max_epsilon = 0.5"))
    with pytest.raises(QueryRefused, match="has left"):
        Guard.from_file(file).admit(question("monday"), "0")
    done = cli("guard", "check", file)
    assert done.exit_code == 0, done.stderr
    assert "more from" not in done.stdout


def test_it_says_when_the_next_part_of_the_budget_is_free(cli, node):
    Guard.from_file(node).admit(question("wednesday"), "0")
    said = re.search(
        r"epsilon 0 of 3, .*; more from (.*) UTC on", cli("guard", "check", node).stdout
    )
    free = datetime.fromisoformat(f"{said[1]}+00:00").timestamp()
    later = question("later", until=int(free) + 60)
    with pytest.raises(QueryRefused, match="has left"):
        Guard.from_file(node, clock=lambda: free - 120).admit(later, "0")
    Guard.from_file(node, clock=lambda: free).admit(later, "0")


@pytest.mark.parametrize(
    ("spoil", "named"),
    [
        (lambda node: guard_file(node.parent, ("min_asked = 5", "")), "min_asked"),
        (lambda node: guard_file(node.parent, ('key = "node.key"', 'key = "k"')), "restore"),
        (lambda node: node.with_name("node.key").chmod(0o644), "0600"),
        (lambda node: node.with_name("receipts.db").write_bytes(b"not a database"), "receipts.db"),
        (lambda node: node.unlink(), "guard.toml"),
        (
            lambda node: guard_file(
                node.parent, ('key = "node.key"', 'key = "node.key"\nprotects = "client"')
            ),
            "protects each record",
        ),
    ],
)
def test_what_would_make_the_node_refuse_every_check_is_named(cli, node, spoil, named):
    spoil(node)
    done = cli("guard", "check", node)
    assert (done.exit_code, "Traceback" in done.output) == (4, False)
    assert named in done.stderr


def test_a_refusal_leaves_no_receipt_and_the_audit_says_so(cli, tmp_path, node):
    (tmp_path / "other").mkdir(mode=0o700)
    file = guard_file(tmp_path / "other", ("min_asked = 5", "min_asked = 50"))
    with pytest.raises(QueryRefused):
        Guard.from_file(file).admit(question("monday"), "0")
    receipts = file.with_name("receipts.db")
    assert not receipts.exists()
    assert "nothing answered" in cli("guard", "check", file).stdout
    done = cli("receipts", receipts)
    assert (done.exit_code, "no receipt" in done.stderr.replace("\n", " ")) == (4, True)
    answered = cli("receipts", node.with_name("receipts.db")).stdout
    assert {"3", "refused", "receipt,"} <= set(answered.split())


def test_receipts_are_listed_and_summed(cli, node):
    file = node.with_name("receipts.db")
    done = cli("receipts", file)
    assert done.exit_code == 0, done.stderr
    assert done.stdout.count("tuesday") == 2
    assert "epsilon 3 in all" in done.stdout
    listed = json.loads(cli("receipts", file, "--json").stdout)
    assert [(one["check"], one["account"]) for one in listed] == [
        ("monday", "0"), ("tuesday", "0"), ("tuesday", "1"),
    ]  # fmt: skip


def test_an_auditor_holds_receipts_against_a_key_and_an_earlier_head(cli, node):
    file = node.with_name("receipts.db")
    *_, signed, following = cli("receipts", file).stdout.splitlines()
    public, head = signed.split()[-1], following.split()[-1]
    assert cli("receipts", file, "--public", public, "--head", head).exit_code == 0
    for option in ("--public", "--head"):
        for other in ("0" * 64, "not-hex"):
            done = cli("receipts", file, option, other)
            assert (done.exit_code, "Traceback" in done.output) == (4, False)


@pytest.mark.parametrize("file", [Path("nowhere.db"), Path(__file__)])
def test_a_file_that_holds_no_receipts_is_named(cli, file):
    done = cli("receipts", file)
    assert (done.exit_code, file.name in done.stderr) == (4, True)
    assert "Traceback" not in done.output


TRAINING = """
[training]
max_rounds = 3
days = 7
max_epsilon = 4.0
max_delta = 1e-9
"""


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("", ["no round"]),
        (TRAINING, ["3 rounds in any 7 days", "epsilon 4 at delta 1e-09", "the server claims"]),
        (TRAINING + "own_clipping_norm = 1.0", ["3 rounds", "this node adds"]),
    ],
)
def test_what_a_guard_file_says_of_training_is_said_in_words(cli, tmp_path, more, said):
    done = cli("guard", "check", guard_file(tmp_path, more=more))
    assert done.exit_code == 0, done.stderr
    (line,) = [line for line in done.stdout.splitlines() if "training: " in line]
    assert all(words in line for words in said), line


def test_rounds_are_listed_beside_checks_and_not_added_to_their_epsilon(cli, node):
    guard = Guard.from_file(guard_file(node.parent, more=TRAINING))
    guard.admit_round("a message's id", 8.0, "0")
    assert "3 checks and 1 round of training answered" in cli("guard", "check", node).stdout
    assert "epsilon 1 of 3" in cli("guard", "check", node).stdout
    file = node.with_name("receipts.db")
    shown = cli("receipts", file).stdout
    assert "epsilon 3 in all" in shown
    assert "1 round of training" in shown
    *_, last = json.loads(cli("receipts", file, "--json").stdout)
    assert (last["trust"], last["terms"]) == ("training: claimed noise", "noise multiplier 8.0")
