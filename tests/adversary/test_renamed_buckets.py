"""A server that gives buckets of records other names, so that a guard charges them as others.

Where ids are stable a guard charges checks over different buckets apart. Whatever a server calls
its buckets, no record may be in checks that claim more together than the budget allows.
"""

import json
import random
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from adversary.lying_server import VICTIM
from adversary.mutations import allotment_of
from federation import REFERENCE, app_of, grid_of, keep_secrets
from guard.files import guard_file
from messages.vector_forms import claim

from flwr_kld.query.plan import plan_fingerprint
from flwr_kld.query.selection import Selection
from flwr_kld.strategies import KLDrift, RotatingRecords, Trusted

BUDGET, QUESTIONS = 3.0, 600
MODULI = [2, 2, 2, 3, 1, 1.5, 2.0, 2.5, 0.5, 1e-9, -2, 0, 2**16, 2**16 + 1, True, "2", None]
RESIDUES = [0, 0, 1, 1, 2, 0.0, 0.01, 0.25, 0.5, 0.75, 1.0, 1.25, -1, -0.0, 2**64, True, False, "0",
            None]  # fmt: skip


def renamed(selection: str, rng: random.Random) -> str:
    """Return another selection, in the one form that a client may read."""
    changes = {
        "key": rng.choice(["k", "k", "k", "kk", "", 1]),
        "modulus": rng.choice(MODULI),
        "residues": rng.sample(RESIDUES, rng.choice([1, 1, 1, 2])),
    }
    return json.dumps(json.loads(selection) | changes, sort_keys=True, separators=(",", ":"))


@pytest.mark.parametrize("seed", range(3))
def test_no_record_loses_more_than_its_guard_allows(seed, tmp_path, monkeypatch):
    app, met = app_of(record_ids=lambda context: np.arange(100)), []

    def client(message, context):
        if context.node_id == VICTIM:
            met.append((message, context))
        return app(message, context)

    check = KLDrift(REFERENCE, Trusted(1.0), cohort=RotatingRecords(2)).check
    check(keep_secrets(grid_of(client, nodes=6), tmp_path))
    spent, answers, rng = np.zeros(100), 0, random.Random(seed)
    selected = Selection.selected

    def counting(selection, ids):
        nonlocal answers
        answers += 1
        spent[found := selected(selection, ids)] += claimed
        return found

    stable = f"max_epsilon = {BUDGET}\nstable_record_ids = true"
    guard = guard_file(tmp_path, (f"max_epsilon = {BUDGET}", stable))
    monkeypatch.setenv("FLWR_KLD_GUARD", str(guard))
    monkeypatch.setattr(Selection, "selected", counting)
    message, context = met[-1]
    asked = message.content["terms"]
    cell_of = np.arange(len(REFERENCE.probabilities), dtype=np.int32)
    for number in range(QUESTIONS):
        claimed = rng.choice([1.0, 0.5, 0.125])
        text = renamed(asked["selection"], rng)
        named = SimpleNamespace(to_json=partial(str, text))
        plan = plan_fingerprint(asked["reference"], cell_of, named, allotment_of(asked))
        asked.update(
            check=f"{number:016x}", selection=text, plan=plan, guarantee=claim(epsilon=claimed)
        )
        app(message, context)
        assert spent.max() <= BUDGET
    assert answers > BUDGET
    assert 0 < spent.min() < spent.max()
