"""``flwr-kld verify``: whether a signed report follows from what was released, offline."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from pathlib import Path
from typing import Annotated

import typer

from flwr_kld.cli.common import LONGEST_REPORT, results
from flwr_kld.guard.receipts import Receipt
from flwr_kld.report.audit import TOLERANCE, NotVerified, read, receipts_of, require_verified
from flwr_kld.report.report import Report
from flwr_kld.report.words import counted, printable, some_of


def verify(
    file: Annotated[
        Path,
        typer.Argument(help="Signed report, as flwr-kld report FILE.json --key writes it."),
    ],
    *,
    receipts: Annotated[
        Path | None,
        typer.Option(help="Folder of copies of nodes' receipts, *.db, to hold against the report."),
    ] = None,
    public: Annotated[
        list[str] | None,
        typer.Option(
            help="Public key of the server or an aggregator, which must have signed, or of a node "
            "whose receipts are there: 64 hexadecimal digits; may be repeated."
        ),
    ] = None,
) -> None:
    """Verify a signed report, offline and without a ledger; say what that proves.

    Signatures are checked, and estimates, verdicts and costs are computed again from the numbers
    that were released. Exit codes: 0 verified, 4 refused or another error.
    """
    with file.open("rb") as opened:
        written = opened.read(LONGEST_REPORT + 1)
    try:
        if len(written) > LONGEST_REPORT:
            raise NotVerified(f"it is longer than {LONGEST_REPORT >> 20} MB")
        report = read(written.decode())
        terms = require_verified(report)
        signers = _signers(report)
        held = None if receipts is None else receipts_of(terms, receipts)
        signed = signers.keys() | {node.hex() for node, _ in held or ()}
        for key in public or ():
            if key not in signed:
                raise NotVerified(f"the holder of {key} did not sign it")
        aggregators = _aggregators(report)
        if (named := aggregators & set(public or ())) and named != aggregators:
            raise NotVerified("an aggregator signed whose key you did not give: one may be made up")
    except ValueError as error:  # which may quote whoever wrote the file
        raise ValueError(f"{file} is refused: {printable(str(error))}") from None
    for line in _proved(report, signers, held, set(public or ())):
        results.print(line, soft_wrap=True, markup=False)


def _aggregators(report: Report) -> Set[str]:
    """Return the public keys by which aggregators signed."""
    return set() if report.evidence is None else {one.public for one in report.evidence.aggregators}


def _signers(report: Report) -> dict[str, str]:
    """Return who signed, by public key."""
    evidence = report.evidence
    if evidence is None:
        return {}
    found = dict.fromkeys(_aggregators(report), "an aggregator")
    return found | {evidence.public: "the server"}


def _receipts(nodes: Sequence[str]) -> str:
    """Count receipts, given the node of each."""
    return f"{counted(len(nodes), 'receipt')} of {counted(len(set(nodes)), 'node')}"


def _proved(
    report: Report,
    signers: dict[str, str],
    held: Sequence[tuple[bytes, Receipt]] | None,
    known: Set[str],
) -> Iterator[str]:
    """Yield what is proved, what rests on whose word, and what is not proved.

    Anybody can write receipts by a key of their own: they prove something of `known` keys only.
    """
    evidence = report.evidence
    if evidence is None:
        return
    yield f"verified: check {report.check} of {report.started}: {report.summary}"
    yield f"signed by {', '.join(f'{who} {key}' for key, who in signers.items())}"
    yield (
        f"proved: estimates, verdicts and {report.guarantee} follow from {len(evidence.values):,} "
        f"released numbers (flwr-kld {evidence.version}, to {TOLERANCE:g})"
    )
    yield f"compare with your copy: the public reference {report.compared.reference}"
    if held is None:
        yield "not looked at: nodes' receipts, --receipts"
    else:
        nodes = [node.hex() for node, _ in held]
        if vouched := [node for node in nodes if node in known]:
            yield f"proved: {_receipts(vouched)}, whose keys you gave, are of this question and ε"
        if others := [node for node in nodes if node not in known]:
            yield (
                f"on the word of whoever gave them: {_receipts(others)} that you named by no "
                f"--public are of this question and ε: {some_of(sorted(set(others)))}"
            )
    vouching = _aggregators(report)
    whose = "the aggregators'" if vouching and vouching <= known else "the server's"
    yield (
        f"on {whose} word: the released numbers are a sum of what {report.cohort.survivors} "
        "clients sent, with fresh noise"
    )
    earlier = ", the evidence of earlier checks" if evidence.adds_up else ""
    yield (
        "on the server's word: its date, what is tolerated and how rare false alarms are to be, "
        "how counts were added up, of noise shares how many clients' may be known, who was left "
        f"out and whether clients were drawn, seconds and the rest of the budget{earlier}"
    )
    if not report.protection.private:
        yield "warning: the noise came from a seed and protects nobody"
    yield (
        "not proved: that clients count true records; that no other check was asked, under another "
        "key or ledger; that the keys are whose they are said to be"
    )
