"""The ClientApp of a simulation: any number of virtual writers on a smaller number of nodes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from flwr.app import ConfigRecord, Context, Message
from flwr.clientapp import ClientApp
from flwr.clientapp.typing import ClientAppCallable

from flwr_kld.clients import FirstUse, aggregate_drift_checks, host_drift_queries
from flwr_kld.clients.predictor_queries import host_predictor_queries
from flwr_kld.domain.base import Domain
from flwr_kld.messages.sealing import AggregatorKey
from flwr_kld.simulations.scenario import Scenario

_CLOCK = "flwr_kld.clock"
AGGREGATOR_KEY = "FLWR_KLD_SIMULATED_AGGREGATOR"
"""Environment variable that names the key file of a simulation's aggregator."""


def virtual_clients() -> ClientApp:
    """Build the app that hosts a scenario's clients; the run config says which scenario.

    Writers are dealt to nodes in turn, by Flower's ``partition-id`` and ``num-partitions``.
    Simulated time is the number of the check, or of the predictor's round beside it, which messages
    carry as their group id. Where the simulation has an aggregator, the last node is it and hosts
    nobody.
    """
    aggregator = simulated_aggregator()
    app = ClientApp(mods=[_set_clock, _set_role])

    def hosted(context: Context) -> Sequence[int]:
        first, nodes = (int(context.node_config[k]) for k in ("partition-id", "num-partitions"))
        step = nodes - 1 if aggregator else nodes
        return Scenario.from_run_config(context.run_config).members[first::step]

    def records(context: Context, member: int) -> Any:
        check = int(str(context.state.config_records[_CLOCK]["check"]))
        return Scenario.from_run_config(context.run_config).write(member, check).images

    def domain(context: Context) -> Domain:
        return Scenario.from_run_config(context.run_config).domain

    def secret(context: Context, member: int) -> bytes:
        return Scenario.from_run_config(context.run_config).secret(member)

    host_drift_queries(
        app, records, hosted, domain,
        secure_sum=FirstUse(), aggregator=aggregator, secret=secret,
    )  # fmt: skip
    host_predictor_queries(app, records, hosted, domain)
    aggregate_drift_checks(app)
    return app


def simulated_aggregator() -> bytes | None:
    """Public key of the simulation's aggregator, if it has one."""
    file = os.environ.get(AGGREGATOR_KEY)
    return AggregatorKey.load(file).public if file else None


def _set_role(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
    """Give the last node the aggregator's config, which Flower's simulation cannot set."""
    config = context.node_config
    file = os.environ.get(AGGREGATOR_KEY)
    if file and int(config["partition-id"]) == int(config["num-partitions"]) - 1:
        config |= {"drift-role": "aggregator", "drift-key": file}
    return call_next(message, context)


def _set_clock(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
    """Note which check it is, before the handler loads the records."""
    context.state[_CLOCK] = ConfigRecord({"check": message.metadata.group_id})
    return call_next(message, context)
