"""Labels that nobody listed: how often a name that so many records share is found.

    python simulations/studies/discovery.py [--way text] [--runs 40] [--workers 2] [--out DIR]

One random label among 2,000 records with rare ones of their own, at δ = 1e-6 under add-remove, held
by as many records as reports print, at ε = .5, 1 and 2. By sums, with the noise of a whole question
and the server's own search; noise is drawn as normal; lower-case letters of 4 to 40 bytes, and
Cyrillic ones of 16. By text, as a trusted server is told them and shows them; letters of one to
four bytes. A name that nobody has is wrong; one that a single record has is told of apart. Writes
``discovery.csv`` and ``.json``.
"""

from __future__ import annotations

import math
from operator import itemgetter

import numpy as np

from flwr_kld.calibration.central import selection_release
from flwr_kld.domain.tree_code import POSITIONS, SYMBOLS, cut, encoded
from flwr_kld.inference.label_counts import found_from
from flwr_kld.inference.label_search import Search
from flwr_kld.kernel.law import SeededBits
from flwr_kld.kernel.promise import Adjacency
from flwr_kld.kernel.selection import LONGEST, ClientLabels, LabelSum
from flwr_kld.kernel.vector import Held
from flwr_kld.simulations.studies.runner import Row, generator, in_processes, parser_of, save, show
from flwr_kld.trust.trusted import Trusted

_RARE, _DELTA, _OWN = 2_000, 1e-6, "#"
Setting = tuple[str, float, int, int]
"""Way, ε, letters, and bytes of each."""
_SETTINGS: list[Setting] = [
    *(("sums", 1.0, size, 1) for size in (4, 8, 12, 16, 24, 32, 40)),
    ("sums", 1.0, 8, 2),
    ("sums", 0.5, 12, 1),
    ("sums", 2.0, 12, 1),
    *(
        ("text", epsilon, letters, size)
        for epsilon in (0.5, 1.0, 2.0)
        for letters, size in ((12, 1), (40, 1), (20, 2), (10, 4))
    ),
]
_ALPHABETS = {1: (ord("a"), 26), 2: (0x430, 32), 4: (0x1F600, 64)}
"""First letter and number of letters, by bytes of each."""


def label(rng: np.random.Generator, letters: int, size: int) -> str:
    """Draw a random one."""
    first, kinds = _ALPHABETS[size]
    return "".join(chr(first + int(i)) for i in rng.integers(0, kinds, letters))


def question(item: tuple[str, float, int, int, int]) -> Row:
    """Ask once: whether the label is found, how many names are wrong, or of one record."""
    way, epsilon, letters, size, run = item
    rng = generator("discovery", round(100 * epsilon), letters, size, run)
    trust = Trusted(epsilon, _DELTA, adjacency=Adjacency.ADD_REMOVE)
    name, ask = label(rng, letters, size), _by_sums if way == "sums" else _by_text
    holders, shown = ask(trust, rng, name, run)
    alone = sum(text.startswith(_OWN) for text in shown)
    return {
        "way": way, "epsilon": epsilon, "bytes": letters * size, "letter": size, "holders": holders,
        "found": name in shown, "wrong": len(shown - {name}) - alone, "alone": alone,
    }  # fmt: skip


def _by_text(trust: Trusted, rng: np.random.Generator, name: str, run: int) -> tuple[int, set[str]]:
    """Return how many records have the label, and which labels are shown."""
    release = selection_release(trust.guarantee)
    holders = found_from(release.noise)
    texts = [name.encode()] * holders + [f"{_OWN}{i}".encode() for i in range(_RARE)]
    words = np.array(texts, f"S{LONGEST}").view(np.int64).reshape(len(texts), -1)
    told = ClientLabels([words[part::20] for part in range(20)])
    rows = Held([told.to_wire(client) for client in range(20)])
    seed = int(rng.integers(2**62))
    return holders, set(LabelSum([(range(20), rows)]).release(release, SeededBits(seed)).labels)


def _by_sums(trust: Trusted, rng: np.random.Generator, name: str, run: int) -> tuple[int, set[str]]:
    """Return how many records have the label, and which labels are shown."""
    variance, salt = trust.over(POSITIONS).event(1).noise.variance, f"{run}"
    sums = rng.multinomial(_RARE, np.full(SYMBOLS, 1 / SYMBOLS), size=POSITIONS).astype(float)
    sums += rng.normal(0, math.sqrt(variance), sums.shape)
    holders = math.ceil(Search(sums, variance, salt).needed(len(name.encode())))
    for place in range(POSITIONS):
        sums[place, encoded([cut(name)], salt, place)[0]] += holders
    return holders, {one.text for one in Search(sums, variance, salt).run()}


def main() -> None:
    """Run the study."""
    parser = parser_of(__doc__, out="discovery", runs=(40, "questions in each setting"))
    parser.add_argument("--way", choices=("sums", "text"), help="one of the two; by default both")
    given = parser.parse_args()
    asked = [setting for setting in _SETTINGS if given.way in (None, setting[0])]
    work = [(*setting, run) for setting in asked for run in range(given.runs)]
    rows = list(in_processes(question, work, given.workers, "questions"))
    found: list[Row] = []
    kind = itemgetter("way", "epsilon", "bytes", "letter")
    for of in dict.fromkeys(map(kind, rows)):
        own = [r for r in rows if kind(r) == of]
        found.append(
            {
                **dict(zip(("way", "epsilon", "bytes", "letter"), of, strict=True)),
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
