"""OffsetForLeaderEpoch: where each leadership ended."""

from types import SimpleNamespace

import pytest

from stratalog.broker.api import offset_for_leader_epoch
from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.broker.api.at_once import PlainRows, pauses


def ask(link, version, epoch, *, current=-1, partition=0, topic="t"):
    wanted = OffsetForLeaderPartition(partition=partition, current_leader_epoch=current, leader_epoch=epoch)
    request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic=topic, partitions=[wanted])])
    return link.call(request, version).topics[0].partitions[0]


@pytest.mark.parametrize("version", range(2, 5))
def test_an_epoch_ends_where_the_next_one_begins(broker, version):
    """The current one at the log end, one that wrote nothing with the one before it."""
    broker.create("t")
    epochs = []
    for count in (2, 3, 4):
        epochs.append(broker.partition("t").partition.leader_epoch)
        broker.produce("t", *[b"v"] * count)
        if count < 4:
            broker.restart()
    link = broker.link()
    found = [ask(link, version, epoch) for epoch in epochs]
    assert [(one.error_code, one.leader_epoch, one.end_offset) for one in found] == [
        (0, epochs[0], 2),
        (0, epochs[1], 5),
        (0, epochs[2], 9),
    ]


def test_an_epoch_that_never_was(broker):
    """Beyond the current one nothing is known."""
    broker.create("t")
    broker.produce("t", b"v")
    answer = ask(broker.link(), 4, 99)
    assert (answer.error_code, answer.leader_epoch, answer.end_offset) == (0, -1, -1)


def test_the_clients_own_epoch_is_checked(broker):
    """Fenced when older than the leader's, unknown when newer, and unknown partitions have their code."""
    broker.create("t")
    broker.restart()
    now = broker.partition("t").partition.leader_epoch
    link = broker.link()
    assert ask(link, 4, 0, current=now - 1).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert ask(link, 4, 0, current=now + 1).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert ask(link, 4, 0, current=now).error_code == 0
    assert ask(link, 4, 0, partition=8).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert ask(link, 4, 0, topic="absent").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("version", range(2, 5))
def test_an_unexpected_failure_is_answered_for_the_partition(broker, monkeypatch, version):
    """UNKNOWN_SERVER_ERROR; the connection goes on."""
    broker.create("t")
    link = broker.link()
    unified = type(broker.partition("t"))
    with monkeypatch.context() as patch:
        patch.setattr(unified, "offset_for_leader_epoch", lambda self, epoch: 1 / 0)
        answer = ask(link, version, 0)
    assert (answer.partition, answer.error_code) == (0, ErrorCode.UNKNOWN_SERVER_ERROR)
    assert (answer.leader_epoch, answer.end_offset) == (-1, -1)
    assert ask(link, version, 0).error_code == 0


def test_very_many_partitions_are_looked_up_in_slices():
    """10,000 took 0.1 s at once."""
    partitions = [OffsetForLeaderPartition(partition=number, leader_epoch=0) for number in range(100)]
    request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic="t", partitions=partitions)])
    context = SimpleNamespace(allows=lambda *_: False, rows=lambda _name: PlainRows())
    paused, answer = pauses(offset_for_leader_epoch._steps(context, request))
    assert paused > 100
    assert len(answer.topics[0].partitions) == 100
