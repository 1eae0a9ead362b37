"""Secure aggregation: sums of integer vectors that show nobody's own vector, without transport.

The server opens a `Session`, sends it to each client, and then four times sends requests and
collects answers; `SumServer` and `SumClient` say which. Every message has `to_bytes`, and `decode`
reads it. A sum by two aggregators is in `split_sum`, on the proofs of `prio3`.

Examples
--------
>>> import numpy as np
>>> from flwr_kld.kernel.vector import SumVector
>>> from flwr_kld.secure_sums.client import SumClient
>>> from flwr_kld.secure_sums.server import SumServer
>>> from flwr_kld.secure_sums.session import Session
>>> who = {name: Identity.generate() for name in ("ayr", "bern", "como", "delft")}
>>> roster = Roster({name: identity.public for name, identity in who.items()})
>>> session = Session.open(roster, list(who), check="c1", terms="p1", length=2)
>>> server = SumServer(session, roster)
>>> clients = {i: SumClient(who[server.name(i)], server.name(i), roster) for i in range(4)}
>>> for client in clients.values():
...     server.receive(client.advertise(session, terms="p1", length=2))
>>> for i, adverts in server.advance().items():
...     server.receive(clients[i].share(adverts))
>>> for i, deliveries in server.advance().items():
...     server.receive(clients[i].mask(deliveries, SumVector(np.array([1, 10 + i]))))
>>> for i, survivors in server.advance().items():
...     server.receive(clients[i].confirm(survivors))
>>> server.advance()
{}
>>> server.result()
SumResult(<private>)
"""

from flwr_kld.common.identity import Identity, Roster

__all__ = ["Identity", "Roster"]
