"""A client that lies to two aggregators about its own records: the verdict says what it could do.

Its counts have a proof, so all that it can do is to be a client of other records, as many as it
claims. Where that makes a verdict which honest clients do not have, the verdict says that one
client alone could have made it.
"""

from collections import Counter

import numpy as np
import pytest
from federation import FRUIT, REFERENCE, SHARES, app_of, basket
from sealed_federation import WatchedGrid
from split_federation import PAIR, Members, aggregators, identity

from flwr_kld.clients.own_records import Records
from flwr_kld.report import Outcome
from flwr_kld.secure_sums import Roster
from flwr_kld.strategies import KLDrift, TwoAggregators, WholeClients

LIAR = 1000
SAME = (*REFERENCE.probabilities[: len(FRUIT.names)], 0.0, 0.0)
WORLDS = {"drift": SHARES, "no drift": SAME}
EACH = 100
"""Records of an honest client."""
MOST, LOADED = 2**31 - 1, 30_000
"""Records of a client at most, and of one that a test makes."""
VALUES = [*FRUIT.names, "fig", ""]


def towards(law):
    """Counts that move the sum as far as possible to a law, whatever the others have."""

    def counts(records, others):
        wanted = np.clip(np.array(law) * (records + others.sum()) - others, 0, None)
        return dealt(records, wanted)

    return counts


def dealt(records, shares):
    shares = shares if shares.sum() else np.ones(6)
    counts = np.floor(records * shares / shares.sum()).astype(np.int64)
    counts[counts.argmax()] += records - counts.sum()
    return counts


LIES = {
    "as the reference": towards(SAME),
    "as a drift": towards(SHARES),
    "all one label": lambda records, others: dealt(records, np.eye(6)[3]),
    "all outside": lambda records, others: dealt(records, np.eye(6)[4]),
    "all missing": lambda records, others: dealt(records, np.eye(6)[5]),
}
CLAIMS = (1, 99, 101, 400, 3_000, 30_000, MOST)


def checked(nodes, shares, lie=None, claim=EACH, **trust):
    """Check clients of whom the first one lies."""
    honest, asked = Records.counted, {}
    others = (nodes - 1) * np.round(np.array(shares) * EACH)

    def counted(*given):
        rows = honest(*given)
        if lie is not None and asked["node"] == LIAR and claim > LOADED:
            rows._values[0] = dealt(claim, rows._values[0].astype(float))
        return rows

    def records(context):
        if lie is None or context.node_id != LIAR:
            return basket(context, EACH, shares)
        return np.repeat(VALUES, lie(min(claim, LOADED), others)).tolist()

    names = [f"{LIAR + i}:0" for i in range(nodes)]
    roster = Roster({name: identity(name).public for name in names})
    people = app_of(records, secure_sum=Members(), aggregators=PAIR)
    apps = aggregators(roster=roster)

    def dispatch(message, context):
        asked["node"] = context.node_id
        place = context.node_id - LIAR - nodes
        return (people if place < 0 else apps[place])(message, context)

    monitor = KLDrift(REFERENCE, TwoAggregators(3.0, aggregators=PAIR, **trust), threshold=0.05)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Records, "counted", counted)
        return monitor.check(WatchedGrid(dispatch, nodes + 2))


def lies_among(nodes, claims=CLAIMS, lies=LIES, **trust):
    """Count what lies did: every false verdict that an honest federation does not have says so."""
    found = Counter()
    most = trust["protects"].most_records if trust else MOST
    for shares in WORLDS.values():
        honest = checked(nodes, shares, **trust)
        for name in lies:
            for claim in [n for n in claims if n <= most] + ([most] if trust else []):
                report = checked(nodes, shares, LIES[name], claim, **trust)
                verdict = report.verdict
                assert report.cohort.survivors == nodes
                if not trust:
                    assert report.reading.records == (nodes - 1) * EACH + claim
                if verdict.outcome is Outcome.INCONCLUSIVE:
                    found["inconclusive"] += 1
                elif verdict.outcome is honest.outcome or report.drifted is (shares is SHARES):
                    found["as without the lie, or true"] += 1
                else:
                    assert verdict.by_one_client, (nodes, claim, verdict)
                    said = " ".join(str(report).split())
                    assert "alone could" in said or "holds only if" in said
                    found["another verdict, which says so"] += 1
    return found


def test_a_verdict_that_a_liar_made_says_so():
    found = lies_among(10, (99, 3_000), ("as the reference", "all one label"))
    assert found["another verdict, which says so"] >= 2


@pytest.mark.slow
@pytest.mark.parametrize("nodes", [3, 10, 20, 60, 200])
@pytest.mark.parametrize("trust", [{}, {"protects": WholeClients(150)}], ids=["records", "clients"])
def test_verdicts_that_liars_made_say_so(nodes, trust, capsys):
    found = lies_among(nodes, CLAIMS if nodes <= 20 else (99, 3_000, MOST), **trust)
    with capsys.disabled():
        print(f"\n{nodes} clients, {trust or 'records'}: {dict(found)}")
