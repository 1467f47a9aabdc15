"""Which replicas of a cluster are not in sync, and why. Pure: what brokers have told in, reasons out."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from msgspec import Struct, field

from stratalog.client.client import Topic
from stratalog.client.reassignments import Reassignment
from stratalog.client.replica_ends import Copy, CopyEnd
from stratalog.wire.topic import TopicPartition

__all__ = ["ClusterState", "OutOfSync", "Why", "copies_to_ask", "out_of_sync"]


class Why(StrEnum):
    """The reasons for which a replica is not in sync."""

    NOT_REGISTERED = "not registered"
    FENCED = "fenced"
    DIRECTORY_OFFLINE = "directory offline"
    NO_LEADER = "no leader"
    NO_ANSWER = "no answer"
    """Its broker did not answer, or not for this copy: it opens its logs, or has found damage."""
    BEHIND = "behind"
    """It lacks records of the leader."""
    COMPLETE = "complete"
    """It has every record of the leader, which has yet to take it into the in-sync set."""
    UNKNOWN = "unknown"
    """It was not asked how far it has come, or its leader did not answer."""


class OutOfSync(NamedTuple):
    """A replica that is not in sync."""

    copy: Copy
    why: Why
    records_behind: int | None = None
    said: str = ""
    """The answer of its broker, in words, where that is the reason."""


class ClusterState(Struct, frozen=True):
    """A cluster as brokers tell it: topics, registered and fenced brokers, and the reassignments that run."""

    topics: Sequence[Topic]
    registered: Collection[int]
    fenced: Collection[int]
    reassignments: Mapping[TopicPartition, Reassignment] = field(default_factory=dict)

    def short(self) -> dict[TopicPartition, list[int]]:
        """The replicas that are not in sync, of each partition that has fewer in sync than it should.

        Replicas that a reassignment adds are on their way, and no fault.
        """
        found = {}
        for topic in self.topics:
            for part in topic.partitions:
                one = TopicPartition(topic.name, part.partition)
                move = self.reassignments.get(one)
                missing = [each for each in part.replicas if each not in part.in_sync]
                if move is not None:
                    missing = [each for each in missing if each not in move.adding]
                if missing:
                    found[one] = missing
        return found


def copies_to_ask(state: ClusterState, bound: int) -> list[Copy]:
    """The copies whose ends say how far replicas are behind, leaders among them; of at most ``bound`` replicas."""
    leaders = _leaders(state)
    wanted: list[Copy] = []
    left = bound
    for one, missing in state.short().items():
        up = [broker for broker in missing if broker in state.registered and broker not in state.fenced][:left]
        if up and leaders[one] >= 0:
            wanted += [Copy(leaders[one], one), *(Copy(broker, one) for broker in up)]
            left -= len(up)
    return wanted


def out_of_sync(state: ClusterState, ends: Mapping[Copy, CopyEnd]) -> list[OutOfSync]:
    """Each replica that is not in sync, with its reason, in the order of topics and partitions."""
    leaders = _leaders(state)
    offline = {
        TopicPartition(topic.name, part.partition): part.offline for topic in state.topics for part in topic.partitions
    }
    found = []
    for one, missing in state.short().items():
        for broker in missing:
            copy = Copy(broker, one)
            if broker not in state.registered:
                found.append(OutOfSync(copy, Why.NOT_REGISTERED))
            elif broker in state.fenced:
                found.append(OutOfSync(copy, Why.FENCED))
            elif broker in offline[one]:
                found.append(OutOfSync(copy, Why.DIRECTORY_OFFLINE))
            elif leaders[one] < 0:
                found.append(OutOfSync(copy, Why.NO_LEADER))
            else:
                found.append(_asked(copy, ends.get(copy), ends.get(Copy(leaders[one], one))))
    return found


def _asked(copy: Copy, own: CopyEnd | None, leaders: CopyEnd | None) -> OutOfSync:
    if own is None:
        return OutOfSync(copy, Why.UNKNOWN)
    if own.offset is None:
        return OutOfSync(copy, Why.NO_ANSWER, said=own.why)
    if leaders is None or leaders.offset is None:
        return OutOfSync(copy, Why.UNKNOWN)
    behind = max(leaders.offset - own.offset, 0)
    return OutOfSync(copy, Why.BEHIND if behind else Why.COMPLETE, behind)


def _leaders(state: ClusterState) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic.name, part.partition): part.leader for topic in state.topics for part in topic.partitions
    }
