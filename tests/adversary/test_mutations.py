"""A lying server with every field of every message, in every trust model.

`make fuzz` asks a million lies and more; here every scenario has a few hundred.
"""

import random

import pytest
from adversary.lying_server import SCENARIOS, LyingServer, watching

LIES = 780
"""For each scenario, and a third of it for those with a table; in all more than ten thousand."""


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_changed_message_is_refused_or_costs_what_it_says(name, tmp_path):
    server, rng = LyingServer(name, tmp_path), random.Random(name)  # seeds the same everywhere
    lies = LIES // 3 if name.startswith("table") else LIES
    with watching() as seen:
        answered = sum(server.lie(rng, seen) for _ in range(lies))
    assert answered > lies / 200, "hardly a message was answered: nothing was tested"
