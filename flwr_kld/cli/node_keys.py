"""``flwr-kld keys``: a node's signing key, and the list of all nodes' public keys."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from flwr_kld.cli.common import print_note, results
from flwr_kld.common.identity import Roster
from flwr_kld.guard import node_identity

_PUBLIC = re.compile("[0-9a-f]{64}")

keys = typer.Typer(
    add_completion=False,
    help="Make the keys that nodes sign with in secure sums, and the roster of their public keys.",
)


@keys.command()
def make(
    file: Annotated[
        Path, typer.Argument(help="The node's key: 32 bytes that only its owner may read.")
    ],
) -> None:
    """Make a node's key, unless the file has one already, and print its public key.

    Run it on the node, as the user that runs its SuperNode. The key stays there; the public key
    goes into the roster.
    """
    if not file.absolute().parent.is_dir():
        raise ValueError(
            f"there is no folder {file.parent}: make it, for example with install -d -m 700 "
            f"{file.parent}"
        )
    try:
        public = node_identity(file).public.hex()
    except PermissionError:
        raise ValueError(
            f"{file} cannot be read or written by you: run this as the user that runs the node"
        ) from None
    except ValueError as error:
        raise ValueError(
            f"{file}: {error}; or give another FILE for a new key, to be listed in a new roster"
        ) from None
    results.print(public, markup=False)
    print_note(f"a node: flower-supernode … --node-config 'drift-identity=\"{file.absolute()}\"'")
    print_note(f"a server that signs reports: FLWR_KLD_SIGNING_KEY={file.absolute()}")


@keys.command()
def roster(
    out: Annotated[Path, typer.Argument(help="Roster to write, .json.")],
    nodes: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME=PUBLIC...",
            help="Each node's name and public key. The name is one that you choose, such as "
            "clinic-a: any text that stands for the node for as long as it has its key. It is "
            "not Flower's node id, which changes.",
        ),
    ],
) -> None:
    """Write the roster: the same file for the server and for every node, which pins it."""
    found: dict[str, bytes] = {}
    for text in nodes:
        name, equals, public = text.rpartition("=")
        if not equals or not name or not _PUBLIC.fullmatch(public):
            raise ValueError(
                f"{text!r} is not NAME=PUBLIC: flwr-kld keys make FILE, on the node, prints its "
                "public key, 64 hexadecimal digits"
            )
        if name in found:
            raise ValueError(f"two nodes of the roster are named {name!r}: give each its own name")
        found[name] = bytes.fromhex(public)
    try:
        made = Roster(found)
    except ValueError as error:
        raise ValueError(f"{error}: run flwr-kld keys make FILE on each node") from None
    if not out.absolute().parent.is_dir():
        raise ValueError(f"there is no folder {out.parent}: make it first")
    out.write_text(made.to_json() + "\n", encoding="utf-8")
    print_note(f"{out}: {len(made)} nodes, fingerprint {made.fingerprint.hex()}")
    print_note(
        f"flower-supernode … --node-config 'drift-roster=\"{out.absolute()}\"', on every node"
    )


def read_roster(file: Path) -> Roster:
    """Read a roster."""
    try:
        return Roster.from_json(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"the roster {file} cannot be read ({error.strerror})") from None
    except Exception as error:  # whatever is wrong with its form
        raise ValueError(f"{file} is not a roster ({error})") from None
