"""``flwr-kld guard`` and ``flwr-kld receipts``: a node's limits, and what it answered."""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Annotated

import typer

from flwr_kld.cli.common import AsJson, print_json, results, utc
from flwr_kld.common.errors import QueryRefused
from flwr_kld.guard import node_identity, read_limits, verify
from flwr_kld.guard.limits import Limits
from flwr_kld.guard.receipts import Audit, Receipt, spent_by_client
from flwr_kld.ledger.budget import in_days, shown
from flwr_kld.report.words import counted, printable, table_of

guard = typer.Typer(add_completion=False, help="Inspect a node's guard file.")

_HEX = re.compile("[0-9a-f]{64}")


@guard.callback()
def of_guard() -> None:
    """Inspect a node's guard file."""  # with one command, typer would drop its name


@guard.command()
def check(
    file: Annotated[Path, typer.Argument(help="The node's guard file, .toml.")],
) -> None:
    """Say whether a guard file and its receipts are sound, and what is left; changes nothing.

    Run it on the node, as the user that runs its SuperNode.
    """
    limits = _limits(file)
    period = f"in any {in_days(float(limits.period.days))}"
    results.print(
        f"{file}: sound; at most epsilon {shown(limits.check.max_epsilon)} a check, "
        f"{shown(limits.period.max_epsilon)} {period}, for each {limits.protects}",
        soft_wrap=True,
        markup=False,
    )
    for line in (_training(limits), *_state(limits)):
        results.print(f"  {line}", soft_wrap=True, markup=False)


def _limits(file: Path) -> Limits:
    """Read a guard file; an error names it."""
    try:
        return read_limits(file)
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from None


def _training(limits: Limits) -> str:
    """Say which rounds of training an app with `guard_training` answers, and by whose noise."""
    training = limits.training
    if training is None:
        return "training: no round is answered"
    whose = "the server claims" if training.own_clipping_norm is None else "this node adds"
    return (
        f"training: at most {counted(training.max_rounds, 'round')} in any "
        f"{in_days(float(training.days))}, each of at most epsilon {shown(training.max_epsilon)} "
        f"at delta {shown(training.max_delta)} by the noise that {whose}"
    )


def _state(limits: Limits) -> Iterator[str]:
    """Say what has been answered, and what is left for the client that is charged most."""
    for place in (limits.receipts, limits.key):
        if not place.parent.is_dir():
            raise ValueError(f"there is no folder {place.parent}: make it for the node's user")
    public = node_identity(limits.key).public if limits.key.exists() else None
    if not limits.receipts.exists():
        yield f"nothing answered yet: {limits.receipts} is made with the first answer"
        return
    with _readable(limits.receipts):
        if public is None:
            raise ValueError(f"the key that signed it is gone: restore {limits.key}")
        audit = verify(limits.receipts, public)
        try:
            now = int(time.time())
            spent = spent_by_client(limits.receipts, limits, now)
        except QueryRefused as error:
            raise ValueError(f"every check is refused: {error}") from None
    rounds = sum(one.of_training for one in audit.receipts)
    answered = counted(len(audit.receipts) - rounds, "check") + (
        f" and {counted(rounds, 'round')} of training" if rounds else ""
    )
    yield f"{limits.receipts}: sound; {answered} answered"
    most = limits.period.max_epsilon, limits.period.max_delta
    nobody = "", (Fraction(0), Fraction(0))
    account, used = max(spent.items(), key=lambda one: one[1], default=nobody)
    left = [max(limit - one, Fraction(0)) for limit, one in zip(most, used, strict=True)]
    whose = " for the client charged most" if len(spent) > 1 else ""
    counting = (
        max(one.time, one.until) + limits.period.seconds
        for one in audit.receipts
        if one.account == account and not one.of_training
    )
    frees = min((end for end in counting if end >= now), default=None)
    more = "" if frees is None else f"; more from {utc(datetime.fromtimestamp(frees + 60, UTC))} on"
    yield (
        f"left{whose}: epsilon {shown(left[0])} of {shown(most[0])}, "
        f"delta {shown(left[1])} of {shown(most[1])}{more}"
    )


def receipts(
    file: Annotated[Path, typer.Argument(help="File that the guard's key receipts names.")],
    *,
    public: Annotated[
        str | None,
        typer.Option(help="Public key that the node must have, 64 hexadecimal digits."),
    ] = None,
    head: Annotated[
        str | None, typer.Option(help="Head of an earlier audit, which must be in the file.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List what a node answered, once each signature is verified; changes nothing."""
    for name, given in (("--public", public), ("--head", head)):
        if given is not None and not _HEX.fullmatch(given):
            raise ValueError(f"{name} takes 64 hexadecimal digits, not {given!r}")
    with _readable(file):
        audit = verify(file, None if public is None else bytes.fromhex(public), head=head)
    if as_json:
        print_json([_row(receipt) for receipt in audit.receipts])
        return
    results.print(_table(audit.receipts))
    results.print(*_summary(audit), sep="\n", soft_wrap=True, markup=False)


@contextmanager
def _readable(file: Path) -> Iterator[None]:
    """Name the file in whatever is wrong with it."""
    if not file.is_file():
        raise ValueError(
            f"there is no file {file}: either its node has answered no check, as refusals leave no "
            "receipt, or the key receipts of the guard file names another file"
        )
    try:
        yield
    except (sqlite3.Error, ValueError) as error:
        raise ValueError(f"{file}: {error}") from None


def _row(receipt: Receipt) -> dict[str, object]:
    return {
        name: float(value) if isinstance(value, Fraction) else value
        for name, value in asdict(receipt).items()
        if not isinstance(value, bytes)
    }


def _table(receipts: Sequence[Receipt]) -> object:
    return table_of(
        ("receipt", "time (UTC)", "check", "client", "trust", "ε", "δ", "night"),
        (
            (
                (
                    str(one.number),
                    utc(datetime.fromtimestamp(one.time, UTC)).removesuffix(" UTC"),
                    printable(one.check),
                    printable(one.account),
                    printable(one.trust),
                    shown(one.epsilon),
                    shown(one.delta),
                    str(one.night or ""),
                ),
                False,
            )
            for one in receipts
        ),
        left=("check", "client", "trust"),
    )


def _summary(audit: Audit) -> Iterator[str]:
    """Say what they come to, and what the next audit needs."""
    checks = [one for one in audit.receipts if not one.of_training]
    spends = {one.session or str(one.number): one.epsilon for one in checks}
    answered, total = counted(len(checks), "check"), shown(sum(spends.values(), Fraction(0)))
    yield f"{answered} answered; refused checks leave no receipt, but a line in the node's log"
    yield f"{counted(len(spends), 'charge')}, epsilon {total} in all"
    if checks:
        end = datetime.fromtimestamp(max(one.until for one in checks), UTC)
        yield f"the last of these answers may be released until {utc(end)}"
    if rounds := len(audit.receipts) - len(checks):
        yield f"{counted(rounds, 'round')} of training, each of its own epsilon"
    yield f"signed by {audit.public.hex()}"
    yield f"for the next audit: --head {audit.head}"
