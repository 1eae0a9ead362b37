"""A lying server that tells the clients of one secure sum different things about it.

A client of `Distributed` hides behind the noise of all, of which it adds only a share itself.
"""

import json

import pytest
from federation import grid_of
from guarded_nodes import summed, summing
from trust.vector_forms import claim, said_otherwise

from flwr_kld.common.errors import CheckFailed
from flwr_kld.trust.terms import Terms

VICTIM = 1000
LESS_NOISE = {
    "epsilon": ({"guarantee": claim(epsilon=9.0)}, {}),
    "each share": ({}, {"n_min": 11}),
    "none": ({}, None),
}
"""What all but the victim are told of question and noise; the session is that of the victim."""


@pytest.mark.parametrize("less", LESS_NOISE)
def test_who_is_told_of_less_noise_is_not_in_the_sum_of_who_is_told_of_more(less):
    app, (asked, noise), said = summing(), LESS_NOISE[less], []

    def lie(message, context):
        if "terms" not in message.content or context.node_id == VICTIM:
            return app(message, context)
        terms = message.content["terms"]
        terms.update(asked)
        told = None if noise is None else json.loads(terms["noise"]) | noise
        terms["noise"] = json.dumps(told, sort_keys=True, separators=(",", ":"))
        reply = app(message, context)
        said.append(str(reply.content["answer"]))
        return reply

    with pytest.raises(CheckFailed):
        summed(threshold=0.1).check(grid_of(lie))
    assert len(said) == 19
    assert all("other terms than those beside it" in answer for answer in said), said[0]


def test_the_session_of_a_sum_is_over_all_of_its_terms():
    app, met = summing(), []

    def keep(message, context):
        if "terms" in message.content:
            met.append(Terms.from_config(message.content["terms"]))
        return app(message, context)

    summed().check(grid_of(keep))
    terms, told = met[0], met[0].to_config()
    assert {one.fingerprint for one in met} == {terms.fingerprint}
    for name in told:
        changed = said_otherwise(terms, told | {name: "another"})
        assert changed.fingerprint != terms.fingerprint, name
