"""The commands of chart, Compose file and units are those that there are."""

import re
import shlex
import subprocess
from functools import cache

import pytest
from chart import pods, rendered
from click.testing import CliRunner
from compose_processes import DEPLOY, services
from flower_deployment import BIN
from typer.main import get_command

from flwr_kld.cli.app import app

UNITS = sorted((DEPLOY / "systemd").iterdir())


def commands() -> dict[str, list[str]]:
    """Command lines by where they are."""
    found = {}
    for template in pods(rendered("federation")):
        for container in template["spec"]["containers"]:
            found[f"helm {container['name']}"] = container["command"] + container["args"]
    found |= {f"compose {name}": s["command"] for name, s in services().items() if "command" in s}
    for unit in UNITS:
        text = unit.read_text().replace("\\\n", " ")
        for line in re.findall("^ExecStart=/opt/flwr-kld/bin/(.*)", text, re.MULTILINE):
            found[f"systemd {unit.name}"] = shlex.split(line)
    return found


@cache
def options(program: str) -> set[str]:
    said = subprocess.run([BIN / program, "--help"], capture_output=True, text=True, check=True)
    return set(re.findall(r"--[\w-]+", said.stdout))


def lines(command: list[str]) -> list[list[str]]:
    """The commands of ours and of Flower in a command line, or in a shell's script."""
    if command[0] != "sh":
        return [command]
    ours = (line.strip() for line in command[-1].splitlines())
    return [shlex.split(line) for line in ours if line.startswith("flwr-kld ")]


def test_every_command_has_its_options():
    for place, command in commands().items():
        for program, *given in lines(command):
            asked = {word.partition("=")[0] for word in given if word.startswith("--")}
            if program in ("flower-superlink", "flower-supernode"):
                assert asked <= options(program), place
            elif program == "flwr-kld":
                done = CliRunner().invoke(get_command(app), [*given, "--help"])
                assert done.exit_code == 0, (place, done.output)
            else:
                assert place == "compose prometheus", place


def test_nvflare_cannot_start_a_supernode():
    """The docs say so until Flower has the option again."""
    assert "--grpc-adapter" not in options("flower-supernode")


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_unit_is_one_of_systemd(unit, tmp_path):
    text = re.sub("/opt/flwr-kld/bin/[a-z-]+", "/bin/true", unit.read_text())
    (tmp_path / unit.name).write_text(text)
    command = ["systemd-analyze", "verify", "--man=no", tmp_path / unit.name]
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip("no systemd here")
    assert (done.returncode, done.stderr) == (0, "")


def test_what_compose_mounts_is_there_or_made():
    made = ("keys/", "records/")
    for name, service in services().items():
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            if source.startswith("./") and not source.removeprefix("./").startswith(made):
                assert (DEPLOY / source).exists(), (name, source)
