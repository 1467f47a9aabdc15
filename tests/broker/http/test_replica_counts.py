"""Partitions that lack replicas are counted a part at a time."""

from types import SimpleNamespace

from stratalog.broker.http import replica_counts
from stratalog.broker.http.replica_counts import ReplicaCounter


def partition(leader, replicas, in_sync, adding=()):
    return SimpleNamespace(
        leader=leader, replicas=replicas, in_sync_replicas=in_sync, adding_replicas=adding, removing_replicas=()
    )


def image(*partitions):
    topics = {"t": SimpleNamespace(partitions=dict(enumerate(partitions)))}
    return SimpleNamespace(topics=SimpleNamespace(by_name=topics))


def test_partitions_are_counted_by_what_they_lack():
    """A replica that a reassignment adds is on its way."""
    found = ReplicaCounter().look(
        image(
            partition(1, (1, 2), (1, 2)),
            partition(1, (1, 2), (1,)),
            partition(-1, (1, 2), (2,)),
            partition(1, (1, 2, 3), (1, 2), adding=(3,)),
        )
    )
    assert found == {"partitions": 4, "without_leader": 1, "under_replicated": 2, "reassigning": 1}


def test_many_partitions_take_several_looks(monkeypatch):
    """Until then the counts of before are shown; the same image is not gone over again."""
    monkeypatch.setattr(replica_counts, "PARTITIONS_A_LOOK", 2)
    counter = ReplicaCounter()
    first = image(*[partition(1, (1,), (1,))] * 3)
    assert counter.look(first) is None
    assert counter.look(first)["partitions"] == 3
    second = image(*[partition(1, (1, 2), (1,))] * 4)
    assert counter.look(second)["partitions"] == 3
    assert counter.look(second)["partitions"] == 3
    third = image(partition(1, (1,), (1,)))
    assert counter.look(third)["under_replicated"] == 4, "the pass that has begun ends first"
    assert counter.look(third)["partitions"] == 1
