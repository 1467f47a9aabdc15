"""The meaning of a seed: which faults a cluster has, how often, and for how long."""

from __future__ import annotations

import random
from enum import Enum
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

__all__ = ["SMALL_ANSWERS", "Kind", "Plan", "Unclean"]

SMALL_ANSWERS: Final = {"replica.fetch.max.bytes": "500", "replica.fetch.response.max.bytes": "1500"}
"""A follower that was away for a moment needs several answers."""


class Kind(Enum):
    """The kind of topic that clients of a cluster use."""

    PLAIN = "plain"
    TIERED = "tiered"
    """Records move to the bucket, and leave the disks of all replicas."""
    COMPACTED = "compacted"
    EXPIRING = "expiring"
    """Records go by retention."""


class Unclean(Enum):
    """The way in which a replica may come to lead the topic of the clients that lacks what was acknowledged."""

    NEVER = "never"
    SETTING = "setting"
    """``unclean.leader.election.enable`` of the topic."""
    HAND = "hand"
    """An administrator asks for it."""
    BOTH = "both"


class Plan(Struct, frozen=True, kw_only=True):
    """Drawn once at the beginning of a run. Times are virtual seconds, chances in [0, 1]."""

    controllers: int = 3
    brokers: int = 5
    faults: tuple[str, ...] = ()
    """The kinds that happen."""
    fault_every: float = 3.0
    fault_seconds: float = 20.0
    """How long there are faults; afterwards everything has to work again."""
    pause_every: float = 0.5
    """The longest pause of an administrator between two commands."""
    slow: float = 0.05
    """The longest delay of a piece that is late."""
    small_snapshots: bool = False
    replicated_topics: int = 0
    """Topics with three replicas that clients write to and read."""
    replicated_partitions: int = 1
    min_in_sync: int = 2
    unsynced: bool = False
    """Replicated topics acknowledge what is in the page cache (Kafka's default): never do two machines lose it at once."""
    lag_seconds: float = 30.0
    """After this time a follower that has not caught up leaves the in-sync set."""
    producers: int = 0
    readers: int = 0
    kind: Kind = Kind.PLAIN
    transactions: int = 0
    """Producers that write in transactions."""
    classic_members: int = 0
    consumer_members: int = 0
    changes: tuple[str, ...] = ()
    """Commands of the administrator of these topics; one that is named twice comes oftener."""
    eligible_level: int = 1
    """The level of eligible.leader.replicas.version at which the cluster begins."""
    one_minimum: bool = False
    """The minimum in sync is set for the cluster, not for the topic."""
    unclean: Unclean = Unclean.NEVER
    settings: tuple[tuple[str, str], ...] = ()
    """Settings of every node."""

    @classmethod
    def draw(cls, dice: random.Random) -> Plan:
        """Draw one."""
        kinds = ("kill", "kill", "power", "freeze", "cut", "isolate", "split", "reset", "stop", "wipe", "slow", "clock")
        return cls(
            faults=tuple(sorted(set(dice.choices(kinds, k=dice.randint(1, 6))))),
            fault_every=dice.choice((1.0, 2.0, 4.0)),
            fault_seconds=dice.choice((10.0, 15.0, 25.0)),
            pause_every=dice.choice((0.1, 0.5, 1.5)),
            slow=dice.choice((0.01, 0.05, 0.5)),
            small_snapshots=dice.random() < 0.4,
        )

    @classmethod
    def draw_replicas(cls, dice: random.Random) -> Plan:
        """Draw one about replicas: fewer nodes, which break oftener."""
        kinds = ["kill", "kill", "power", "power", "freeze", "cut", "isolate", "reset", "stop", "wipe", "slow", "clock"]
        kinds += ["damage", "rot"]
        kind = dice.choice((Kind.PLAIN, Kind.PLAIN, Kind.TIERED, Kind.TIERED, Kind.COMPACTED, Kind.EXPIRING))
        commands = ["elect", "reassign", "minimum", *(["delete"] if kind is not Kind.COMPACTED else [])]
        kinds += ["bucket", "bucket", "worker"] if kind is Kind.TIERED else []
        transactions = dice.choice((0, 0, 1))
        drawn = cls(
            controllers=dice.choice((1, 1, 3)),
            brokers=dice.choice((3, 3, 4)),
            faults=tuple(sorted(set(dice.choices(kinds, k=dice.randint(1, 5))))),
            fault_every=dice.choice((0.5, 1.0, 2.0, 4.0)),
            fault_seconds=dice.choice((8.0, 12.0, 20.0)),
            pause_every=dice.choice((1.0, 4.0)),
            slow=dice.choice((0.01, 0.05, 0.5)),
            small_snapshots=dice.random() < 0.4,
            replicated_topics=1,
            replicated_partitions=dice.choice((1, 2, 3)),
            min_in_sync=dice.choice((1, 2, 2, 2)),
            unsynced=dice.random() < 0.25,
            lag_seconds=dice.choice((2.0, 5.0, 30.0)),
            producers=1 if transactions else dice.choice((1, 2)),
            readers=1,
            kind=kind,
            transactions=transactions,
            classic_members=dice.choice((0, 0, 0, 0, 2)),
            consumer_members=dice.choice((0, 0, 0, 0, 2)),
            changes=tuple(sorted(set(dice.choices(commands, k=dice.choice((0, 0, 1, 3)))))),
            settings=_settings(kind, dice),
        )
        return _with_eligible(drawn, dice)

    @property
    def keeps_one_minimum(self) -> bool:
        """Whether eligible leader replicas are believed, under one minimum above 1, all the time (KIP-966)."""
        moving = {"minimum", "cluster minimum", "level", "reassign"}
        is_safe = self.one_minimum and self.eligible_level > 0 and self.min_in_sync > 1
        return is_safe and not moving.intersection(self.changes)


def _with_eligible(plan: Plan, dice: random.Random) -> Plan:
    """Draw the elections: who may lead, by which minimum, and who asks for it."""
    unclean = dice.choice((Unclean.NEVER, Unclean.NEVER, Unclean.NEVER, Unclean.SETTING, Unclean.HAND, Unclean.BOTH))
    changes = list(plan.changes)
    changes += dice.choice(((), (), ("minimum",), ("cluster minimum",), ("level",), ("cluster minimum", "level")))
    drawn = replace(
        plan,
        eligible_level=dice.choice((0, 1, 1)),
        min_in_sync=dice.choice((plan.min_in_sync, plan.min_in_sync, plan.min_in_sync, 3)),
        one_minimum=dice.random() < 0.4,
        unclean=unclean,
        faults=tuple(sorted({*plan.faults, *dice.choice(((), (), ("strand",)))})),
    )
    if unclean is not Unclean.NEVER:
        changes = [one for one in changes if one != "delete"]
        changes += [] if unclean is Unclean.SETTING else ["unclean", "unclean", "unclean"]
        changes += ["unclean setting"] if unclean is Unclean.BOTH else []
        drawn = replace(
            drawn,
            faults=tuple(sorted({*plan.faults, "strand"})),
            fault_every=dice.choice((1.0, 2.0, 4.0)),
            fault_seconds=dice.choice((20.0, 30.0)),
            eligible_level=dice.choice((0, 0, 1)),
            min_in_sync=dice.choice((1, 1, 2)),
            lag_seconds=dice.choice((1.0, 2.0, 5.0)),
            transactions=0,
            classic_members=0,
            consumer_members=0,
        )
    if "strand" in drawn.faults:  # a broker that is alone in sync goes on without the range that rots
        drawn = replace(drawn, faults=tuple(one for one in drawn.faults if one != "rot"))
    return replace(drawn, changes=tuple(sorted(changes)))


def _settings(kind: Kind, dice: random.Random) -> tuple[tuple[str, str], ...]:
    """Settings that make the rare frequent."""
    settings = {
        "log.cleaner.enable": str(kind is Kind.COMPACTED).lower(),
        "log.cleaner.backoff.ms": str(dice.choice((200, 1000))),
        "log.retention.check.interval.ms": str(dice.choice((300, 1000, 3000))),
        "log.flush.offset.checkpoint.interval.ms": str(dice.choice((300, 5000))),
        "log.segment.delete.delay.ms": str(dice.choice((100, 2000))),
        "remote.log.manager.task.retry.backoff.ms": str(dice.choice((20, 200))),
        "remote.log.manager.task.retry.backoff.max.ms": str(dice.choice((500, 2000))),
        "stratalog.trash.grace.ms": str(dice.choice((0, 500, 5000))),
        "stratalog.trash.check.interval.ms": str(dice.choice((300, 2000))),
        **dice.choice(({}, SMALL_ANSWERS)),
    }
    return tuple(settings.items())
