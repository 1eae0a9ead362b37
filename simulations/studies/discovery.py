"""Labels that nobody listed: how often a name that so many records share is found.

    python simulations/studies/discovery.py [--runs 40] [--workers 2] [--out DIR]

One random label among 2,000 records with rare ones of their own, at δ = 1e-6 under add-remove, with
the noise of a whole question and the server's own search; noise is drawn as normal. Lower-case
letters of 4 to 40 bytes, and Cyrillic ones of 16, held by as many records as reports print, and at
ε = .5, 1 and 2. Writes ``discovery.csv`` and ``.json``.
"""

from __future__ import annotations

import math

import numpy as np

from flwr_kld.domain.tree_code import POSITIONS, SYMBOLS, cut, encoded
from flwr_kld.inference.label_search import Search
from flwr_kld.kernel.promise import Adjacency
from flwr_kld.simulations.studies.runner import Row, generator, in_processes, parser_of, save, show
from flwr_kld.trust.trusted import Trusted

_RARE, _DELTA = 2_000, 1e-6
_SETTINGS = [
    *((1.0, size, 1) for size in (4, 8, 12, 16, 24, 32, 40)),
    (1.0, 8, 2),
    (0.5, 12, 1),
    (2.0, 12, 1),
]
"""ε, letters, and bytes of each."""


def label(rng: np.random.Generator, letters: int, size: int) -> str:
    """Draw a random one."""
    first, kinds = (ord("a"), 26) if size == 1 else (0x430, 32)
    return "".join(chr(first + int(i)) for i in rng.integers(0, kinds, letters))


def question(item: tuple[float, int, int, int]) -> Row:
    """Ask once: whether the label is found, and how many names are wrong."""
    epsilon, letters, size, run = item
    rng = generator("discovery", round(100 * epsilon), letters, size, run)
    trust = Trusted(epsilon, _DELTA, adjacency=Adjacency.ADD_REMOVE).over(POSITIONS)
    variance, name, salt = trust.event(1).noise.variance, label(rng, letters, size), f"{run}"
    sums = rng.multinomial(_RARE, np.full(SYMBOLS, 1 / SYMBOLS), size=POSITIONS).astype(float)
    sums += rng.normal(0, math.sqrt(variance), sums.shape)
    holders = math.ceil(Search(sums, variance, salt).needed(letters * size))
    for place in range(POSITIONS):
        sums[place, encoded([cut(name)], salt, place)[0]] += holders
    found = [one.text for one in Search(sums, variance, salt).run()]
    return {
        "epsilon": epsilon, "bytes": letters * size, "letter": size, "holders": holders,
        "found": name in found, "wrong": len(set(found) - {name}),
    }  # fmt: skip


def main() -> None:
    """Run the study."""
    given = parser_of(__doc__, out="discovery", runs=(40, "questions in each setting")).parse_args()
    work = [(*setting, run) for setting in _SETTINGS for run in range(given.runs)]
    rows = list(in_processes(question, work, given.workers, "questions"))
    found: list[Row] = []
    for of in dict.fromkeys((r["epsilon"], r["bytes"], r["letter"]) for r in rows):
        own = [r for r in rows if (r["epsilon"], r["bytes"], r["letter"]) == of]
        found.append(
            {
                **dict(zip(("epsilon", "bytes", "letter"), of, strict=True)),
                "holders": max(r["holders"] for r in own),
                "found": float(np.mean([r["found"] for r in own])),
                "wrong": sum(r["wrong"] for r in own),
                "questions": len(own),
            }
        )
    show("labels found", found)
    save(found, given.out, "discovery")


if __name__ == "__main__":
    main()
