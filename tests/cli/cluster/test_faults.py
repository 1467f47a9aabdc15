"""The faults of a cluster, in bounded sentences."""

import pytest

from stratalog.cli.cluster.faults import NAMED_MAX, disk_faults, node_faults, replica_faults
from stratalog.client.full_disks import FullDisk
from stratalog.client.out_of_sync import OutOfSync, Why
from stratalog.client.quorum import Quorum
from stratalog.client.replica_ends import Copy
from stratalog.wire.topic import TopicPartition

QUORUM = Quorum(leader_id=1, leader_epoch=4, high_watermark=9, voters=(), observers=(), endpoints={})


def late(number, broker, why, behind=None, said=""):
    return OutOfSync(Copy(broker, TopicPartition("orders", number)), why, behind, said)


def test_full_disks_are_named_up_to_a_bound():
    """With what is left, and what it means."""
    (sentence,) = disk_faults([FullDisk(2, "/data", 4096)])
    assert sentence.startswith("The disk of /data on broker 2 is full, with 4.0 KiB left: records that find no room")
    many = disk_faults([FullDisk(one, "/data", 0) for one in range(NAMED_MAX + 3)])
    assert (len(many), many[-1]) == (NAMED_MAX + 1, "3 more disks are full.")
    assert disk_faults([]) == []


def test_replicas_are_grouped_by_broker_and_reason():
    """With the records that each lacks, and the words of a broker that refuses."""
    found = [
        late(0, 3, Why.FENCED),
        late(1, 2, Why.BEHIND, 1204),
        late(2, 3, Why.FENCED),
        late(3, 2, Why.COMPLETE, 0),
        late(4, 2, Why.NO_ANSWER, said="not leader or follower"),
    ]
    told = [sentence.partition(" not in sync: ") for sentence in replica_faults(found)]
    assert [(start, rest) for start, _, rest in told] == [
        (
            "1 replica on broker 2 is",
            "copying, and still behind the leader. Partitions: orders-1 (lacks 1204 records).",
        ),
        ("1 replica on broker 2 is", "nothing is lacking, and the leader has yet to take it in. Partitions: orders-3."),
        (
            "1 replica on broker 2 is",
            "the broker opens the copy, or has found damage, as its log says (not leader or follower). Partitions: orders-4.",
        ),
        ("2 replicas on broker 3 are", "the broker is fenced. Partitions: orders-0, orders-2."),
    ]
    assert replica_faults([]) == []


def test_many_replicas_and_many_brokers_are_counted():
    """The first ones are named."""
    (one,) = replica_faults([late(number, 3, Why.FENCED) for number in range(NAMED_MAX + 7)])
    assert one.startswith("27 replicas on broker 3 are not in sync")
    assert one.endswith("orders-19 and 7 more.")
    many = replica_faults([late(0, broker, Why.FENCED) for broker in range(NAMED_MAX + 5)])
    assert len(many) == NAMED_MAX + 1
    assert many[-1] == "5 replicas on other brokers are not in sync; --json lists more of them."


@pytest.mark.parametrize(
    ("silence_ms", "since"),
    [(None, "is fenced:"), (500, "is fenced:"), (40_900, "and last fetched the metadata log 40 s ago:")],
)
def test_a_fenced_broker_is_named_with_its_silence(silence_ms, since):
    """Where the quorum knows it; one that goes on fetching is starting, or was never away."""
    (told,) = node_faults([{"node": 3, "state": "fenced", "silence_ms": silence_ms}], QUORUM)
    assert since in told


def test_every_reason_has_its_words():
    """None is forgotten."""
    for why in Why:
        assert replica_faults([late(0, 1, why)])
