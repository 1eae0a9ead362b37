"""The client's handler of predictors: one own label, privatised before it leaves.

Local privacy holds whatever the server does: the channel is checked here in exact arithmetic, the
label passes through it with the node's own randomness, and the node's guard adds up what it costs.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

from flwr_kld.clients.admission import Gate, reason_of, require_claim
from flwr_kld.clients.answers import refuse, reply
from flwr_kld.clients.check_memory import claims_file, use_once
from flwr_kld.clients.deadline import loads_in_time
from flwr_kld.clients.node_config import is_aggregator
from flwr_kld.clients.own_records import Loader, OwnRecords, Records
from flwr_kld.common.errors import DomainError, QueryRefused
from flwr_kld.kernel.arguments import instance
from flwr_kld.kernel.law import SystemBits
from flwr_kld.kernel.promise import WholeClients
from flwr_kld.kernel.vector import Held
from flwr_kld.table.base import Domain
from flwr_kld.table.table import require_one_symbol
from flwr_kld.trust.envelopes import (
    PREDICT_ACTION,
    QUERY,
    REPORT,
    Answer,
    asked,
    member_of,
)
from flwr_kld.trust.terms import Terms

if TYPE_CHECKING:
    from flwr_kld.predictors.query import Query

logger = logging.getLogger("flwr_kld")

_USED = "flwr_kld.predicted"
_CONTEXT = "drift-context"


def answer_predictor_queries(
    app: ClientApp, records: Callable[[Context], Any], domain: Domain
) -> None:
    """Let an existing ClientApp answer a `PrivatePredictor` beside whatever else it does.

    In each round the client draws one of its records, privatises it at the round's ε, and sends
    that one symbol. Works beside `answer_drift_queries` in one app, and needs nothing of it.

    Parameters
    ----------
    app : ClientApp
        The node's app.
    records : Callable[[Context], Any]
        Loads this node's raw records, in a form that ``domain.encode`` takes. Where hypotheses
        depend on a context, ``context.run_config["drift-context"]`` says of which one the round
        asks for labels: load those only.
    domain : Domain
        What they mean. A server with another domain is refused.

    Raises
    ------
    DomainError
        If the domain is a table: one symbol of a row is reported, not one of each column.
    """
    instance("domain", domain, Domain, "the Domain of the records")
    instance("records", records, Callable, "a function that loads a node's records")
    require_one_symbol(domain, "a predictor")
    host_predictor_queries(
        app, lambda context, _: records(context), lambda _: [0], lambda _: domain
    )


def host_predictor_queries(
    app: ClientApp,
    records: Loader,
    hosted: Callable[[Context], Sequence[int]],
    domain: Callable[[Context], Domain],
) -> None:
    """Answer for many virtual clients that one simulated node hosts.

    The parameters are those of `host_drift_queries`.
    """
    instance("app", app, ClientApp, "the node's ClientApp")
    own = OwnRecords(records)

    @app.query(PREDICT_ACTION)
    @loads_in_time
    def drift_predict(message: Message, context: Context) -> Message:
        """Report one privatised symbol for each member that is asked, or say why not."""
        try:
            alphabet = domain(context)
            terms, members, queries = _read(message.content, alphabet)
            gate = Gate(context, terms)
            use_once(context, _USED, terms.check, claims_file(context))
        except QueryRefused as error:
            return refuse(message, str(error))
        reports, refused = dict[int, Held[bytes]](), dict[int, str]()
        present = frozenset(() if is_aggregator(context) else map(int, hosted(context)))
        for member in members:
            try:
                if member not in present or member not in queries:
                    raise QueryRefused("this node does not host the client that is asked")
                gate.admit(member)
                number, query = queries[member]
                config = {**context.run_config, _CONTEXT: query.context}
                asked = replace(context, run_config=config)
                label = _label(own, asked, member, alphabet, query.labels)
                symbol = label.into(partial(query.answer, bits=SystemBits()))
                reports[member] = Held(struct.pack(REPORT, number, symbol))
            except Exception as error:
                refused[member] = reason_of(error)
        answer = Answer(terms.fingerprint, list(reports), list(refused.values()))
        return reply(message, answer, reports)


def _label(
    own: OwnRecords, context: Context, member: int, domain: Domain, labels: int
) -> Held[int]:
    """Draw one record's label, or any label where none can be read: a refusal would leak."""
    try:
        records = own.load(context, member, domain)
    except (DomainError, QueryRefused) as error:
        logger.error("a predictor got a label drawn from nothing: %s", type(error).__name__)
        records = Records(Held(np.zeros(0, dtype=np.int64)))
    return records.label(labels)


def _read(
    content: RecordDict, domain: Domain
) -> tuple[Terms, list[int], Mapping[int, tuple[int, Query]]]:
    """Read the terms, who is asked and each member's query, and hold them against each other."""
    # Imported here: a client that is asked for counts starts without them.
    from flwr_kld.predictors.query import Query

    def record(name: str) -> ConfigRecord:
        found = content.get(name)
        return found if isinstance(found, ConfigRecord) else ConfigRecord()

    terms, members = asked(content)
    if domain.per_record > 1:
        raise QueryRefused("a predictor asks for one symbol, and this client's domain is a table")
    if terms.domain != domain.fingerprint:
        raise QueryRefused("the server's domain is not this client's: compare both domain specs")
    require_claim(terms, "local")
    if terms.guarantee.protects != WholeClients(1):
        raise QueryRefused(
            f"the server claims {terms.guarantee}; a privatised label, of one record, protects the "
            "whole client: the claim must be WholeClients(1)"
        )
    built: dict[int, Query] = {}
    queries: dict[int, tuple[int, Query]] = {}
    for member, number in record(QUERY).items():
        asked_of = member_of(member)
        if type(number) is not int or not 0 <= number < 2**32:
            raise QueryRefused("the predictor's query is not readable")
        if number not in built:
            built[number] = Query.from_config(record(f"{QUERY}.{number}"), domain.size)
            if built[number].channel.epsilon > terms.guarantee.epsilon:
                raise QueryRefused("the channel spends more than the server claims")
        queries[asked_of] = number, built[number]
    return terms, members, queries
