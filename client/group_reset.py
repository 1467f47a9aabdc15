"""New offsets for a group: the ends, an offset, a time, or a shift by so many, inside of what there is.

The rules are those of Kafka's ``kafka-consumer-groups --reset-offsets`` (KIP-122).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Final, NamedTuple

from stratalog.client.client import Client
from stratalog.client.groups import Committed
from stratalog.wire.errors import Invalid
from stratalog.wire.topic import TopicPartition

__all__ = ["Reset", "ResetTo", "Target", "plan_reset"]

_LATEST: Final = -1
_EARLIEST: Final = -2


class ResetTo(Enum):
    """The meaning of a `Target`'s number."""

    EARLIEST = "the first offset that there is"
    LATEST = "behind the last record"
    OFFSET = "this offset"
    TIME = "the first record of this time or later, in milliseconds; behind the last one if there is none"
    SHIFT = "so many from the committed offset"


class Target(NamedTuple):
    """Where to."""

    kind: ResetTo
    number: int = 0


class Reset(NamedTuple):
    """One partition: the committed offset, None for none, and the new one; ``limited`` if more was asked for."""

    topic_partition: TopicPartition
    before: int | None
    after: int
    limited: bool


def plan_reset(
    client: Client, partitions: Iterable[TopicPartition], committed: Mapping[TopicPartition, Committed], target: Target
) -> list[Reset]:
    """The new offset of each partition, between the first that there is and the end.

    Raises `Invalid` for a shift of a partition without committed offset, `KafkaError` for one that does not exist.
    """
    wanted = sorted(partitions)
    starts = client.list_offsets(dict.fromkeys(wanted, _EARLIEST))
    ends = client.list_offsets(dict.fromkeys(wanted, _LATEST))
    times = client.list_offsets(dict.fromkeys(wanted, target.number)) if target.kind is ResetTo.TIME else {}
    plan = []
    for one in wanted:
        before = committed[one].offset if one in committed else None
        if target.kind is ResetTo.EARLIEST:
            asked = starts[one].offset
        elif target.kind is ResetTo.LATEST:
            asked = ends[one].offset
        elif target.kind is ResetTo.TIME:
            asked = times[one].offset if times[one].offset >= 0 else ends[one].offset
        elif target.kind is ResetTo.OFFSET:
            asked = target.number
        elif before is None:
            raise Invalid(f"{one}: the group has no committed offset to shift")
        else:
            asked = before + target.number
        after = min(max(asked, starts[one].offset), ends[one].offset)
        plan.append(Reset(one, before, after, after != asked))
    return plan
