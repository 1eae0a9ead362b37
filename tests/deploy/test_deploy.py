"""The manifests hold Kubernetes' own schemas, and the commands in them are those that there are."""

import re
import shlex
import subprocess
from typing import Any

import kubernetes_validate
import pytest
import yaml
from click.testing import CliRunner
from flower_deployment import BIN
from recipes import ROOT
from typer.main import get_command

from flwr_kld.cli.app import app

DEPLOY = ROOT / "deploy"
RESOURCES = [
    pytest.param(resource, id=f"{path.stem}-{resource['kind']}")
    for path in sorted(DEPLOY.glob("kubernetes/*.yaml"))
    for resource in yaml.safe_load_all(path.read_text())
]
OLDEST = "1.31"
"""Of Kubernetes: pod failure policies are stable from there on."""


@pytest.mark.parametrize("resource", RESOURCES)
@pytest.mark.parametrize("version", [OLDEST, kubernetes_validate.latest_version()])
def test_a_resource_is_one_of_kubernetes(resource: dict[str, Any], version: str):
    kubernetes_validate.validate(resource, version, strict=True)


def test_a_misspelt_field_is_found():
    (resource,) = (param.values[0] for param in RESOURCES if param.id == "check-CronJob")
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(
            {**resource, "spec": {**resource["spec"], "timezone": "UTC"}}, OLDEST, strict=True
        )


def containers(part: Any) -> list[dict[str, Any]]:
    """All containers, wherever they are."""
    if isinstance(part, list):
        return [found for item in part for found in containers(item)]
    if not isinstance(part, dict):
        return []
    return part.get("containers", []) + containers(list(part.values()))


CONTAINERS = {
    container["name"]: container for param in RESOURCES for container in containers(param.values[0])
}


@pytest.mark.parametrize("name", ["superlink", "supernode"])
def test_flower_has_these_options(name: str):
    (program,), arguments = CONTAINERS[name]["command"], CONTAINERS[name]["args"]
    asked = {argument.partition("=")[0] for argument in arguments if argument.startswith("--")}
    said = subprocess.run([BIN / program, "--help"], capture_output=True, text=True, check=True)
    assert asked <= set(re.findall(r"--[\w-]+", said.stdout))


def test_the_check_is_a_command_of_ours():
    script = CONTAINERS["check"]["args"][0]
    (line,) = (line for line in script.splitlines() if line.startswith("flwr-kld "))
    asked = CliRunner().invoke(get_command(app), [*shlex.split(line)[1:], "--help"])
    assert asked.exit_code == 0, asked.output
    (policy,) = (
        rule["onExitCodes"]["values"]
        for param in RESOURCES
        if param.id == "check-CronJob"
        for rule in param.values[0]["spec"]["jobTemplate"]["spec"]["podFailurePolicy"]["rules"]
    )
    assert policy == [1, 3]  # drift and refusals are told, and not tried again


def test_a_mounted_file_has_its_volume():
    for param in RESOURCES:
        spec = param.values[0].get("spec", {})
        spec = spec.get("jobTemplate", {}).get("spec", spec)
        template = spec.get("template", {}).get("spec", {})
        volumes = {volume["name"] for volume in template.get("volumes", [])}
        volumes |= {claim["metadata"]["name"] for claim in spec.get("volumeClaimTemplates", [])}
        for container in template.get("containers", []):
            assert {mount["name"] for mount in container["volumeMounts"]} == volumes


def test_the_image_has_the_wheel_and_no_root():
    lines = (DEPLOY / "Containerfile").read_text().splitlines()
    instructions = [line.split()[0] for line in lines if re.match(r"[A-Z]+ ", line)]
    assert instructions == ["FROM", "COPY", "RUN", "USER", "WORKDIR", "ENV", "CMD"]
    (user,) = (line.split()[1] for line in lines if line.startswith("USER "))
    for param in RESOURCES:
        assert re.findall(r"'runAsUser': (\d+)", str(param.values[0])) in ([], [user])
