"""The README's drop-in recipe runs as it stands."""

import re

import pytest
from flwr.app import Context, Message, RecordDict
from readme import README, recipe_text

from flwr_kld.simulations.in_process_grid import InProcessGrid


def recipe(name: str) -> dict[str, object]:
    """Run one of the README's files and return its names."""
    names: dict[str, object] = {}
    exec(compile(recipe_text(name), name, "exec"), names)
    return names


@pytest.fixture
def grid():
    return InProcessGrid(recipe("client_app.py")["app"], nodes=40)


def test_the_server_recipe_checks_the_clients_of_the_client_recipe(grid, capsys):
    app = recipe("server_app.py")["app"]
    context = Context(run_id=1, node_id=1, node_config={}, state=RecordDict(), run_config={})
    app(grid, context)
    printed = capsys.readouterr().out
    assert "KL(reference || clients) = " in printed
    assert "20 of 20 clients, 2000 records" in printed
    assert float(printed.splitlines()[-1]) > 0


def test_the_client_recipe_still_trains(grid):
    (reply,) = grid.send_and_receive([Message(RecordDict(), 1000, "train")])
    assert reply.content["metrics"]["loss"] == 0.1


def test_every_command_names_a_file_that_exists():
    text = README.read_text()
    for path in set(re.findall(r"simulations/[\w/]+(?:\.py)?", text)):
        assert (README.parent / path).exists(), path
