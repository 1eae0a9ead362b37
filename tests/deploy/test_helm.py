"""The chart renders to what Kubernetes takes, and broken values and templates are refused."""

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import kubernetes_validate
import pytest
from chart import CHART, OLDEST, Resource, helm, of, pods, rendered
from recipes import ROOT

PARTIES = [path.name.removesuffix("-values.yaml") for path in sorted(CHART.glob("ci/*.yaml"))]


def selected(selector: Resource, labels: Resource) -> bool:
    expressions = selector.get("matchExpressions", [])
    return selector.get("matchLabels", selector).items() <= labels.items() and all(
        labels.get(one["key"]) in one["values"] for one in expressions
    )


def refuse_container(container: Resource, spec: Resource) -> None:
    assert container["resources"]["limits"].keys() >= {"memory"}
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert not container["securityContext"]["allowPrivilegeEscalation"]
    mounted = {mount["name"] for mount in container["volumeMounts"]}
    assert mounted <= {volume["name"] for volume in spec["volumes"]}


def refuse(resources: list[Resource], sound: Sequence[Resource] = ()) -> None:
    """Raise where Kubernetes' schemas, or what we ask of each pod and policy, do not hold.

    The schemas, which take seconds, are not asked again about what is known to be sound.
    """
    for resource in resources:
        if resource not in sound:
            kubernetes_validate.validate(resource, OLDEST, strict=True)
    templates = list(pods(resources))
    for template in templates:
        spec = template["spec"]
        assert spec["securityContext"]["runAsNonRoot"]
        assert not spec["automountServiceAccountToken"]
        for container in spec["containers"] + spec.get("initContainers", []):
            refuse_container(container, spec)
        if spec.get("restartPolicy") != "Never":
            assert all("livenessProbe" in container for container in spec["containers"])
    for kind, where in (("Service", "selector"), ("NetworkPolicy", "podSelector")):
        for resource in (found for found in resources if found["kind"] == kind):
            chosen = [t for t in templates if selected(resource["spec"][where], labels(t))]
            assert chosen or resource["metadata"]["name"] == "kld-to-ledger", resource["metadata"]
    (default,) = (r for r in resources if r["metadata"]["name"] == "kld-default")
    assert all(selected(default["spec"]["podSelector"], labels(t)) for t in templates)


def labels(template: Resource) -> Resource:
    found: Resource = template["metadata"]["labels"]
    return found


@pytest.mark.parametrize("party", PARTIES)
def test_each_party_installs_its_own_part(party: str):
    linted = helm("lint", "--strict", *of(party))
    assert linted.returncode == 0, linted.stdout
    resources = rendered(party)
    refuse(resources)
    for resource in resources:
        kubernetes_validate.validate(resource, kubernetes_validate.latest_version(), strict=True)
    nodes = [labels(t)["flwr-kld/node"] for t in pods(resources) if "flwr-kld/node" in labels(t)]
    assert len(nodes) == {"federation": 5, "hospital": 1, "aggregator": 1}[party]


BROKEN_VALUES = [
    "superlnk.enabled=true",
    "image=registry.example.org/flwr-kld",
    "superlink.address=superlink.example.org",
    "superlink.enabled=false",  # and no range of addresses to reach another
    "superlink.resources.limits.memory=lots",
    "superlink.cidrs={10.0.0.0/33}",
    "ledger.port=70000",
    "check.schedule=nightly",
    "nodes.Clinic.role=client",
    "nodes.clinic-a.role=agregator",
    "nodes.clinic-a.keys=",
    "nodes.aggregator-1.records.claim=rows",
    "nodes.aggregator-3.role=aggregator,nodes.aggregator-3.keys=k,nodes.aggregator-3.limits=l",
]


@pytest.mark.parametrize("broken", BROKEN_VALUES)
def test_broken_values_are_refused(broken: str):
    assert helm("template", "kld", *of("federation"), "--set", broken).returncode


BROKEN_TEMPLATES = [
    ("check.yaml", "timeZone:", "timezone:"),
    ("check.yaml", "values: [1, 3]", "values: [1, drift]"),
    ("nodes.yaml", "name: keys, mountPath", "name: key, mountPath"),
    ("superlink.yaml", "resources: {{- toYaml .Values.superlink.resources | nindent 12 }}", ""),
    ("serve.yaml", "livenessProbe", "startupProbe"),
    ("serve.yaml", '"component" "page"', '"component" "site"'),
    ("_helpers.tpl", "runAsNonRoot: true", "runAsNonRoot: false"),
    ("policies.yaml", "policyTypes", "types"),
]


@pytest.fixture(scope="module")
def federation() -> list[Resource]:
    return rendered("federation")


@pytest.mark.parametrize(("file", "old", "new"), BROKEN_TEMPLATES)
def test_broken_templates_are_refused(
    file: str, old: str, new: str, tmp_path: Path, federation: list[Resource]
):
    chart = shutil.copytree(CHART, tmp_path / "flwr-kld")
    text = (chart / "templates" / file).read_text()
    assert old in text
    (chart / "templates" / file).write_text(text.replace(old, new))
    with pytest.raises((AssertionError, KeyError, ValueError, kubernetes_validate.ValidationError)):
        refuse(rendered("federation", chart), federation)


def test_the_image_has_the_wheel_and_no_root(federation: list[Resource]):
    lines = (ROOT / "deploy" / "Containerfile").read_text().splitlines()
    instructions = [line.split()[0] for line in lines if re.match(r"[A-Z]+ ", line)]
    assert instructions == ["FROM", "COPY", "RUN", "USER", "WORKDIR", "ENV", "CMD"]
    (user,) = (int(line.split()[1]) for line in lines if line.startswith("USER "))
    users = {t["spec"]["securityContext"]["runAsUser"] for t in pods(federation)}
    assert users == {user}
