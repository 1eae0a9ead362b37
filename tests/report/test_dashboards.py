"""Dashboards and alert rules name metrics and labels that are really exported."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from report.samples import decided
from report.tables import drifted

from flwr_kld.report import Outcome
from flwr_kld.views.prometheus import OUTCOMES, MonitorState, save_metrics

FOLDER = Path(__file__).parents[2] / "deploy" / "dashboards"
RULES = yaml.safe_load((FOLDER / "prometheus-rules.yml").read_text(encoding="utf-8"))
GRAFANA = json.loads((FOLDER / "grafana.json").read_text(encoding="utf-8"))
WORDS = {
    "absent", "label_values", "offset", "or", "sum", "time", "unless", "vector", "monitor",
    "on", "group_left", "column", "and",
}  # fmt: skip


def expressions() -> Iterator[str]:
    for rule in RULES["groups"][0]["rules"]:
        yield rule["expr"]
    for panel in GRAFANA["panels"]:
        yield from (target["expr"] for target in panel["targets"])
    yield from (variable.get("definition", "") for variable in GRAFANA["templating"]["list"])
    yield from (annotation["expr"] for annotation in GRAFANA["annotations"]["list"])


@pytest.fixture(scope="module")
def exported(tmp_path_factory) -> dict[str, set[str]]:
    """Names of metrics, and the labels of each, as a scrape has them."""
    file = tmp_path_factory.mktemp("metrics") / "kld.prom"
    bounded = decided(Outcome.DRIFT, 0.2, population_estimate=0.2, population_deviation=0.1)
    save_metrics([MonitorState("fleet", drifted()), MonitorState("one", bounded)], file)
    return {
        sample.name: set(sample.labels)
        for family in text_string_to_metric_families(file.read_text(encoding="utf-8"))
        for sample in family.samples
    }


@pytest.mark.parametrize("expression", sorted(set(expressions()) - {""}))
def test_every_metric_and_label_is_exported(exported, expression):
    for name, labels in re.findall(r"(kld_\w+)(?:\{([^}]*)\})?", expression):
        assert name in exported
        assert set(re.findall(r"(\w+)=", labels)) <= exported[name]
    for value in re.findall(r'outcome=~?"([^"]*)"', expression):
        assert set(value.split("|")) <= set(OUTCOMES)
    bare = re.sub(r'\{[^}]*\}|"[^"]*"|\b\d+m?\b', "", expression)
    assert set(re.findall(r"[a-z]\w*", bare)) - exported.keys() <= WORDS


def texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from texts(part)
    elif isinstance(value, str):
        yield value


def test_legends_and_annotations_name_labels_that_there_are(exported):
    known = set().union(*exported.values())
    for text in texts([GRAFANA, RULES]):
        labels = re.findall(r"\{\{(\w+)\}\}|\$labels\.(\w+)|\.Labels\.(\w+)", text)
        assert {one for found in labels for one in found if one} <= known, text


def test_panels_do_not_overlap_and_have_ids_of_their_own():
    fields = [
        (x, y)
        for panel in GRAFANA["panels"]
        for place in [panel["gridPos"]]
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(set(fields)) == len(fields)
    assert max(x for x, _ in fields) < 24
    assert len({panel["id"] for panel in GRAFANA["panels"]}) == len(GRAFANA["panels"])
