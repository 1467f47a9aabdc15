"""Hands the moves between log directories the parts of a broker that they use."""

from __future__ import annotations

import asyncio
from functools import partial

from stratalog.broker.assembly import BrokerParts
from stratalog.broker.moves.directory_move import MoveServices, MoveThrottle
from stratalog.broker.moves.directory_moves import DirectoryMoves
from stratalog.broker.replicas.directories import Directory
from stratalog.broker.workers.spawner import spawner_of
from stratalog.metadata.quotas.replication_quota import ReplicationQuota

__all__ = ["new_moves", "report_failed"]


def new_moves(broker: BrokerParts) -> DirectoryMoves:
    """The moves of its replicas between its log directories. To be called inside the running loop."""
    config, directories = broker.config, broker.directories
    at_once = config.values["num.replica.alter.log.dirs.threads"]
    at_once = max(at_once if isinstance(at_once, int) else len(config.log_dirs), 1)
    quota = ReplicationQuota(
        config.integer("alter.log.dirs.replication.quota.window.num"),
        float(config.integer("alter.log.dirs.replication.quota.window.size.seconds")),
    )
    rate = "replica.alter.log.dirs.io.max.bytes.per.second"
    services = MoveServices(
        clock=broker.clock,
        directories=directories,
        hosted=broker.hosted,
        slices=broker.dispatcher.slices,
        threads=spawner_of(asyncio.get_running_loop()).threads(at_once, "move"),
        throttle=MoveThrottle(quota, lambda: broker.config.integer(rate), broker.clock.monotonic),
        is_cleaned=broker.compaction.works_on,
        cleaner_idle=lambda: broker.compaction.idle,
    )
    moves = DirectoryMoves(services, lambda: broker.image, at_once=at_once)
    moves.add_figures(broker.metrics)
    moves.begin_again()
    return moves


def report_failed(broker: BrokerParts, directory: Directory) -> None:
    """Let the controller hear of a directory that has failed, once it takes no replica to be there that lies elsewhere."""
    built = vars(broker)
    membership = built["cluster"].membership if "cluster" in built else None
    if membership is None:
        return
    lifecycle, moves = membership.lifecycle, built.get("moves")
    lifecycle.directory_failed(directory.directory_id, is_held=moves is not None)
    if moves is not None:
        moves.take_back(directory, partial(lifecycle.directory_left, directory.directory_id))
