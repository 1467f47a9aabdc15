"""The machine that asks the controller for in-sync sets."""

from math import inf

import pytest

from stratalog.broker.replication.in_sync_requests import (
    PARTITIONS_MAX,
    Answered,
    Asked,
    Decided,
    Failed,
    InSyncRequests,
    Send,
    Ticked,
    Wanted,
)
from stratalog.hot.replica_state import InSyncReplica, IsrChange
from stratalog.metadata.image.partition_index import PartitionKey
from stratalog.wire.errors import ErrorCode


def key(number=0):
    return PartitionKey(b"t" * 16, number)


def asked(epoch=1):
    return Asked(3, IsrChange((InSyncReplica(1, 9),), epoch, grows=False))


@pytest.fixture
def machine():
    """A machine without chance."""
    return InSyncRequests(lambda: 0.5)


def test_one_request_is_in_flight_and_the_others_go_together(machine):
    """Those that come meanwhile wait for its end."""
    first, second, third = asked(), asked(2), asked(3)
    assert machine.step(Wanted(key(0), first), 0) == [Send({key(0): first})]
    assert machine.step(Wanted(key(1), second), 1) == []
    assert machine.step(Wanted(key(2), third), 2) == []
    assert machine.step(Answered(ErrorCode.NONE, {key(0): ErrorCode.NONE}), 3) == [
        Send({key(1): second, key(2): third})
    ]


@pytest.mark.parametrize(
    "event",
    [
        Failed(),
        Answered(ErrorCode.NOT_CONTROLLER, {}),
        Answered(ErrorCode.NONE, {key(): ErrorCode.UNKNOWN_SERVER_ERROR}),
    ],
)
def test_an_undecided_change_is_asked_for_again(machine, event):
    """After a pause, which grows with each failure."""
    one = asked()
    machine.step(Wanted(key(), one), 0)
    assert machine.step(event, 100) == []
    assert machine.wake_at_ms == 150
    assert machine.step(Ticked(), 149) == []
    assert machine.step(Ticked(), 150) == [Send({key(): one})]
    machine.step(event, 200)
    assert machine.wake_at_ms == 300


def test_a_newer_wish_takes_the_place_of_the_one_that_failed(machine):
    """The leader has another epoch, or another change."""
    machine.step(Wanted(key(), asked()), 0)
    newer = asked(2)
    machine.step(Wanted(key(), newer), 1)
    machine.step(Failed(), 2)
    assert machine.step(Ticked(), 52) == [Send({key(): newer})]


@pytest.mark.parametrize("code", [ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED])
def test_two_codes_end_a_change(machine, code):
    """All others leave it under way (rule 10 of the cluster's design)."""
    one = asked()
    machine.step(Wanted(key(), one), 0)
    assert machine.step(Answered(ErrorCode.NONE, {key(): code}), 1) == [Decided(key(), one, code)]
    assert machine.wake_at_ms == inf


@pytest.mark.parametrize("code", [ErrorCode.NONE, ErrorCode.INVALID_UPDATE_VERSION, ErrorCode.FENCED_LEADER_EPOCH])
def test_other_codes_leave_the_last_word_to_the_metadata(machine, code):
    """It is neither asked again nor given up."""
    machine.step(Wanted(key(), asked()), 0)
    assert machine.step(Answered(ErrorCode.NONE, {key(): code}), 1) == []
    assert machine.wake_at_ms == inf


def test_a_request_has_no_more_partitions_than_a_command_may(machine):
    """The rest follows."""
    machine.step(Wanted(key(0), asked()), 0)
    for number in range(1, PARTITIONS_MAX + 3):
        machine.step(Wanted(key(number), asked()), 0)
    (send,) = machine.step(Answered(ErrorCode.NONE, {key(0): ErrorCode.NONE}), 1)
    assert len(send.asked) == PARTITIONS_MAX
