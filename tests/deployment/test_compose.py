"""The federation of deploy/compose.yaml as processes: each service is killed and started again.

No container runs here, and no Grafana, which neither Debian nor the package index has. PostgreSQL
and Prometheus are Debian's.
"""

import base64
import json
import os
import re
import shutil
import ssl
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from compose_processes import DEPLOY, Processes, interpolated, services
from recipes import ROOT

pytestmark = pytest.mark.slow
CLINICS = ("clinic-a", "clinic-b", "clinic-c")
RUNNING = [name for name in services() if name not in ("register", "grafana")]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    for program in ("docker-compose", "prometheus", "pg_isready", "openssl", "ssh-keygen", "wget"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is missing: tests/deployment/compose.sh installs it")
    running = Processes(tmp_path_factory.mktemp("compose"))
    try:
        path = {**os.environ, "PATH": running.path}
        subprocess.run([DEPLOY / "make_keys.sh", running.deploy / "keys"], env=path, check=True)
        folders = [running.deploy / "records" / clinic for clinic in CLINICS]
        made_up = [running.programs / "python", ROOT / "tests" / "example_trips.py", *folders]
        subprocess.run(made_up, check=True)
        yield running
    finally:
        running.stop()


@pytest.fixture(scope="module")
def federation(prepared: Processes) -> Processes:
    prepared.up_all()
    return prepared


def check(federation: Processes, key: str) -> None:
    done = federation.run(
        "watch", "flwr-kld", "check", "/srv/drift-app", "prod", "--key", key, "--json"
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    report = json.loads(done.stdout)["report"]
    assert report["protection"]["trust"] == "two-aggregators"
    assert (report["cohort"]["asked"], report["cohort"]["survivors"]) == (3, 3)
    assert report["verdict"]["outcome"] == "no drift"


def test_docker_compose_reads_the_same_commands_and_environment(prepared: Processes):
    done = subprocess.run(
        ["docker-compose", "--file", prepared.deploy / "compose.yaml", "config"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    read = interpolated(yaml.safe_load(done.stdout))["services"]
    assert read.keys() == prepared.services.keys()
    for name, service in prepared.services.items():
        assert read[name].get("command") == service.get("command"), name
        given = prepared.given_environment(name)
        assert read[name].get("environment", {}).items() <= given.items(), name


def test_a_check_runs(federation: Processes):
    check(federation, "first")


@pytest.mark.parametrize("name", RUNNING)
def test_a_service_may_be_killed_between_two_checks(federation: Processes, name: str):
    federation.kill(name)
    federation.up(name)
    check(federation, f"after-{name}")


def test_every_service_is_up_in_the_end(federation: Processes):
    assert [name for name in RUNNING if not federation.healthy(name)] == []
    page = Path(federation.deploy / "keys" / "page")
    token = base64.b64encode(f"kld:{(page / 'token').read_text().strip()}".encode()).decode()
    asked = urllib.request.Request(
        f"https://localhost:{federation.ports['8600']}/",
        headers={"Authorization": f"Basic {token}"},
    )
    trusted = ssl.create_default_context(cafile=federation.deploy / "keys" / "authority" / "ca.crt")
    with urllib.request.urlopen(asked, context=trusted) as answer:
        assert re.search(r"\bCheck \d+,", answer.read().decode())
    query = f"http://127.0.0.1:{federation.ports['9090']}/api/v1/query?query=up"
    with urllib.request.urlopen(query) as answer:
        (target,) = json.load(answer)["data"]["result"]
    assert target["value"][1] == "1"
