"""For all tests: a busy machine is slow, and that is no failure; the longest files come first."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "busy machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("busy machine")

LONGEST = ("test_superlink.py", "test_ray.py", "test_packaging.py", "test_forecast.py")
"""Files that would keep one worker busy after the others have finished."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: Path(item.path).name not in LONGEST)
