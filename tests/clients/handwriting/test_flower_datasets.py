"""FEMNIST: what goes through flwr-datasets."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from flwr_kld.clients.handwriting import load_femnist, sources
from flwr_kld.common.extras import require


@pytest.fixture(scope="module")
def datasets() -> Any:
    """Imported only where it is asked for, as it takes seconds."""
    return pytest.importorskip("datasets")


def test_a_missing_package_names_the_extra() -> None:
    with pytest.raises(ImportError, match=r"\[simulation\]"):
        require("no_such.module", extra="simulation")
    assert require("os.path", extra="simulation").sep == "/"


@pytest.fixture(autouse=True)
def _reopen() -> Iterator[None]:
    sources._partitioner.cache_clear()
    yield
    sources._partitioner.cache_clear()


@pytest.fixture
def hub_of(datasets: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], None]:
    """Serve grey images as FEMNIST."""
    monkeypatch.setenv("FLWR_TELEMETRY_ENABLED", "0")

    def serve(grey: Any) -> None:
        table = datasets.Dataset.from_dict(
            {
                "image": list(grey),
                "writer_id": ["f2", "f1", "f2", "f1"],
                "hsf_id": [0] * 4,
                "character": [3, 40, 9, 0],
            },
            features=datasets.Features(
                image=datasets.Image(),
                writer_id=datasets.Value("string"),
                hsf_id=datasets.Value("int64"),
                character=datasets.ClassLabel(num_classes=62),
            ),
        )
        hub = datasets.DatasetDict(train=table)
        monkeypatch.setattr(datasets, "load_dataset", lambda **_: hub)

    return serve


def test_femnist_by_writer(hub_of: Callable[[Any], None]) -> None:
    grey = np.full((4, 28, 28), 255, dtype=np.uint8)
    grey[:, 5, 6] = [10, 20, 30, 40]
    hub_of(grey)
    data = load_femnist([1, 0])
    assert data.writer.tolist() == [1, 1, 0]
    assert data.labels.tolist() == [3, 9, 0]
    assert data.images[:, 5, 6].tolist() == [245, 225, 215]
    assert np.count_nonzero(data.images) == 3
    assert load_femnist([0], labels=range(62)).labels.tolist() == [40, 0]
    assert load_femnist([]).images.shape == (0, 28, 28)
    assert load_femnist().labels.tolist() == [0, 3, 9]
    assert load_femnist([0], labels=[5]).images.shape == (0, 28, 28)
    for partition in (-1, 2):
        with pytest.raises(ValueError, match="partition"):
            load_femnist([partition])


def test_femnist_of_another_shape_is_refused(hub_of: Callable[[Any], None]) -> None:
    hub_of(np.zeros((4, 28, 28, 3), dtype=np.uint8))
    with pytest.raises(ValueError, match="28x28"):
        load_femnist([0])


def test_femnist_without_a_network_says_what_to_do(
    datasets: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors = pytest.importorskip("huggingface_hub.errors")

    def offline(**_: Any) -> None:
        raise errors.OfflineModeIsEnabled(
            "Cannot reach https://huggingface.co: offline mode is enabled"
        )

    monkeypatch.setattr(datasets, "load_dataset", offline)
    monkeypatch.setenv("FLWR_TELEMETRY_ENABLED", "0")
    with pytest.raises(ConnectionError, match="femnist") as caught:
        load_femnist([0])
    assert "use load_leaf or load_npz" in str(caught.value)
    assert caught.value.__suppress_context__
