"""Cost of secure sums in one process, and the same sum by Flower's own SecAgg+.

python simulations/bench/secure_sum.py                 # growth with n, SecAgg+ at n=100
python simulations/bench/secure_sum.py --runs 1000     # random dropouts at n=100, sums checked
python simulations/bench/secure_sum.py --exhaustive 5  # every pattern of dropouts of 5 clients

CPU counts everything: clients and server, signatures, the consistency round, and reading and
writing every message. Bytes are those of a client, received and sent.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator
from itertools import product
from statistics import median
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from measuring import Row, measured
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from secaggplus import secaggplus_ms
from sum_dropouts import WRONG, every_pattern, random_patterns
from sum_in_process import NEVER, Cost, Federation, is_sum

from flwr_kld.sums.graph import Collusion, Shape, Tolerance, least_threshold
from flwr_kld.sums.messages import Phase
from flwr_kld.sums.policy import ClientPolicy

_RANDOM = np.random.default_rng(0)


def vectors_of(clients: int, cells: int) -> NDArray[np.uint32]:
    """Draw counts such as a check would sum."""
    return _RANDOM.integers(0, 1000, (clients, cells), dtype=np.uint32)


def growth(
    sizes: list[int], cells: int, tolerance: Tolerance, policy: ClientPolicy, repeats: int
) -> list[Cost]:
    """Cost of a sum for each n without dropouts, the run of median CPU."""
    costs = []
    for n in sizes:
        federation, vectors = Federation(n), vectors_of(n, cells)
        runs = []
        for _ in range(repeats):
            result, cost = federation.run(vectors, tolerance=tolerance, policy=policy)
            if not is_sum(result, vectors.sum(0, dtype=np.uint32)):
                raise RuntimeError("a sum is wrong")
            runs.append(cost)
        costs.append(sorted(runs, key=lambda cost: cost.total_ms)[repeats // 2])
    return costs


def floor_ms(neighbours: int) -> float:
    """CPU milliseconds per client of the bare public-key operations: nothing else, no Python.

    k Ed25519 verifications and 2k X25519 exchanges by the client, a signature on each of its four
    messages, which the server verifies, and two one-use keys.
    """
    text = os.urandom(96)
    signers = [Ed25519PrivateKey.generate() for _ in range(200)]
    verifiers = [key.public_key() for key in signers]
    signatures = [key.sign(text) for key in signers]
    private = [X25519PrivateKey.generate() for _ in range(200)]
    public = [key.public_key() for key in private[1:] + private[:1]]

    def each(operation: Callable[..., object], *arguments: list[Any]) -> float:
        began = time.process_time()
        for one in zip(*arguments, strict=True):
            operation(*one)
        return 1e3 * (time.process_time() - began) / len(arguments[0])

    verify = each(lambda key, signature: key.verify(signature, text), verifiers, signatures)
    exchange = each(lambda key, peer: key.exchange(peer), private, public)
    sign = each(lambda key: key.sign(text), signers)
    make = each(lambda _: X25519PrivateKey.generate(), private)
    return (neighbours + 4) * verify + 2 * neighbours * exchange + 4 * sign + 2 * make


def side_by_side(neighbours: list[int], cells: int, repeats: int, console: Console) -> None:
    """Compare at n=100 with the same neighbours, threshold and dropouts.

    Both open a secret with the fewest holders that withstand 4% of lying clients, as `choose_shape`
    does; SecureSum's clients hold it against their default policy. SecureSum and its floor are
    medians of runs before and after SecAgg+'s one round, which is long: so all three meet the same
    machine.
    """
    table = Table(title=f"n=100, {cells} cells: CPU ms per client, server included")
    for head in ("k", "t", "dropped", "SecureSum", "SecAgg+", "ratio", "floor", "ratio at floor"):
        table.add_column(head, justify="right")
    federation, vectors = Federation(100), vectors_of(100, cells)
    for k, dropped in product(neighbours, (0, 5)):
        shape = Shape(k, least_threshold(100, k, Tolerance(collusion=Collusion.LYING)))
        leaves = np.full(100, NEVER)
        leaves[_RANDOM.permutation(100)[:dropped]] = Phase.MASK
        before = _with_floor(federation, vectors, shape, leaves, repeats)
        theirs = secaggplus_ms(vectors, k, shape.threshold, leaves == Phase.MASK)
        after = _with_floor(federation, vectors, shape, leaves, repeats)
        ours, floor = map(median, zip(*before, *after, strict=True))
        numbers = f"{ours:.2f}", f"{theirs:.0f}", f"{theirs / ours:.0f}×"
        bound = f"{floor:.2f}", f"{theirs / floor:.0f}×"
        table.add_row(str(k), str(shape.threshold), str(dropped), *numbers, *bound)
    console.print(table)
    console.print("floor: the X25519 and Ed25519 operations alone, timed in the same run")


def _with_floor(
    federation: Federation,
    vectors: NDArray[np.uint32],
    shape: Shape,
    leaves: NDArray[np.int64],
    repeats: int,
) -> list[tuple[float, float]]:
    truth = vectors[leaves > Phase.MASK].sum(0, dtype=np.uint32)
    costs = []
    for _ in range(repeats):
        result, cost = federation.run(vectors, shape=shape, leaves=leaves)
        if not is_sum(result, truth):
            raise RuntimeError("a sum is wrong")
        costs.append((cost.total_ms, floor_ms(shape.neighbours)))
    return costs


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


def rows(repeats: int = 5, *, quick: bool = False) -> Iterator[Row]:
    """Sum 1,000 cells among 100 clients beside SecAgg+, and among more and more of them.

    Where it has to be quick, without SecAgg+: a round of it takes half a minute.
    """
    if not quick:
        federation, vectors, stays = Federation(100), vectors_of(100, 1000), np.zeros(100, bool)
        shape = Shape(24, least_threshold(100, 24, Tolerance(collusion=Collusion.LYING)))
        yield measured(
            "secure sum",
            "100 clients, 24 neighbours",
            lambda: _exact(federation, vectors, shape=shape),
            repeats=repeats,
            peer="Flower's SecAgg+",
            theirs=lambda: secaggplus_ms(vectors, 24, shape.threshold, stays) / 10,
        )
    for size in (20, 40) if quick else (100, 1_000, 10_000):
        more, their = Federation(size), vectors_of(size, 1000)
        yield measured(
            "secure sum",
            "clients",
            lambda f=more, v=their: _exact(f, v),
            repeats=repeats if size < 10_000 else 1,
            size=size,
        )


def _exact(federation: Federation, vectors: NDArray[np.uint32], **shape: Shape) -> float:
    """Run one sum, hold it against the truth, and return its CPU seconds."""
    result, cost = federation.run(vectors, **shape)
    if not is_sum(result, vectors.sum(0, dtype=np.uint32)):
        raise RuntimeError("a sum is wrong")
    return len(vectors) * cost.total_ms / 1e3


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--sizes", type=int, nargs="*", default=[100, 200, 500, 1000, 2000])
    parser.add_argument("--cells", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--corrupted", type=float, default=Tolerance().corrupted)
    parser.add_argument("--dropout", type=float, default=Tolerance().dropout)
    parser.add_argument("--collusion", choices=list(Collusion), default=Collusion.CURIOUS)
    parser.add_argument(
        "--neighbours", type=int, nargs="*", default=[24, 48, 99], help="against SecAgg+ at n=100"
    )
    parser.add_argument("--runs", type=int, help="random dropouts at n=100 instead")
    parser.add_argument("--most", type=float, default=0.4, help="largest fraction that drops out")
    parser.add_argument("--exhaustive", type=int, help="all dropouts of so many clients instead")
    arguments = parser.parse_args()
    console = Console()

    if arguments.runs or arguments.exhaustive:
        if arguments.runs:
            outcome = random_patterns(arguments.runs, 100, arguments.most)
        else:
            outcome = every_pattern(arguments.exhaustive)
        console.print(", ".join(f"{count:,} {what}" for what, count in outcome.items()))
        sys.exit(1 if outcome[WRONG] else 0)

    tolerance = Tolerance(
        corrupted=arguments.corrupted,
        dropout=arguments.dropout,
        collusion=Collusion(arguments.collusion),
    )
    policy = ClientPolicy(corrupted=tolerance.corrupted, collusion=tolerance.collusion)
    if arguments.sizes:
        costs = growth(arguments.sizes, arguments.cells, tolerance, policy, arguments.repeats)
        what = f"γ={tolerance.corrupted:g} {tolerance.collusion}, δ={tolerance.dropout:g}"
        print_growth(console, costs, arguments.cells, f"{what}, σ=40, η=2⁻³⁰")
    if arguments.neighbours:
        side_by_side(arguments.neighbours, arguments.cells, arguments.repeats, console)


if __name__ == "__main__":
    main()
