"""Where offsets are set to, against a log from 10 to 50 with a record each second."""

from __future__ import annotations

import pytest

from stratalog.client.client import ListedOffset
from stratalog.client.group_reset import Reset, ResetTo, Target, plan_reset
from stratalog.client.groups import Committed
from stratalog.wire.errors import Invalid
from stratalog.wire.topic import TopicPartition

PLACE, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)
START, END = 10, 50


class Log:
    """A client whose partitions are all alike."""

    def list_offsets(self, timestamps):
        def offset(timestamp: int) -> int:
            if timestamp < 0:
                return {-1: END, -2: START}[timestamp]
            found = START + -(-timestamp // 1000)
            return found if found < END else -1

        return {one: ListedOffset(offset(timestamp), -1, 0) for one, timestamp in timestamps.items()}


@pytest.mark.parametrize(
    ("target", "after", "limited"),
    [
        (Target(ResetTo.EARLIEST), 10, False),
        (Target(ResetTo.LATEST), 50, False),
        (Target(ResetTo.OFFSET, 33), 33, False),
        (Target(ResetTo.OFFSET, 3), 10, True),
        (Target(ResetTo.OFFSET, 51), 50, True),
        (Target(ResetTo.SHIFT, -5), 15, False),
        (Target(ResetTo.SHIFT, -11), 10, True),
        (Target(ResetTo.SHIFT, 31), 50, True),
        (Target(ResetTo.TIME, 1500), 12, False),
        (Target(ResetTo.TIME, 1 << 40), 50, False),
    ],
)
def test_the_new_offset_is_inside_of_what_there_is(target, after, limited) -> None:
    """Each target, and its limits."""
    plan = plan_reset(Log(), [PLACE], {PLACE: Committed(20, -1, "")}, target)
    assert plan == [Reset(PLACE, 20, after, limited)]


def test_partitions_are_in_order_and_may_have_nothing_committed() -> None:
    """Unless they are to be shifted."""
    assert plan_reset(Log(), [OTHER, PLACE], {}, Target(ResetTo.OFFSET, 11)) == [
        Reset(PLACE, None, 11, False),
        Reset(OTHER, None, 11, False),
    ]
    with pytest.raises(Invalid, match="t-1: the group has no committed offset"):
        plan_reset(Log(), [OTHER, PLACE], {PLACE: Committed(20, -1, "")}, Target(ResetTo.SHIFT, 1))
