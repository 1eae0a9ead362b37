"""Labels that nobody listed: how often one that so many records share is shown.

    python simulations/studies/discovery.py [--runs 400] [--workers 2] [--out DIR]

One random label, of letters of one to four bytes, among 2,000 records with rare ones of their own,
at δ = 1e-6, held by as many records as reports print, at ε = .5, 1 and 2. A name that nobody has is
wrong; one that a single record has is counted apart. Writes ``discovery.csv`` and ``.json``.
"""

from __future__ import annotations

from operator import itemgetter

import numpy as np

from flwr_kld.infer.label_counts import found_from
from flwr_kld.kernel import Guarantee
from flwr_kld.kernel.law import SeededBits
from flwr_kld.kernel.selection import LONGEST, ClientLabels, LabelSum
from flwr_kld.kernel.vector import Held
from flwr_kld.simulations.studies.runner import Row, generator, in_processes, parser_of, save, show
from flwr_kld.trust.calibration import selection_release

_RARE, _DELTA, _OWN = 2_000, 1e-6, "#"
Setting = tuple[float, int, int]
"""ε, letters, and bytes of each."""
_SETTINGS: list[Setting] = [
    (epsilon, letters, size)
    for epsilon in (0.5, 1.0, 2.0)
    for letters, size in ((12, 1), (40, 1), (20, 2), (10, 4))
]
_ALPHABETS = {1: (ord("a"), 26), 2: (0x430, 32), 4: (0x1F600, 64)}
"""First letter and number of letters, by bytes of each."""


def label(rng: np.random.Generator, letters: int, size: int) -> str:
    """Draw a random one."""
    first, kinds = _ALPHABETS[size]
    return "".join(chr(first + int(i)) for i in rng.integers(0, kinds, letters))


def question(item: tuple[float, int, int, int]) -> Row:
    """Ask once: whether the label is found, how many names are wrong, or of one record."""
    epsilon, letters, size, run = item
    rng = generator("discovery", round(100 * epsilon), letters, size, run)
    name, release = label(rng, letters, size), selection_release(Guarantee(epsilon, _DELTA))
    holders = found_from(release.noise)
    texts = [name.encode()] * holders + [f"{_OWN}{i}".encode() for i in range(_RARE)]
    words = np.array(texts, f"S{LONGEST}").view(np.int64).reshape(len(texts), -1)
    clients = ClientLabels([words[part::20] for part in range(20)])
    rows = Held([clients.to_wire(client) for client in range(20)])
    bits = SeededBits(int(rng.integers(2**62)))
    shown = set(LabelSum([(range(20), rows)]).release(release, bits).labels)
    alone = sum(text.startswith(_OWN) for text in shown)
    return {
        "epsilon": epsilon, "bytes": letters * size, "letter": size, "holders": holders,
        "found": name in shown, "wrong": len(shown - {name}) - alone, "alone": alone,
    }  # fmt: skip


def main() -> None:
    """Run the study."""
    parser = parser_of(__doc__, out="discovery", runs=(400, "questions in each setting"))
    given = parser.parse_args()
    work = [(*setting, run) for setting in _SETTINGS for run in range(given.runs)]
    rows = list(in_processes(question, work, given.workers, "questions"))
    found: list[Row] = []
    kind = itemgetter("epsilon", "bytes", "letter")
    for of in dict.fromkeys(map(kind, rows)):
        own = [r for r in rows if kind(r) == of]
        found.append(
            {
                **dict(zip(("epsilon", "bytes", "letter"), of, strict=True)),
                "holders": max(r["holders"] for r in own),
                "found": float(np.mean([r["found"] for r in own])),
                "wrong": sum(r["wrong"] for r in own),
                "alone": sum(r["alone"] for r in own),
                "questions": len(own),
            }
        )
    show("labels found", found)
    save(found, given.out, "discovery")


if __name__ == "__main__":
    main()
