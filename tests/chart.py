"""The Helm chart, rendered."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from flower_deployment import BIN
from recipes import ROOT

CHART = ROOT / "deploy" / "helm" / "flwr-kld"
OLDEST = "1.31"
"""Of Kubernetes: pod failure policies are stable from there on."""
Resource = dict[str, Any]


def helm(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([BIN / "helm", *arguments], capture_output=True, text=True)


def of(party: str, chart: Path = CHART) -> list[str | Path]:
    return [chart, "--kube-version", OLDEST, "--values", CHART / "ci" / f"{party}-values.yaml"]


def rendered(party: str, chart: Path = CHART) -> list[Resource]:
    done = helm("template", "kld", *of(party, chart))
    if done.returncode:
        raise ValueError(done.stderr)
    return [resource for resource in yaml.safe_load_all(done.stdout) if resource]


def pods(resources: list[Resource]) -> Iterator[Resource]:
    """The template of each pod."""
    for resource in resources:
        spec = resource.get("spec", {})
        spec = spec.get("jobTemplate", {}).get("spec", spec)
        if "template" in spec:
            claims = [{"name": c["metadata"]["name"]} for c in spec.get("volumeClaimTemplates", [])]
            template = spec["template"]
            template["spec"].setdefault("volumes", []).extend(claims)
            yield template
