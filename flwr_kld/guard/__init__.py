"""A client's own limits: what it answers at all, how much it spends, and a receipt for each check.

The operator of a node writes a file (``docs/guard.md``); neither the server nor the app that the
server ships can loosen what it says.
"""

from flwr_kld.guard.limits import read_limits
from flwr_kld.guard.receipts import node_identity, verify

__all__ = ["node_identity", "read_limits", "verify"]
