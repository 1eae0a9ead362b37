"""Write docs/vectors: of each kind of message some that are read, and some that are refused.

PYTHONPATH=tests python tests/trust/make_vectors.py
"""

import json
import math
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any

from trust.vector_forms import GONE, Kind, claim, counts

from flwr_kld.ask.period import Period
from flwr_kld.ask.unlisted_labels import UnlistedLabels
from flwr_kld.kernel import Guarantee
from flwr_kld.kernel.count import ClientSizes
from flwr_kld.kernel.promise import Allotment, WholeClients
from flwr_kld.trust.envelopes import (
    Answer,
    Hosted,
    Members,
    Order,
    PartMessage,
    Published,
    Signers,
    Verifiers,
)
from flwr_kld.trust.terms import AggregatorNoise, ChannelNoise, NoiseShares, RecordCounts, Terms

FOLDER = Path(__file__).parents[2] / "docs/vectors"
KEY = "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a"
SIG = 2 * KEY
WIRE = bytes.fromhex("789c63606060606462666661656380000000870029")


CLIENTS = Guarantee(1.0, 1e-9, WholeClients(100))
NIGHT = Period("visited", "2026-11-24", "2026-11-25")
TERMS = Terms(
    check="00f1e2d3c4b5a697", domain="d" * 64, plan="f" * 64, cells=[4],
    wire=WIRE, guarantee=Guarantee(0.5), asked=20, until=1796000000,
)  # fmt: skip
OF_CLIENTS = replace(
    TERMS, check="00f1e2d3c4b5a698", guarantee=CLIENTS, most_records=100, noise=NoiseShares(5)
)  # fmt: skip
OF_SHARES = replace(TERMS, noise=NoiseShares(5))
SEALED = replace(TERMS, noise=AggregatorNoise((KEY,)))
SPLIT = replace(
    TERMS,
    noise=AggregatorNoise((KEY, "ab" * 32)),
    cells=[2, 2],
    asked_for=RecordCounts(Allotment((3, 5))),
)
OF_LABELS = replace(
    TERMS, cells=[1], guarantee=Guarantee(0.5, 1e-9), asked_for=UnlistedLabels("job")
)
KINDS = {
    "terms": Kind(
        Terms,
        {
            "every record": TERMS,
            "whole clients are protected by noise that they add": OF_CLIENTS,
            "records of a night": replace(TERMS, asked_for=RecordCounts(Allotment.even(1), NIGHT)),
            "numbers at grid points within their bins": replace(
                TERMS, asked_for=RecordCounts(Allotment.even(1), rounded=True)
            ),
            "clients add the noise": OF_SHARES,
            "each client's label has noise of its own": replace(TERMS, noise=ChannelNoise()),
            "an aggregator adds the noise": SEALED,
            "each of two aggregators adds the noise, to a table of two columns": SPLIT,
            "unlisted labels": OF_LABELS,
            "unlisted labels, for an aggregator": replace(
                OF_LABELS, noise=AggregatorNoise((KEY,))
            ),
        },
        {
            "another version": {"version": 2},
            "no version": {"version": GONE},
            "the version is a real number": {"version": 1.0},
            "a field too many": {"more": 1},
            "a field too few, though it has a usual value": {"most_records": GONE},
            "epsilon is a whole number": {"guarantee": claim(epsilon=1)},
            "epsilon is not finite": {"guarantee": claim(epsilon=math.inf)},
            "epsilon is no number": {"guarantee": claim(epsilon=math.nan)},
            "epsilon is zero": {"guarantee": claim(epsilon=0.0)},
            "delta is one": {"guarantee": claim(delta=1.0)},
            "a household is protected": {"guarantee": claim(protects="household")},
            "whole clients of another size than is counted": {
                "guarantee": claim(protects={"most_records": 5})
            },
            "no cells": {"cells": [0]},
            "cells as a number": {"cells": 4},
            "more cells than a client counts": {"cells": [2**24, 1]},
            "an id with a line break": {"check": "a\nb"},
            "an id that is too long": {"check": "0" * 65},
            "cells as text": {"wire": "text"},
            "a period of no end": {
                "asked_for": counts().replace("null", '{"column":"visited","start":"2026-11-24"}')
            },
            "what is asked for is not JSON": {"asked_for": "[" * 50},
            "more columns than a table may have": {"cells": [1] * 4097},
            "counts and labels at once": {
                "asked_for": counts().replace("{", '{"column":"job",', 1)
            },
            "noise with a space": {"noise": " null"},
            "noise that is missing": {"noise": GONE},
            "shares for nobody": {
                "noise": '{"n_min":0}',
            },
            "a key that is too short": {
                "noise": '{"keys":["00"]}'
            },
            "labels of four columns": {"asked_for": '{"column":"job"}'},
            "labels of no column": {"asked_for": "{}"},
            "one key for both aggregators": {
                "noise": f'{{"keys":["{KEY}","{KEY}"]}}'
            },
        },
    ),
    "answer": Kind(
        Answer,
        {
            "one member answered, one did not": Answer(
                "f" * 64, [0], ["this node does not host the client"]
            ),
            "the terms were refused": Answer("", [], ["the terms of the check: käse ✓"]),
        },
        {
            "another version": {"version": 2},
            "a field too many": {"more": 1},
            "a field too few": {"reasons": GONE},
            "a member that is no number": {"answered": ["0"]},
            "a negative member": {"answered": [-1]},
            "a reason that is no text": {"reasons": [1]},
            "a space after a comma": lambda text: text.replace(",", ", ", 1),
            "a field twice": lambda text: text.replace("{", '{"answered":[0],', 1),
            "not JSON": lambda text: text[:-1],
        },
    ),
    "period": Kind(
        Period,
        {"a night": NIGHT},
        {
            "a field too many": {"groups": 10},
            "it ends before it begins": {"end": "2026-11-23"},
            "of no column": {"column": ""},
            "in another form": {"start": "20261124"},
            "another order of the fields": lambda text: (
                text.replace('"column":"visited",', "")[:-1] + ',"column":"visited"}'
            ),
        },
    ),
    "members": Kind(
        Members,
        {"two clients of a node": Members([0, 3])},
        {
            "a member twice": {"members": [0, 0]},
            "a member that is a truth value": {"members": [True]},
            "a member below zero": {"members": [-1]},
            "a field too many": {"more": 1},
        },
    ),
    "order": Kind(
        Order,
        {"of three clients at least": Order(3), "with more boxes to come": Order(3, True)},
        {
            "more as a number": {"more": 1},
            "a minimum as text": {"least": "3"},
            "a minimum below zero": {"least": -1},
            "no minimum": {"least": GONE},
        },
    ),
    "part": Kind(
        PartMessage,
        {
            "one number of three clients": PartMessage(
                "c", 3, bytes(32), b"\x01" + bytes(7), {}, None, 0, b"box"
            )
        },
        {
            "numbers as text": {"values": "1"},
            "no clients": {"clients": GONE},
            "records below zero": {"records": -1},
        },
    ),
    "verifiers": Kind(
        Verifiers,
        {"sealed for the second aggregator": Verifiers("c", b"box")},
        {"no box": {"box": GONE}, "a box as text": {"box": "box"}},
    ),
    "hosted": Kind(
        Hosted,
        {"two clients": Hosted((0, 3)), "no client": Hosted(())},
        {
            "a list of the record's own": {"members": [0, 3]},
            "a number as a real number": {"members": "[0.0,3]"},
            "a number below zero": {"members": "[-1]"},
            "a client twice": {"members": "[0,3,0]"},
        },
    ),
    "signers": Kind(
        Signers,
        {
            "one signs, one cannot": Signers(
                {"0": ("hospital-0", KEY, SIG)}, ("the client cannot sign (KeyError)",)
            )
        },
        {
            "a member in another spelling": {"signers": f'{{"00":["hospital-0","{KEY}","{SIG}"]}}'},
            "a key that is too short": {"signers": f'{{"0":["hospital-0","85","{SIG}"]}}'},
            "a key in capitals": {"signers": f'{{"0":["hospital-0","{KEY.upper()}","{SIG}"]}}'},
            "no key": {"signers": '{"0":["hospital-0"]}'},
            "no signature": {"signers": f'{{"0":["hospital-0","{KEY}"]}}'},
        },
    ),
    "published": Kind(
        Published,
        {
            "four noised counts; one client was left out": Published(
                "00f1e2d3c4b5a697", 19, 1900.0,
                b"".join(n.to_bytes(8, "little", signed=True) for n in (190, 381, -2, 1331)),
                {"7:0": "NotOpened: the sealed counts are cut short"}, True,
                ClientSizes(1900, 400, "3:0", 0, 101.5),
            ),
            "labels that are shown, with their counts": Published(
                "00f1e2d3c4b5a697", 19, 0.0,
                b"".join(n.to_bytes(8, "little", signed=True) for n in (61, 17)),
                {}, True, None, labels=("baker", "Köchin"),
            ),
        },
        {
            "labels that are numbers": {"labels": "[7]"},
            "labels with a space": {"labels": "[ ]"},
            "labels that are missing": {"labels": GONE},
            "fewer than no clients": {"clients": -1},
            "clients as a truth value": {"clients": True},
            "records that are no number": {"records": math.nan},
            "fewer than no records": {"records": -0.5},
            "reasons as a list": {"rejected": "[]"},
            "a reason that is a number": {"rejected": '{"why":-3}'},
            "counts as a list": {"values": [190, 381, -2, 1331]},
            "sizes of no records": {
                "sizes": '{"holder":"3:0","largest":0,"others":0.0,"records":0,"single":0}'
            },
            "more records of one client than of all": {
                "sizes": '{"holder":"3:0","largest":9,"others":0.0,"records":8,"single":0}'
            },
            "fewer than no other records": {
                "sizes": '{"holder":"3:0","largest":9,"others":-1.0,"records":9,"single":0}'
            },
            "no word of sizes": {"sizes": GONE},
        },
    ),
}  # fmt: skip


def meaning(value: Any) -> Any:
    """Spell out a value, one entry a field, bytes in hexadecimal."""
    if is_dataclass(value):
        return {field.name: meaning(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple):
        return [meaning(one) for one in value]
    if isinstance(value, dict):
        return {name: meaning(one) for name, one in value.items()}
    return value.hex() if isinstance(value, bytes) else value


def refusal(kind: Kind, message: Any) -> str:
    try:
        kind.read(message)
    except ValueError as error:
        return str(error)
    raise AssertionError(f"this message was read: {message}")


def vectors(name: str) -> dict[str, Any]:
    """Return the content of one file."""
    kind = KINDS[name]
    tampered = {note: kind.tamper(change) for note, change in kind.tampered.items()}
    return {
        "kind": name,
        "form": "text" if kind.is_text else "record",
        "valid": [
            {"note": note, "message": kind.write(value), "meaning": meaning(value)}
            for note, value in kind.values.items()
        ],
        "tampered": [
            {"note": note, "message": message, "refusal": refusal(kind, message)}
            for note, message in tampered.items()
        ],
    }


def text(name: str) -> str:
    """Write a file, a line for each message."""
    content = vectors(name)
    lines = {
        part: ",\n".join(json.dumps(case, ensure_ascii=False, allow_nan=False) for case in cases)
        for part, cases in content.items()
        if isinstance(cases, list)
    }
    head = "".join(f'"{key}": "{content[key]}",\n' for key in ("kind", "form"))
    body = ",\n".join(f'"{part}": [\n{cases}\n]' for part, cases in lines.items())
    return f"{{\n{head}{body}\n}}\n"


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for each in KINDS:
        (FOLDER / f"{each}.json").write_text(text(each), encoding="utf-8")
