"""Cost of secure sums in one process, and the same round on Flower's SecAgg+ primitives.

python simulations/bench/secure_sum.py               # growth with n, masking, SecAgg+ at n=100
python simulations/bench/secure_sum.py --runs 1000   # random dropouts at n=100, sums checked

CPU counts everything: clients and server, signatures, the consistency round, and reading and
writing every message. Bytes are those of a client, received and sent.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from flwr.common.secure_aggregation import ndarrays_arithmetic as arithmetic
from flwr.common.secure_aggregation.crypto import shamir, symmetric_encryption
from flwr.common.secure_aggregation.secaggplus_utils import (
    pseudo_rand_gen,
    share_keys_plaintext_concat,
    share_keys_plaintext_separate,
)
from flwr.supercore.primitives import asymmetric
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from flwr_kld.secure_sum import (
    ClientPolicy,
    Collusion,
    Identity,
    Phase,
    Roster,
    Session,
    Shape,
    SumClient,
    SumResult,
    SumServer,
    Tolerance,
    decode,
)
from flwr_kld.secure_sum.errors import TooFewSurvivors
from flwr_kld.secure_sum.masks import apply_masks

NEVER = 9
"""Phase at which a client that stays drops out."""
_RANDOM = np.random.default_rng(0)


@dataclass(frozen=True)
class Cost:
    """What one run cost."""

    clients: int
    neighbours: int
    threshold: int
    client_ms: float
    server_ms: float
    received: int
    sent: int

    @property
    def total_ms(self) -> float:
        """CPU of a client and its part of the server's."""
        return self.client_ms + self.server_ms


class Federation:
    """Identities of n clients, made once."""

    def __init__(self, clients: int) -> None:
        self.who = {f"client-{i:05d}": Identity.generate() for i in range(clients)}
        self.roster = Roster({name: key.public for name, key in self.who.items()})

    def run(
        self,
        vectors: NDArray[Any],
        tolerance: Tolerance,
        drops: NDArray[np.int64] | None = None,
        policy: ClientPolicy | None = None,
        shape: Shape | None = None,
    ) -> tuple[SumResult, Cost]:
        """One sum over the wire format; client i stops answering from phase drops[i] on."""
        n, length = vectors.shape
        leaves = np.full(n, NEVER) if drops is None else drops
        clock = time.process_time
        client_s = server_s = 0.0
        received = sent = 0
        began = clock()
        session = Session.open(
            self.roster,
            list(self.who),
            check="bench",
            plan="plan",
            length=length,
            tolerance=tolerance,
            shape=shape,
        )
        opening = session.to_bytes()
        server = SumServer(session, self.roster)
        server_s += clock() - began
        clients: dict[int, SumClient] = {}
        requests: dict[int, bytes] = dict.fromkeys(range(n), opening)
        for phase in (Phase.ADVERTISE, Phase.SHARE, Phase.MASK, Phase.AGREE, Phase.UNMASK):
            answers: list[bytes] = []
            began = clock()
            for i, request in requests.items():
                if leaves[i] <= phase:
                    continue
                received += len(request)
                if phase is Phase.ADVERTISE:
                    name = server.name(i)
                    clients[i] = SumClient(self.who[name], name, self.roster, policy)
                answer = self._answer(clients[i], phase, request, vectors[i])
                sent += len(answer)
                answers.append(answer)
            client_s += clock() - began
            began = clock()
            for answer in answers:
                server.receive(decode(answer))  # type: ignore[arg-type]
            requests = {i: message.to_bytes() for i, message in server.advance().items()}
            server_s += clock() - began
        k, t = session.shape.neighbours, session.shape.threshold
        cost = Cost(n, k, t, 1e3 * client_s / n, 1e3 * server_s / n, received // n, sent // n)
        return server.result(), cost

    @staticmethod
    def _answer(client: SumClient, phase: Phase, request: bytes, values: NDArray[Any]) -> bytes:
        if phase is Phase.ADVERTISE:
            session = Session.from_bytes(request)
            return client.advertise(session, plan="plan", length=len(values)).to_bytes()
        message: Any = decode(request)
        if phase is Phase.SHARE:
            return client.share(message).to_bytes()
        if phase is Phase.MASK:
            return client.mask(message, values).to_bytes()
        if phase is Phase.AGREE:
            return client.agree(message).to_bytes()
        return client.unmask(message).to_bytes()


def vectors_of(clients: int, cells: int) -> NDArray[np.uint32]:
    """Draw counts such as a check would sum."""
    return _RANDOM.integers(0, 1000, (clients, cells), dtype=np.uint32)


def growth(sizes: list[int], cells: int, tolerance: Tolerance, policy: ClientPolicy) -> list[Cost]:
    """Cost of a sum for each n, best of three, without dropouts."""
    costs = []
    for n in sizes:
        federation, vectors = Federation(n), vectors_of(n, cells)
        runs = [federation.run(vectors, tolerance, policy=policy) for _ in range(3)]
        for result, _ in runs:
            if not np.array_equal(result.values, vectors.sum(0, dtype=np.uint32)):
                raise RuntimeError("a sum is wrong")
        costs.append(min((cost for _, cost in runs), key=lambda cost: cost.total_ms))
    return costs


def random_dropouts(runs: int, clients: int, most: float, cells: int) -> Counter[str]:
    """Count sums under random dropouts: exact over the survivors, or given up by name."""
    outcome: Counter[str] = Counter()
    federation = Federation(clients)
    for _ in range(runs):
        vectors = _RANDOM.integers(0, 2**32, (clients, cells), dtype=np.uint32)
        leaves = np.full(clients, NEVER)
        gone = _RANDOM.permutation(clients)[: _RANDOM.integers(0, int(most * clients) + 1)]
        leaves[gone] = _RANDOM.integers(0, 5, len(gone))
        complete = _RANDOM.random() < 0.1
        tolerance = Tolerance(dropout=0.45 if complete else 0.1)
        try:
            result, _ = federation.run(vectors, tolerance, leaves)
        except TooFewSurvivors:
            outcome["given up"] += 1
            continue
        alive = leaves > Phase.MASK
        names = tuple(name for name, there in zip(federation.who, alive, strict=True) if there)
        exact = np.array_equal(result.values, vectors[alive].sum(0, dtype=np.uint32))
        outcome["exact" if exact and result.survivors == names else "WRONG"] += 1
    return outcome


def secaggplus(clients: int, shape: Shape, cells: int, dropped: int) -> float:
    """CPU milliseconds per client of one round of Flower's SecAgg+ on its own primitives.

    As `secaggplus_mod` and `SecAggPlusWorkflow` do, without their transport, on integer vectors
    (no quantisation); `dropped` clients leave before they send theirs. No signatures and no
    consistency round: it has none.
    """
    modulus, threshold = 1 << 32, shape.threshold
    began = time.process_time()
    vectors = [v.astype(np.int64) for v in vectors_of(clients, cells)]
    alive = [i % (clients // dropped) != 0 if dropped else True for i in range(clients)]
    expected = sum(v for v, there in zip(vectors, alive, strict=True) if there) % modulus
    half = shape.neighbours // 2
    steps = range(-half, half + 1)
    beside = {i: [(i + step) % clients for step in steps] for i in range(clients)}

    pairs = [(asymmetric.generate_key_pairs(), asymmetric.generate_key_pairs()) for _ in vectors]
    private = [
        tuple(asymmetric.private_key_to_bytes(secret) for secret, _ in both) for both in pairs
    ]
    public = [tuple(asymmetric.public_key_to_bytes(shown) for _, shown in both) for both in pairs]

    def shared(secret: bytes, j: int, which: int) -> bytes:
        return symmetric_encryption.generate_shared_key(
            asymmetric.bytes_to_private_key(secret),
            asymmetric.bytes_to_public_key(public[j][which]),
        )

    def with_mask(total: Any, key: bytes, add: bool) -> Any:
        mask = pseudo_rand_gen(key, modulus, [(cells,)])
        change = arithmetic.parameters_addition if add else arithmetic.parameters_subtraction
        return change(total, mask)

    kept: list[dict[int, tuple[bytes, bytes]]] = [{} for _ in vectors]
    boxes: list[list[tuple[int, bytes]]] = [[] for _ in vectors]
    channel: list[dict[int, bytes]] = [{} for _ in vectors]
    seeds = [_RANDOM.bytes(32) for _ in vectors]
    for i in range(clients):
        b_shares = shamir.create_shares(seeds[i], threshold, len(steps))
        key_shares = shamir.create_shares(private[i][0], threshold, len(steps))
        for j, b_share, key_share in zip(beside[i], b_shares, key_shares, strict=True):
            if i == j:
                kept[i][i] = b_share, key_share
                continue
            channel[i][j] = shared(private[i][1], j, 1)
            plain = share_keys_plaintext_concat(i, j, b_share, key_share)
            boxes[j].append((i, symmetric_encryption.encrypt(channel[i][j], plain)))

    total = [np.zeros(cells, dtype=np.int64)]
    for i, vector in enumerate(vectors):
        if not alive[i]:
            continue
        for j, box in boxes[i]:
            plain = symmetric_encryption.decrypt(channel[i][j], box)
            kept[i][j] = share_keys_plaintext_separate(plain)[2:]
        masked = with_mask([vector], seeds[i], add=True)
        for j, _ in boxes[i]:
            masked = with_mask(masked, shared(private[i][0], j, 0), add=i > j)
        total = arithmetic.parameters_addition(total, arithmetic.parameters_mod(masked, modulus))

    for i in range(clients):
        shares = [kept[j][i][0 if alive[i] else 1] for j in beside[i] if alive[j]]
        secret = shamir.combine_shares(shares)
        if alive[i]:
            total = with_mask(total, secret, add=False)
            continue
        for j in beside[i]:
            if alive[j]:
                total = with_mask(total, shared(secret, j, 0), add=i > j)
    if not np.array_equal(arithmetic.parameters_mod(total, modulus)[0], expected):
        raise RuntimeError("the SecAgg+ sum is wrong")
    return 1e3 * (time.process_time() - began) / clients


def side_by_side(neighbours: list[int], cells: int, console: Console) -> None:
    """Compare at n=100 with the same neighbours, threshold and dropouts."""
    table = Table(title=f"n=100, {cells} cells: CPU ms per client, server included")
    for head in ("k", "t", "dropped", "SecureSum", "SecAgg+ primitives", "ratio"):
        table.add_column(head, justify="right")
    federation, vectors = Federation(100), vectors_of(100, cells)
    policy = ClientPolicy(corrupted=0.0, min_neighbours=2)
    for k in neighbours:
        shape = Shape(k, (k + 1) // 2 + 1)
        for dropped in (0, 10):
            leaves = np.full(100, NEVER)
            if dropped:
                leaves[:: 100 // dropped] = Phase.MASK
            runs = [
                federation.run(vectors, Tolerance(), leaves, policy, shape)[1] for _ in range(3)
            ]
            ours = min(cost.total_ms for cost in runs)
            theirs = secaggplus(100, shape, cells, dropped)
            numbers = (f"{ours:.2f}", f"{theirs:.1f}", f"{theirs / ours:.0f}×")
            table.add_row(str(k), str(shape.threshold), str(dropped), *numbers)
    console.print(table)


def masking_rate(nbytes: int) -> float:
    """Gigabytes a second of adding one mask, best of 20."""
    vector, best = np.zeros(nbytes // 4, dtype="<u4"), float("inf")
    for _ in range(20):
        began = time.perf_counter()
        apply_masks(vector, [_RANDOM.bytes(32)], [])
        best = min(best, time.perf_counter() - began)
    return nbytes / best / 1e9


def print_growth(console: Console, costs: list[Cost], cells: int, what: str) -> None:
    """Show costs and the fitted exponent of the total."""
    table = Table(title=f"{cells}-cell secure sums, CPU ms per client ({what})")
    for head in ("n", "k", "t", "client", "server", "total", "received", "sent", "over 4·cells"):
        table.add_column(head, justify="right")
    for c in costs:
        extra = c.received + c.sent - 4 * cells
        numbers = [f"{x:.2f}" for x in (c.client_ms, c.server_ms, c.total_ms)]
        sizes = [f"{x:,}" for x in (c.received, c.sent, extra)]
        table.add_row(str(c.clients), str(c.neighbours), str(c.threshold), *numbers, *sizes)
    console.print(table)
    if len(costs) > 1:
        n = np.log([c.clients for c in costs])
        total = np.log([c.clients * c.total_ms for c in costs])
        console.print(f"total CPU grows like n^{np.polyfit(n, total, 1)[0]:.2f}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 200, 500, 1000, 2000])
    parser.add_argument("--cells", type=int, default=1000)
    parser.add_argument("--corrupted", type=float, default=Tolerance().corrupted)
    parser.add_argument("--dropout", type=float, default=Tolerance().dropout)
    parser.add_argument("--collusion", choices=list(Collusion), default=Collusion.CURIOUS)
    parser.add_argument("--runs", type=int, default=0, help="random dropouts at n=100 instead")
    parser.add_argument("--most", type=float, default=0.4, help="largest fraction that drops out")
    parser.add_argument(
        "--neighbours", type=int, nargs="*", default=[24, 48], help="against SecAgg+ at n=100"
    )
    parser.add_argument("--csv", type=Path, help="write the costs here")
    arguments = parser.parse_args()
    console = Console()

    if arguments.runs:
        outcome = random_dropouts(arguments.runs, 100, arguments.most, 16)
        console.print(f"{arguments.runs} runs at n=100, up to {arguments.most:.0%} dropouts:")
        console.print(", ".join(f"{count} {what}" for what, count in outcome.items()))
        sys.exit(1 if outcome["WRONG"] else 0)

    tolerance = Tolerance(
        corrupted=arguments.corrupted,
        dropout=arguments.dropout,
        collusion=Collusion(arguments.collusion),
    )
    policy = ClientPolicy(corrupted=tolerance.corrupted, collusion=tolerance.collusion)
    costs = growth(arguments.sizes, arguments.cells, tolerance, policy)
    what = f"γ={tolerance.corrupted:g} {tolerance.collusion}, δ={tolerance.dropout:g}, σ=40, η=2⁻³⁰"
    print_growth(console, costs, arguments.cells, what)
    console.print(
        f"masking: {masking_rate(1 << 20):.1f} GB/s at 1 MB, "
        f"{masking_rate(1 << 26):.1f} GB/s at 64 MB"
    )
    if arguments.csv:
        with arguments.csv.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow([*vars(costs[0]), "total_ms"])
            writer.writerows([*vars(c).values(), c.total_ms] for c in costs)
    if arguments.neighbours:
        side_by_side(arguments.neighbours, arguments.cells, console)


if __name__ == "__main__":
    main()
