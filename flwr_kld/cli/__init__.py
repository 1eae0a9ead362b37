"""The command line, ``flwr-kld``. It knows no Flower: it runs the ``flwr`` command."""
