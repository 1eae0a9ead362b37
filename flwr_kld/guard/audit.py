"""Verify a file of receipts against the node's public key, from the first to the last."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from flwr_kld.guard.receipts import COLUMNS, HEAD, SCHEMA, Head, Receipt, first_link


class ReceiptsTampered(ValueError):
    """The receipts are not those that the node wrote; says where that shows."""


@dataclass(frozen=True)
class Audit:
    """A file of receipts that holds together."""

    receipts: tuple[Receipt, ...]  # All of them, in order
    head: str  # Digest of the last one. Keep it: the next audit can ask for it.
    public: bytes  # The key that signed them


def verify(path: str | Path, public: bytes | None = None, *, head: str | None = None) -> Audit:
    """Verify every signature and link.

    Parameters
    ----------
    path : str or Path
        The SQLite file.
    public : bytes, optional
        The node's public key, as the auditor knows it. By default the one that the file names:
        then the file may have been written anew with another key.
    head : str, optional
        `Audit.head` of an earlier audit, which must be part of the chain: without it, a file that
        was put back to an older state looks whole.

    Raises
    ------
    ReceiptsTampered
        What is wrong, and at which receipt.
    sqlite3.Error
        If it is not a readable file of receipts, as this version writes them.
    """
    uri = f"{Path(path).resolve().as_uri()}?mode=ro"
    with closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as db:
        SCHEMA.require(db, Path(path))
        db.execute("BEGIN")  # one state of the file
        rows = db.execute(f"SELECT {COLUMNS} FROM receipts ORDER BY number").fetchall()
        end = db.execute(HEAD).fetchone()
    if end is None:
        raise ReceiptsTampered("the signed end of the chain is missing")
    last = Head(*end)
    if public is not None and public != last.public:
        raise ReceiptsTampered("the receipts were signed with another key")
    try:
        key = Ed25519PublicKey.from_public_bytes(last.public)
    except (TypeError, ValueError):
        raise ReceiptsTampered("the public key is not readable") from None
    receipts, link, before = [], first_link(last.public), 0
    links = {link}
    for number, row in enumerate(rows, start=1):
        receipt = Receipt(*row)
        _signed(key, receipt, f"receipt {number} was changed, or its signature")
        if receipt.number != number:
            raise ReceiptsTampered(f"receipt {number} is missing")
        if receipt.previous != link:
            raise ReceiptsTampered(f"receipt {number} does not follow the one before it")
        if receipt.time < before:
            raise ReceiptsTampered(f"receipt {number} is older than the one before it")
        receipts.append(receipt)
        link, before = receipt.digest, receipt.time
        links.add(link)
    _signed(key, last, "the signed end of the chain was changed")
    if (last.number, last.digest) != (len(receipts), link):
        raise ReceiptsTampered("receipts are missing at the end")
    if head is not None and head not in links:
        raise ReceiptsTampered("the receipt that an earlier audit ended with is missing")
    return Audit(tuple(receipts), link, last.public)


def _signed(key: Ed25519PublicKey, what: Receipt | Head, wrong: str) -> None:
    try:
        key.verify(what.signature, what.text)
    except (InvalidSignature, TypeError, ValueError):
        raise ReceiptsTampered(wrong) from None
