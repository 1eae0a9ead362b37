"""``flwr-kld serve``: a live, read-only page over the ledger."""

from __future__ import annotations

import os
import socket
import ssl
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated

import typer

from flwr_kld.cli.common import DEFAULT_LEDGER, LedgerUrl, print_note
from flwr_kld.cli.ledger_url import require_ledger
from flwr_kld.common.extras import require

TOKEN = "FLWR_KLD_SERVE_TOKEN"
_STOPPED = (130, 143)
"""Exit codes of SIGINT and SIGTERM, by which services are stopped."""


def serve(
    *,
    ledger: LedgerUrl = DEFAULT_LEDGER,
    address: Annotated[
        str, typer.Option(help="Address to listen on; by default this machine only.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen on; 0 for any that is free.")
    ] = 8600,
    token_file: Annotated[
        Path | None,
        typer.Option(help=f"File that holds the token; without it, {TOKEN} may hold it."),
    ] = None,
    certificate: Annotated[
        Path | None, typer.Option(help="Certificate chain for TLS, PEM; with --key.")
    ] = None,
    key: Annotated[Path | None, typer.Option(help="Private key for TLS, PEM.")] = None,
) -> None:
    """Serve a live page over the ledger until stopped by SIGTERM or Ctrl-C. It changes nothing.

    It shows budgets, verdicts over time, columns, and each check's report. On an address other than
    this machine's, a token is required: browsers ask for it as a password, with any name.
    """
    import uvicorn  # these take a second, which other commands need not wait for

    from flwr_kld.ledger.read_only import LedgerView
    from flwr_kld.serve.door import Door
    from flwr_kld.serve.pages import Pages, site

    try:
        token = token_file.read_text("utf-8").strip() if token_file else os.environ.get(TOKEN)
    except UnicodeDecodeError:
        raise ValueError(f"{token_file} is not UTF-8 text: write the token as such") from None
    if token is None and not _is_loopback(address):
        raise ValueError(
            f"on {address} others can see this page, so a token is required: give --token-file, or "
            f"set {TOKEN}. Make one with openssl rand -hex 32"
        )
    if (certificate is None) != (key is None):
        raise ValueError("TLS needs both --certificate and --key")
    for file in filter(None, (certificate, key)):
        file.open().close()  # whoever loads it would not name it
    require("jinja2", extra="plots")  # sooner than with the first page
    require_ledger(ledger)
    view = LedgerView(ledger)
    settings = uvicorn.Config(
        Door(site(Pages(view)), token=token), log_config=None, log_level="warning",
        access_log=False, lifespan="off", ws="none", server_header=False,
        timeout_graceful_shutdown=3, ssl_certfile=certificate, ssl_keyfile=key,
    )  # fmt: skip
    try:
        settings.load()  # sooner than it says where the page is
    except ssl.SSLError as error:
        why = f"are not a certificate chain and its private key, PEM ({error.reason})"
        raise ValueError(f"{certificate} and {key} {why}") from None
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.create_server((address, port), family=family) as listening:
        host = f"[{address}]" if ":" in address else address
        scheme = "https" if certificate else "http"
        print_note(
            f"{scheme}://{host}:{listening.getsockname()[1]}/ shows {view.name}; stop with Ctrl-C"
        )
        if token is not None and not certificate and not _is_loopback(address):
            print_note(
                "token and pages cross the network unencrypted: give --certificate and --key"
            )
        try:
            uvicorn.Server(settings).run(sockets=[listening])
        except SystemExit as end:
            if end.code not in _STOPPED:
                raise
    print_note("stopped")


def _is_loopback(address: str) -> bool:
    """Whether an address is reached from this machine only."""
    try:
        return address == "localhost" or ip_address(address).is_loopback
    except ValueError:
        return False
