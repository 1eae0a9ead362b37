"""The command line, ``flwr-kld``. It knows no Flower: it runs the ``flwr`` command."""

from flwr_kld.cli.app import app, main

__all__ = ["app", "main"]
