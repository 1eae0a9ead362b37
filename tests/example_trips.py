"""Records of the nodes of the nightly example; as a command, trips.csv in each of some folders."""

import csv
import sys
from pathlib import Path

import numpy as np

TRIPS = 5000
"""Of each node."""


def write_trips(folder: Path, node: int) -> Path:
    """Write a node's trips, as the example's reference has them, and return the file."""
    rng = np.random.default_rng(node)
    modes = rng.choice(["bus", "car", "train", "walk"], TRIPS, p=[0.31, 0.25, 0.12, 0.32])
    kilometres = rng.choice([0.5, 1.5, 3, 7, 15, 30], TRIPS, p=[0.3, 0.21, 0.26, 0.14, 0.07, 0.02])
    path = folder / f"trips-{node}.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["mode", "km"])
        writer.writerows(zip(modes, kilometres, strict=True))
    return path


if __name__ == "__main__":
    for number, folder in enumerate(map(Path, sys.argv[1:])):
        folder.mkdir(parents=True)
        write_trips(folder, number).rename(folder / "trips.csv")
