"""The meaning of a seed: which faults a run has, how many clients, which settings."""

from __future__ import annotations

import random

from msgspec import Struct

__all__ = ["Plan"]


class Plan(Struct, frozen=True, kw_only=True):
    """Drawn once at the beginning of a run."""

    topics: int
    idempotent_producers: int
    plain_producers: int
    transactional_producers: int
    classic_members: int
    consumer_members: int
    rounds: int
    readers: int
    compaction: bool
    tiering: bool
    unsynced: bool
    """Some topics acknowledge before the sync; then power is never cut."""
    power_cuts: bool
    faults: int
    settings: dict[str, str]

    @classmethod
    def draw(cls, dice: random.Random) -> Plan:
        """Draw one."""
        unsynced = dice.random() < 0.25
        check_ms = dice.choice((300, 1000, 3000))
        return cls(
            topics=dice.choice((1, 2, 2)),
            idempotent_producers=dice.choice((1, 1, 2)),
            plain_producers=dice.choice((0, 1, 1)),
            transactional_producers=dice.choice((0, 0, 1, 2)),
            classic_members=dice.choice((0, 0, 0, 0, 2, 3)),
            consumer_members=dice.choice((0, 0, 0, 0, 2, 3)),
            rounds=dice.randint(4, 10),
            readers=dice.choice((1, 2)),
            compaction=dice.random() < 0.4,
            tiering=dice.random() < 0.7,
            unsynced=unsynced,
            power_cuts=not unsynced,
            faults=dice.randint(0, 8),
            settings={
                "log.retention.check.interval.ms": str(check_ms),
                "log.flush.offset.checkpoint.interval.ms": str(dice.choice((300, 5000))),
                "remote.log.manager.task.retry.backoff.ms": str(dice.choice((20, 200))),
                "remote.log.manager.task.retry.backoff.max.ms": str(dice.choice((500, 2000))),
                "log.cleaner.backoff.ms": str(dice.choice((200, 1000))),
                "group.initial.rebalance.delay.ms": str(dice.choice((0, 500))),
                "group.consumer.min.session.timeout.ms": "6000",
                "group.consumer.session.timeout.ms": "6000",
                "group.consumer.min.heartbeat.interval.ms": "500",
                "group.consumer.heartbeat.interval.ms": "500",
                "transaction.state.log.num.partitions": "2",
                "transaction.state.log.replication.factor": "1",
                "offsets.topic.num.partitions": "2",
                "offsets.topic.replication.factor": "1",
                "log.segment.delete.delay.ms": str(dice.choice((100, 2000))),
                "metadata.log.max.record.bytes.between.snapshots": str(dice.choice((1000, 20_971_520))),
                "stratalog.ballast.bytes": "0",
                "stratalog.trash.grace.ms": str(dice.choice((0, 500, 5000))),
                "stratalog.trash.check.interval.ms": str(dice.choice((300, 2000))),
            },
        )
