"""A broker that ends with SIGKILL when it comes to a named point of a transaction for the n-th time.

``python broker_that_dies.py POINT N serve ...``; the points are those of `POINTS`.
"""

import functools
import os
import signal
import sys

from stratalog.broker.api.produce_transactions import TransactionalBatch
from stratalog.broker.coordinators.marker_writer import MarkerWriter, _Delivery
from stratalog.broker.coordinators.partition_markers import PartitionMarkers
from stratalog.broker.coordinators.shard_driver import ShardDriver
from stratalog.cli.main import cli
from stratalog.metadata.groups.offsets.committed_offsets import CommittedOffsets
from stratalog.metadata.transactions.shard import TransactionShard
from stratalog.metadata.transactions.transaction import Transaction

POINTS = {
    "producer begun, not written": (Transaction, "begin_producer", "after"),
    "partition added, not written": (Transaction, "add", "after"),
    "partition added, nothing appended": (TransactionalBatch, "go_on", "before"),
    "first batch appended": (TransactionalBatch, "go_on", "after"),
    "offsets pending, not written": (CommittedOffsets, "commit_in_transaction", "after"),
    "end decided, not written": (Transaction, "decide", "after"),
    "decision written, not answered": (TransactionShard, "_decided", "before"),
    "decision answered, no marker": (MarkerWriter, "send", "before"),
    "a marker on its way": (PartitionMarkers, "write", "after"),
    "a marker written, not reported": (_Delivery, "_report", "before"),
    "a marker reported": (_Delivery, "_report", "after"),
    "pending offsets decided": (CommittedOffsets, "transaction_ended", "after"),
    "end complete, not written": (Transaction, "complete", "after"),
    "anything of a coordinator written": (ShardDriver, "_acknowledged", "before"),
    "anything of a coordinator answered": (ShardDriver, "_acknowledged", "after"),
}


def die_at(point: str, count: int) -> None:
    """Put the end where it is wanted."""
    cls, name, when = POINTS[point]
    method = getattr(cls, name)
    left = count

    @functools.wraps(method)
    def dying(*args, **kwargs):
        nonlocal left
        left -= 1
        if not left and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        result = method(*args, **kwargs)
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(cls, name, dying)


if __name__ == "__main__":
    die_at(sys.argv[1], int(sys.argv[2]))
    cli(sys.argv[3:])
