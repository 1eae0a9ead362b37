"""A client's app starts anew for every message: it must not load the server's side."""

import subprocess
import sys


def loaded_by(code: str) -> set[str]:
    """Modules of a fresh interpreter."""
    command = [sys.executable, "-P", "-c", f"{code}\nimport sys\nprint(*sys.modules)"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return set(done.stdout.split())


def test_a_client_loads_nothing_of_the_server():
    loaded = loaded_by("import flwr_kld.clients")
    assert "flwr_kld.clients.aggregator" in loaded
    assert not {name for name in loaded if name.startswith("flwr_kld.strategies")}
    assert not {"scipy", "flwr_kld.estimate"} & loaded
    flower = loaded_by("import flwr.app, flwr.clientapp")  # they load flwr.serverapp by themselves
    assert {name for name in loaded if name.split(".")[0] == "flwr"} <= flower
