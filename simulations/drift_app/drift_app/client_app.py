"""Clients: virtual writers, many on a node."""

from flwr_kld.simulations.virtual_clients import virtual_clients

app = virtual_clients()
