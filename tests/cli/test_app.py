"""The commands together: what is there, what it needs, and how it ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import version
from io import BytesIO, TextIOWrapper

import pytest

from flwr_kld import Labels, Reference
from flwr_kld.cli import show
from flwr_kld.cli.app import COMMANDS, load, main


def test_the_version_is_that_of_the_package(cli):
    done = cli("--version")
    assert (done.exit_code, done.stdout.split()) == (0, ["flwr-kld", version("flwr-kld")])


def test_a_shell_completes_commands(cli, environment):
    for name, value in (("", "complete_bash"), ("COMP_WORDS", "flwr-kld rec"), ("COMP_CWORD", "1")):
        environment[name or "_FLWR_KLD_COMPLETE"] = value
    assert cli().stdout.split() == ["receipts"]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_commands_first_paragraph_is_in_the_list_of_all(cli, name):
    words = load(name).help.split("\n\n")[0]
    assert words == COMMANDS[name][1]
    assert words in " ".join(cli("--help").stdout.split())


@pytest.mark.parametrize(
    ("words", "environment"),
    [
        (["--help"], {}),
        (["--version"], {}),
        (
            [],
            {
                "_FLWR_KLD_COMPLETE": "complete_bash",
                "COMP_WORDS": "flwr-kld re",
                "COMP_CWORD": "1",
            },
        ),
    ],
    ids=["help", "version", "completion"],
)
def test_what_runs_no_command_loads_none(words, environment):
    code = (
        "import sys, atexit\nfrom flwr_kld.cli.app import main\n"
        "atexit.register(lambda: print(*sorted(sys.modules), file=sys.stderr))\nmain()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        capture_output=True, text=True, env={**os.environ, **environment},
    )  # fmt: skip
    assert (done.returncode, done.stdout != "") == (0, True)
    loaded = set(done.stderr.split())
    assert not {"numpy", "sqlalchemy", "pydantic", "scipy", "rich.markdown"} & loaded
    assert {name for name in loaded if name.startswith("flwr_kld.cli.")} == {
        "flwr_kld.cli.app", "flwr_kld.cli.common",
    }  # fmt: skip


@pytest.mark.parametrize("arguments", [["unknown"], ["report", "--last", "none"], ["reference"]])
def test_a_wrong_line_is_no_drift_and_not_inconclusive(cli, arguments):
    assert cli(*arguments).exit_code == 4


@pytest.mark.parametrize(
    ("raised", "code", "said"),
    [
        (RuntimeError("the disk is full"), 4, "error: the disk is full"),
        (KeyError("internal"), 4, "please report it"),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_how_a_command_ends(cli, monkeypatch, raised, code, said):
    def broken(url: str) -> None:
        raise raised

    monkeypatch.setattr(show, "existing_ledger", broken)
    done = cli("report")
    assert done.exit_code == code
    assert said in done.stderr
    assert ("Traceback" in done.stderr) == isinstance(raised, KeyError)
    assert done.stdout == ""


@pytest.mark.parametrize("more", [[], ["--json"]])
def test_a_reader_who_leaves_early_is_no_drift(tmp_path, more):
    file = tmp_path / "reference.json"
    Reference.from_counts(Labels(["bus", "car"]), [1, 1]).save(file)
    reading, writing = os.pipe()
    os.close(reading)
    code = "from flwr_kld.cli.app import main; main()"
    command = [sys.executable, "-c", code, "reference", "show", str(file), *more]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE)
    os.close(writing)
    assert done.returncode not in (0, 1, 2, 3)
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("more", [[], ["--json"]])
def test_a_locale_without_the_signs_gets_marks_and_sound_json(tmp_path, monkeypatch, more):
    file, written = tmp_path / "reference.json", BytesIO()
    Reference.from_counts(Labels(["Straßenbahn", "car"]), [1, 1]).save(file)
    monkeypatch.setattr(sys, "argv", ["flwr-kld", "reference", "show", str(file), *more])
    monkeypatch.setattr(sys, "stdout", TextIOWrapper(written, encoding="ascii"))
    with pytest.raises(SystemExit) as end:
        main()
    sys.stdout.flush()
    assert not end.value.code
    if more:
        assert "Straßenbahn" in {one["name"] for one in json.loads(written.getvalue())["heaviest"]}
    else:
        assert b"Stra?enbahn" in written.getvalue()


def test_the_help_says_what_an_argument_is():
    """Click 8.5 and the Typer that Flower allows would leave it out."""
    arguments = {
        (name, parameter.name): parameter.help
        for name in COMMANDS
        for parameter in load(name).params
        if parameter.param_type_name == "argument"
    }
    assert arguments["plan", "reference"] == "Reference that was saved, .json."
    assert all(arguments.values())
