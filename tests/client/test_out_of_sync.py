"""The reason of each replica that is not in sync, from what brokers have told."""

from stratalog.client.client import Partition, Topic
from stratalog.client.out_of_sync import ClusterState, OutOfSync, Why, copies_to_ask, out_of_sync
from stratalog.client.reassignments import Reassignment
from stratalog.client.replica_ends import Copy, CopyEnd
from stratalog.wire.topic import TopicPartition


def state(rows, *, fenced=(), moves=None, registered=(1, 2, 3)):
    """``rows`` of (leader, replicas, in sync, offline)."""
    parts = tuple(Partition(n, leader, 0, held, sync, off) for n, (leader, held, sync, off) in enumerate(rows))
    return ClusterState([Topic("t", b"i" * 16, False, parts)], set(registered), set(fenced), moves or {})


def reasons(told, ends):
    return [
        (one.copy.partition.partition, one.copy.broker, one.why, one.records_behind) for one in out_of_sync(told, ends)
    ]


def test_every_reason_has_its_name():
    """A broker that is gone or fenced, a failed directory, no leader, a copy that is behind or complete, no answer."""
    told = state(
        [
            (1, (1, 9), (1,), (9,)),
            (1, (1, 3), (1,), (3,)),
            (1, (1, 2), (1,), (2,)),
            (-1, (3, 2), (3,), (3,)),
            (1, (1, 2), (1,), ()),
            (1, (1, 2), (1,), ()),
            (1, (1, 2), (1,), ()),
            (1, (1, 2), (1,), ()),
            (1, (1, 2), (1, 2), ()),
        ],
        fenced={3},
    )
    asked = copies_to_ask(told, 100)
    assert [(copy.partition.partition, copy.broker) for copy in asked] == [
        (n, broker) for n in (2, 4, 5, 6, 7) for broker in (1, 2)
    ]
    ends = {Copy(1, TopicPartition("t", n)): CopyEnd(100) for n in (4, 5, 6)}
    ends |= {
        Copy(2, TopicPartition("t", 4)): CopyEnd(88),
        Copy(2, TopicPartition("t", 5)): CopyEnd(100),
        Copy(2, TopicPartition("t", 6)): CopyEnd(None, "storage error"),
        Copy(2, TopicPartition("t", 7)): CopyEnd(100),
    }
    assert reasons(told, ends) == [
        (0, 9, Why.NOT_REGISTERED, None),
        (1, 3, Why.FENCED, None),
        (2, 2, Why.DIRECTORY_OFFLINE, None),
        (3, 2, Why.NO_LEADER, None),
        (4, 2, Why.BEHIND, 12),
        (5, 2, Why.COMPLETE, 0),
        (6, 2, Why.NO_ANSWER, None),
        (7, 2, Why.UNKNOWN, None),
    ]
    assert out_of_sync(told, ends)[6] == OutOfSync(Copy(2, TopicPartition("t", 6)), Why.NO_ANSWER, said="storage error")


def test_replicas_that_a_reassignment_adds_are_no_fault():
    """Those that it keeps are."""
    moves = {TopicPartition("t", 0): Reassignment((1, 2, 3), (3,), (1,))}
    assert state([(1, (1, 2, 3), (1, 2), ())], moves=moves).short() == {}
    assert state([(1, (1, 2, 3), (1,), ())], moves=moves).short() == {TopicPartition("t", 0): [2]}


def test_no_more_copies_are_asked_than_the_bound():
    """With their leaders."""
    told = state([(1, (1, 2, 3), (1,), ())] * 10)
    asked = copies_to_ask(told, 5)
    assert sum(copy.broker != 1 for copy in asked) == 5
    assert Why.UNKNOWN in {one.why for one in out_of_sync(told, {})}
