"""The ClientApp of a simulation: any number of virtual writers on a smaller number of nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flwr.app import ConfigRecord, Context, Message
from flwr.clientapp import ClientApp
from flwr.clientapp.typing import ClientAppCallable

from flwr_kld.clients import host_drift_queries
from flwr_kld.clients.predictor_queries import host_predictor_queries
from flwr_kld.simulations.scenario import Scenario
from flwr_kld.table.base import Domain

_CLOCK = "flwr_kld.clock"


def virtual_clients() -> ClientApp:
    """Build the app that hosts a scenario's clients; the run config says which scenario.

    Writers are dealt to nodes in turn, by Flower's ``partition-id`` and ``num-partitions``.
    Simulated time is the number of the check, or of the predictor's round beside it, which messages
    carry as their group id.
    """
    app = ClientApp(mods=[_set_clock])

    def hosted(context: Context) -> Sequence[int]:
        first, nodes = (int(context.node_config[k]) for k in ("partition-id", "num-partitions"))
        return Scenario.from_run_config(context.run_config).members[first::nodes]

    def records(context: Context, member: int) -> Any:
        check = int(str(context.state.config_records[_CLOCK]["check"]))
        return Scenario.from_run_config(context.run_config).write(member, check).images

    def domain(context: Context) -> Domain:
        return Scenario.from_run_config(context.run_config).domain

    host_drift_queries(app, records, hosted, domain)
    host_predictor_queries(app, records, hosted, domain)
    return app


def _set_clock(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
    """Note which check it is, before the handler loads the records."""
    context.state[_CLOCK] = ConfigRecord({"check": message.metadata.group_id})
    return call_next(message, context)
