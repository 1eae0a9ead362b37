"""A check's spans: its phases, nested, with nothing in them that a report would not say."""

import pytest
from federation import REFERENCE, grid_of

from flwr_kld.errors import CheckFailed
from flwr_kld.strategies import KLDrift, Trusted

trace = pytest.importorskip("opentelemetry.trace")
sdk = pytest.importorskip("opentelemetry.sdk.trace")
exporting = pytest.importorskip("opentelemetry.sdk.trace.export")
memory = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")


@pytest.fixture
def spans(monkeypatch):
    exporter, provider = memory.InMemorySpanExporter(), sdk.TracerProvider()
    provider.add_span_processor(exporting.SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)

    def finished():
        names = {span.context.span_id: span.name for span in exporter.get_finished_spans()}
        return {
            span.name.removeprefix("flwr_kld."): (span, span.parent and names[span.parent.span_id])
            for span in exporter.get_finished_spans()
        }

    return finished


def test_a_check_is_a_tree_of_its_phases(spans):
    monitor = KLDrift(REFERENCE, Trusted(epsilon=1.0), threshold=0.01)
    report = monitor.check(grid_of(), key="tonight")
    found = spans()
    assert {name: parent for name, (_, parent) in found.items()} == {
        "check": None, "choose": "flwr_kld.check", "reserve": "flwr_kld.check",
        "ask": "flwr_kld.check", "publish": "flwr_kld.ask", "conclude": "flwr_kld.ask",
        "asking": "flwr_kld.publish", "waiting": "flwr_kld.publish", "settle": "flwr_kld.check",
    }  # fmt: skip
    assert dict(found["check"][0].attributes) == {
        "flwr_kld.key": "tonight", "flwr_kld.population": "default", "flwr_kld.kind": "check",
    }  # fmt: skip
    assert dict(found["publish"][0].attributes).keys() == {"flwr_kld.asked"}
    assert found["conclude"][0].attributes["flwr_kld.outcome"] == report.outcome


def test_a_span_says_the_type_of_an_error_and_not_its_words(spans):
    with pytest.raises(CheckFailed):
        KLDrift(REFERENCE, Trusted(epsilon=1.0), min_clients=99).check(grid_of())
    check, _ = spans()["check"]
    assert (check.status.status_code.name, check.status.description) == ("ERROR", "CheckFailed")
    assert check.events == ()


def test_without_the_extra_a_check_is_the_same(monkeypatch):
    monkeypatch.setattr("flwr_kld.check.tracing.trace", None)
    assert KLDrift(REFERENCE, Trusted(epsilon=1.0)).check(grid_of()).reading.estimate is not None


def test_a_report_says_where_its_seconds_went():
    """Here clients compute while the server waits; with a real network that takes longer."""
    cost = KLDrift(REFERENCE, Trusted(epsilon=1.0)).check(grid_of()).cost
    assert 0 < cost.asking < cost.waiting
    assert cost.computing > 0
    assert cost.asking + cost.waiting + cost.computing == pytest.approx(cost.seconds)
    assert cost.time.startswith(f"{cost.seconds:.1f} s ({cost.asking:.1f} asking, ")
