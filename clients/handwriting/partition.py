"""Clients where the data name none: a flwr-datasets partitioner stands in for the writers."""

from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from flwr_kld._extras import require
from flwr_kld.clients.handwriting.dataset import Handwriting


class Partitioner(Protocol):
    """The part of ``flwr_datasets.partitioner.Partitioner`` that is used here."""

    dataset: Any

    @property
    def num_partitions(self) -> int:
        """How many partitions there are once the data set is assigned."""

    def load_partition(self, partition_id: int) -> Any:
        """Return the rows of one partition as a ``datasets.Dataset``."""


def partitioned(data: Handwriting, partitioner: Partitioner) -> Handwriting:
    """Give every image to a client: its partition becomes its writer.

    The partitioner sees the columns ``row``, ``label`` and ``writer``, so both
    ``DirichletPartitioner(..., partition_by="label")`` and ``NaturalIdPartitioner("writer")`` fit.

    Parameters
    ----------
    data : Handwriting
        Its own writers are not kept.
    partitioner : Partitioner
        From flwr-datasets, without a data set yet.

    Returns
    -------
    Handwriting
        With writers 0, 1, ... numbered as the partitions. An image that the partitioner leaves out
        is dropped; an empty partition has no writer.

    Raises
    ------
    ImportError
        If flwr-datasets is not installed.
    ValueError
        If the partitioner already has a data set.
    """
    datasets = require("datasets", extra="simulation")
    partitioner.dataset = datasets.Dataset.from_dict(
        {"row": np.arange(len(data)), "label": data.labels, "writer": data.writer}
    )
    parts = [
        np.asarray(partitioner.load_partition(i)["row"], dtype=np.int64)
        for i in range(partitioner.num_partitions)
    ]
    rows = np.concatenate(parts)
    clients = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    return replace(data, images=data.images[rows], labels=data.labels[rows], writer=clients)
