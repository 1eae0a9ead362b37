"""A lying server with an aggregator that is one of two: every field of what it is handed."""

import pickle
import random

import pytest
from adversary.mutations import mutate
from split_federation import FIRST, NODES, SECOND, aggregators, federation, monitor, people

from flwr_kld.clients import aggregator
from flwr_kld.secure_sums import split_sum
from flwr_kld.secure_sums.split_sum import Addition
from flwr_kld.trust.envelopes import PartMessage
from flwr_kld.trust.terms import Terms

LIES = 150
"""At each aggregator."""


@pytest.fixture(scope="module", params=[split_sum.PORTION, 8_000], ids=["one", "portions"])
def met(request):
    """What both aggregators were handed in a check, and their contexts before."""
    kept = []
    apps = aggregators()

    def keep(app):
        def handle(message, context):
            if message.metadata.message_type == "query.drift_aggregate":
                kept.append((app, pickle.dumps(message), pickle.dumps(context)))
            return app(message, context)

        return handle

    clients = people(record_ids=lambda context: range(100))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(split_sum, "PORTION", request.param)
        monitor(threshold=0.05).check(federation(clients, [keep(app) for app in apps]))
    assert (len(kept) == 3) is (request.param > 8_000)
    return kept


@pytest.mark.parametrize("node", [FIRST, SECOND])
def test_it_answers_what_clients_sealed_for_and_with_noise_for_it(met, node, monkeypatch):
    """Or in words without a value; noise and clients are looked at where they are used."""
    noised, rng = [], random.Random(node)
    honest = [pickle.loads(message) for _, message, _ in met]  # noqa: S301
    agreed = [Terms.from_config(message.content["terms"]) for message in honest]
    answer = Addition.answer

    def answering(addition, event, bits):
        noised.append((addition._terms, event, addition.clients))
        return answer(addition, event, bits)

    monkeypatch.setattr(Addition, "answer", answering)
    # Each lie meets an aggregator that has answered nothing yet.
    for claim in ("use_once", "claim"):
        monkeypatch.setattr(aggregator, claim, lambda *claim: None)
    answered = 0
    for _ in range(LIES):
        app, message, context = rng.choice([one for one in met if of_node(one, node)])
        lie, noised[:] = pickle.loads(message), []  # noqa: S301
        mutate(lie, honest, rng)
        content = app(lie, pickle.loads(context)).content  # noqa: S301
        if "published" not in content:
            assert "apple" not in str(content["answer"])
            continue
        if "box" in content["published"]:
            assert not noised
            continue
        part = PartMessage.from_config(content["published"])
        ((terms, event, clients),) = noised
        assert terms in agreed
        assert event == agreed[agreed.index(terms)].central()
        assert 3 <= clients == part.clients <= NODES
        answered += 1
    assert 0 < answered < LIES


def of_node(one, node: int) -> bool:
    return pickle.loads(one[1]).metadata.dst_node_id == node  # noqa: S301
