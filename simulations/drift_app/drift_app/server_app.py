"""Server: one private drift check a round."""

from flwr_kld.simulations.simulated_monitor import simulated_monitor

app = simulated_monitor()
