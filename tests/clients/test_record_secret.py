"""What salts a client's record ids: its own, the same in every check, and kept on its node."""

import os
from pathlib import Path

import pytest
from flwr.app import Context, RecordDict

from flwr_kld.clients.record_secret import record_secret
from flwr_kld.errors import QueryRefused

GUARD = """
receipts = "receipts.db"
key = "node.key"
[allow]
trust = ["trusted"]
domains = "any"
references = "any"
[check]
max_epsilon = 1
max_delta = 0
min_asked = 1
[period]
days = 30
max_epsilon = 1
max_delta = 0
"""


def node(number: int = 0, **config: str) -> Context:
    """A node at the start of a run: it remembers nothing."""
    config |= {"partition-id": number, "num-partitions": 9}
    return Context(1, 1000 + number, config, RecordDict(), {})


def test_a_file_outlasts_runs_and_members_differ(tmp_path: Path):
    file = tmp_path / "salt"
    secrets = [record_secret(node(n, **{"drift-salt": str(file)}), 0) for n in (0, 0, 1)]
    assert secrets[0] == secrets[1] != secrets[2]
    assert file.stat().st_mode & 0o077 == 0 or os.name != "posix"
    assert file.read_bytes() not in secrets


def test_a_guard_needs_no_other_file(tmp_path: Path):
    (tmp_path / "guard.toml").write_text(GUARD)
    config = {"drift-guard": str(tmp_path / "guard.toml")}
    one, again = (record_secret(node(**config), 0) for _ in range(2))
    assert one == again != (tmp_path / "node.key").read_bytes()


def test_a_rotation_needs_a_secret_that_lasts():
    with pytest.raises(QueryRefused, match="drift-salt"):
        record_secret(node(), 0)


@pytest.mark.parametrize("trouble", ["relative", "short", "readable", "nowhere"])
def test_a_file_that_cannot_be_used_is_refused_and_never_replaced(tmp_path: Path, trouble, caplog):
    file = tmp_path / "salt"
    file.write_bytes(b"short" if trouble == "short" else b"s" * 32)
    file.chmod(0o644 if trouble == "readable" else 0o600)
    place = {"relative": "salt", "nowhere": str(tmp_path / "no" / "salt")}.get(trouble, str(file))
    kept = file.read_bytes()
    with pytest.raises(QueryRefused, match="the operator's log says why") as refused:
        record_secret(node(**{"drift-salt": place}), 0)
    assert str(tmp_path) not in str(refused.value)
    assert "drift-salt" in caplog.text
    assert file.read_bytes() == kept
