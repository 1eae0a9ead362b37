"""``flwr-kld doctor APP CONNECTION`` asks nodes for their versions and reads one form alone."""

from __future__ import annotations

import json
import re
import tomllib
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, RecordDict

from flwr_kld.cli import doctor
from flwr_kld.cli.doctor import Installed, _Heard
from flwr_kld.ledger import Ledger
from flwr_kld.simulations.in_process_grid import InProcessGrid
from flwr_kld.trust.terms import VERSION

OWN = {"flwr": version("flwr"), "flwr_kld": version("flwr-kld"), "messages": VERSION, "keys": ""}
MARK = doctor._MARK


def asked_app(folder: Path) -> dict[str, Any]:
    """The app that asks, as doctor writes it."""
    doctor._write(folder, {})
    code: dict[str, Any] = {}
    exec((folder / "asked" / "versions.py").read_text(), code)
    return code


def said_by(app: dict[str, Any], node: Any, nodes: int, capsys: Any) -> _Heard:
    grid = InProcessGrid(node, nodes)
    context = Context(run_id=1, node_id=1, node_config={}, state=RecordDict(), run_config={})
    app["server"]._main(grid, context)
    heard = _Heard()
    for line in capsys.readouterr().out.splitlines():
        heard.hear(f"INFO :      {line}")
    return heard


def test_nodes_say_their_versions_and_nothing_else(tmp_path, capsys):
    app = asked_app(tmp_path)
    heard = said_by(app, app["client"], 3, capsys)
    same = Installed(**OWN)
    assert (heard.server, heard.nodes) == (same, dict.fromkeys((1000, 1001, 1002), same))
    assert heard.asked == [1000, 1001, 1002]


def test_who_answers_for_a_node_that_is_late_is_no_node(tmp_path, capsys):
    app = asked_app(tmp_path)
    node = app["client"]

    class Late(InProcessGrid):
        def send_and_receive(self, messages, **options):
            first, *rest = super().send_and_receive(messages, **options)
            first.metadata._src_node_id = 1  # as a SuperLink's
            return [first, *rest]

    context = Context(run_id=1, node_id=1, node_config={}, state=RecordDict(), run_config={})
    app["server"]._main(Late(node, 3), context)
    heard = _Heard()
    for line in capsys.readouterr().out.splitlines():
        heard.hear(f"INFO :      {line}")
    assert sorted(heard.nodes) == [1001, 1002]


LIES: dict[str, RecordDict | Exception] = {
    "nothing": RecordDict(),
    "another record": RecordDict({"versions": ArrayRecord()}),
    "a field less": RecordDict({"versions": ConfigRecord({"flwr": "1", "messages": 8})}),
    "a field more": RecordDict({"versions": ConfigRecord({**OWN, "more": "x"})}),
    "a number as text": RecordDict({"versions": ConfigRecord({**OWN, "messages": "8"})}),
    "a real number": RecordDict({"versions": ConfigRecord({**OWN, "messages": 8.0})}),
    "truth": RecordDict({"versions": ConfigRecord({**OWN, "messages": True})}),
    "bytes": RecordDict({"versions": ConfigRecord({**OWN, "flwr": b"1.41"})}),
    "markup": RecordDict({"versions": ConfigRecord({**OWN, "flwr": "[bold]1[/]"})}),
    "an escape": RecordDict({"versions": ConfigRecord({**OWN, "flwr": "\x1b[2J"})}),
    "another's line": RecordDict(
        {"versions": ConfigRecord({**OWN, "flwr": f"1\n{MARK} 1001 {json.dumps(OWN)}"})}
    ),
    "the server's line": RuntimeError(f"\n{MARK} server {json.dumps(OWN)}\n{MARK} asked []"),
    "keys in another form": RecordDict({"versions": ConfigRecord({**OWN, "keys": "Drift"})}),
    "keys as a list": RecordDict({"versions": ConfigRecord({**OWN, "keys": ["drift-guard"]})}),
    "megabytes": RecordDict({"versions": ConfigRecord({**OWN, "flwr": "1" * 2**20})}),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_is_named_as_its_own_nodes_and_is_no_other_line(lie, tmp_path, capsys):
    app = asked_app(tmp_path)

    def node(message: Message, context: Context) -> Message:
        if context.node_id != 1000:
            return app["client"](message, context)
        told = LIES[lie]
        if isinstance(told, Exception):
            raise told
        return Message(told, reply_to=message)

    heard = said_by(app, node, 2, capsys)
    assert heard.asked == [1000, 1001]
    assert heard.server == heard.nodes[1001] == Installed(**OWN)
    assert sorted(heard.nodes) == [1000, 1001]
    assert isinstance(told := heard.nodes[1000], str)
    assert len(told) <= 100
    assert told.isprintable()


def test_it_lists_what_the_app_lists_and_where_uv_finds_it(tmp_path):
    listed = ["flwr>=1.41", 'flwr-kld @ file:///srv/a "b".whl']
    uv = {"index": [{"name": "own", "url": "https://x/", "default": True}], "sources": {"a": {}}}
    doctor._write(tmp_path, {"project": {"dependencies": listed}, "tool": {"uv": uv}})
    written = tomllib.loads((tmp_path / "pyproject.toml").read_text())
    assert (written["project"]["dependencies"], written["tool"]["uv"]) == (listed, uv)
    assert written["tool"]["flwr"]["app"]["components"]["clientapp"] == "asked.versions:client"


def line(who: object, **changed: Any) -> str:
    text = json.dumps({**OWN, **changed}, sort_keys=True, separators=(",", ":"))
    return f"INFO :      {MARK} {who} {text}\n"


def log(*lines: str, asked: tuple[int, ...] = (7, 8)) -> str:
    return "".join((line("server"), *lines, f"{MARK} asked {json.dumps(asked)}\n"))


FOUND = {
    "all alike": (
        log(line(7), line(8)), 0, rf"ok   nodes: all 2: flwr-kld \S+, messages {VERSION},",
    ),
    "older messages": (
        log(line(7), line(8, flwr_kld="0.9", messages=7)), 4,
        rf"FAIL nodes: 1 of 2 \(8\): flwr-kld 0\.9, messages 7, .*messages are {VERSION}: checks "
        r"would leave them out\n +next: install flwr-kld \S+ on them, or theirs on all others",
    ),
    "no flwr-kld on a node": (
        log(line(7), line(8, flwr_kld="", messages=0)), 4,
        r"FAIL nodes: 1 of 2 \(8\): no flwr-kld, .*\n +next: install flwr-kld",
    ),
    "none on the server": (
        line("server", flwr_kld="", messages=0) + f"{MARK} asked [7]\n" + line(7), 4,
        r"FAIL server: no flwr-kld.*\n +next: pip install flwr-kld==\S+, where ServerApps run",
    ),
    "another release": (
        log(line(7), line(8, flwr_kld="1.0.1")), 0,
        r"warn nodes: 1 of 2 \(8\): .*the same messages, but secure sums.*\n +next: install the",
    ),
    "another release here": (
        line("server", flwr_kld="1.0.1") + line(7, flwr_kld="1.0.1") + f"{MARK} asked [7]\n", 0,
        r"warn server: flwr-kld 1\.0\.1.*\n +next: install the same flwr-kld beside this command",
    ),
    "a misspelt key": (
        log(line(7, keys="drift-gard,drift-records"), line(8)), 4,
        r"FAIL nodes: 1 of 2 \(7\): .*drift-gard\n +next: correct the key",
    ),
    "an error": (
        log(*(f'{MARK} {node} "not signed [x]"\n' for node in (8, 9)), asked=(7, 8, 9)), 4,
        r'FAIL nodes: 2 of 3 \(8, 9\) cannot answer: "not signed \[x\]"\n +next: look at these',
    ),
    "silence": (
        log(line(7)), 0,
        r"warn nodes: 1 of 2 \(8\) did not answer within 30 s\n +next: they may be busy",
    ),
    "many": (
        log(*map(line, range(10, 30)), asked=tuple(range(40))), 0,
        r"ok   nodes: 20 of 40 \(10, 11, 12, 13, 14, …\): ",
    ),
    "nobody": (log(asked=()), 4, r"FAIL nodes: none is connected\n +next: start one: flower-super"),
    "a log that breaks off": (
        line("server") + line(7), 4,
        r"FAIL nodes: the run that asks .* failed.*\n +next: flwr log 4711 prod",
    ),
}  # fmt: skip


@pytest.mark.parametrize("found", FOUND)
def test_what_nodes_have_is_held_against_the_server(cli, flwr, place, found):
    lines, code, words = FOUND[found]
    flwr.will("print", lines=lines)
    done = cli("doctor", place.app, "prod")
    assert done.exit_code == code, done.output
    assert re.search(words, done.stdout), done.stdout
    assert [call[0] for call in flwr.calls] == ["run"]
    assert Ledger(place.ledger).spent().epsilon == 0


def test_nobody_is_asked_without_a_connection_or_for_an_app_that_is_not_well(cli, flwr, place):
    flwr.will("print", lines=log(line(7), line(8)))
    assert cli("doctor", place.app).exit_code == 0
    place.change("app/pyproject.toml", "drift-check", "drift-chek")
    assert cli("doctor", place.app, "prod").exit_code == 4
    assert flwr.calls == []


def test_what_a_run_breaks_with_is_said(cli, flwr, place):
    flwr.will("print", lines="Traceback (most recent call last):\n  File x\nValueError: no")
    assert "failed: ValueError: no" in cli("doctor", place.app, "prod").stdout


def test_where_no_run_was_started_there_is_no_log_to_look_at(cli, flwr, place):
    flwr.will("misconnect")
    said = cli("doctor", place.app, "prod").stdout
    assert re.search(r"There is no connection 'prod'\.\n +next: correct this; a check", said)


def test_nodes_name_the_keys_of_their_node_configs_and_no_value(tmp_path, capsys):
    app = asked_app(tmp_path)

    def node(message: Message, context: Context) -> Message:
        context.node_config |= {"drift-records": "/srv/secret.csv", "drift_gaurd": "x", "else": 1}
        return app["client"](message, context)

    grid = InProcessGrid(node, 1)
    context = Context(run_id=1, node_id=1, node_config={}, state=RecordDict(), run_config={})
    app["server"]._main(grid, context)
    said = capsys.readouterr().out
    assert "secret" not in said
    heard = _Heard()
    for one in said.splitlines():
        heard.hear(one)
    assert heard.nodes[1000] == Installed(**{**OWN, "keys": "drift-records,drift_gaurd"})


SECURED = "from flwr_kld.clients import PinnedByNode\n"
KEYS = {
    "all that is read": ("drift-guard,drift-records", "", 0, r"ok   nodes: all 2: .*drift-records"),
    "no records": (
        "drift-guard", "", 4,
        r"FAIL nodes: all 2: .*drift-guard; the node config has no drift-records, which "
        r"node_records needs\n +next: start these nodes with it",
    ),
    "no roster": (
        "drift-identity,drift-records", SECURED, 4,
        r"has no drift-roster, which PinnedByNode needs",
    ),
    "an aggregator": ("drift-key,drift-role,drift-roster", SECURED, 0, r"ok   nodes: all 2"),
    "an aggregator without a roster": (
        "drift-key,drift-role", SECURED, 4, r"has no drift-roster, which an aggregator needs",
    ),
    "an aggregator without a key": ("drift-role", "", 4, r"no drift-key, which an aggregator"),
}  # fmt: skip


@pytest.mark.parametrize("aggregators", [0, 1, 2])
def test_checks_of_two_aggregators_need_both(cli, flwr, place, aggregators):
    server = place.app / "app" / "server_app.py"
    server.write_text(f"{server.read_text()}\nfrom flwr_kld.strategies import TwoAggregators\n")
    keys = ["drift-records"] + ["drift-key,drift-role"] * aggregators
    lines = [line(node, keys=own) for node, own in enumerate(keys, start=7)]
    flwr.will("print", lines=log(*lines, asked=tuple(range(7, 7 + len(keys)))))
    done = cli("doctor", place.app, "prod", "--run-config", 'drift-sample=""')
    assert done.exit_code == (0 if aggregators == 2 else 4), done.output
    words = f"FAIL aggregators: {aggregators} of the 2 that"
    assert (words in done.stdout) is (aggregators < 2)


def test_where_one_client_can_lie_the_way_out_is_named(cli, place):
    server = place.app / "app" / "server_app.py"
    server.write_text(f"{server.read_text()}\nfrom flwr_kld.strategies import SecureSum\n")
    done = cli("doctor", place.app)
    assert done.exit_code == 0
    assert re.search(r"warn trust: .*\n +next: TwoAggregators", done.stdout)


@pytest.mark.parametrize("found", KEYS)
def test_the_keys_of_nodes_are_held_against_what_the_app_reads(cli, flwr, place, found):
    keys, more, code, words = KEYS[found]
    client = place.app / "app" / "client_app.py"
    client.write_text(f"{client.read_text()}\n{more}")
    flwr.will("print", lines=log(line(7, keys=keys), line(8, keys=keys)))
    real = ("--run-config", 'drift-sample=""')
    done = cli("doctor", place.app, "prod", *real)
    assert done.exit_code == code, done.output
    assert re.search(words, done.stdout), done.stdout
