"""Brokers that are fenced, stop, go for good or lose a directory."""

import gc

import pytest

from stratalog.metadata.controller.assign_replicas import Placed, assign_replicas_to_directories
from stratalog.metadata.controller.broker_changes import fence_brokers, forget_broker, unfence_broker
from stratalog.metadata.image.decision_batches import batches
from stratalog.metadata.image.partition_index import PartitionKey
from stratalog.metadata.image.topics_image import NO_LEADER
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.records.metadata import BrokerRegistrationChangeRecord, FeatureLevelRecord, PartitionChangeRecord

A, B, C = (bytes([letter]) * 16 for letter in b"ABC")


def test_a_fenced_broker_gives_up_what_it_led_and_its_record_is_the_last(world):
    """A crash that leaves a part of the records leaves a broker that is fenced again."""
    one = world()
    one.start(1, 2)
    one.topic("t", (1, 2), (2, 1))
    decision = fence_brokers(one.view, (1,))
    assert not decision.is_atomic
    assert [type(record) for record in decision.records][-1] is BrokerRegistrationChangeRecord
    one.write(decision.records)
    assert [one.sets("t", number)[0] for number in (0, 1)] == [2, 2]
    assert fence_brokers(one.view, (1,)).records == ()
    with pytest.raises(KafkaError) as caught:
        fence_brokers(one.view, (9,))
    assert caught.value.code is ErrorCode.BROKER_ID_NOT_REGISTERED


@pytest.mark.parametrize("elr", [False, True])
def test_no_collection_of_garbage_looks_at_the_changes_of_partitions(world, elr):
    """Tens of thousands, with their lists, wait for the commit when a broker of many partitions goes or comes."""
    one = world(elr=elr, minimum=2)
    one.start(1, 2)
    one.topic("t", (1, 2), (1,))
    decision = fence_brokers(one.view, (1,))
    one.write(decision.records)
    records = [*decision.records, *unfence_broker(one.view, one.image.brokers.brokers[1]).records]
    records = [record for record in records if isinstance(record, PartitionChangeRecord)]
    assert len(records) == 3
    seen = [
        record for record in records if gc.is_tracked(record) or any(map(gc.is_tracked, gc.get_referents(record)[:-1]))
    ]
    assert seen == []


@pytest.mark.parametrize("elr", [False, True])
def test_an_unfenced_broker_leads_what_has_no_leader_and_no_more(world, elr):
    """The member that comes back without a restart leads again, in a new epoch."""
    one = world(elr=elr)
    one.start(1, 2)
    one.topic("t", (1,), (2,))
    one.tick(9000, 2)
    assert one.state("t", 0).leader == NO_LEADER
    decision = unfence_broker(one.view, one.image.brokers.brokers[1])
    assert len(decision.records) == 2
    one.write(decision.records)
    assert one.sets("t", 0) == (1, (1,), ())
    assert one.state("t", 0).leader_epoch == 2


def test_a_broker_that_is_forgotten_leaves_in_sync_and_eligible_replicas(world):
    """Its data will not come back."""
    one = world(elr=True, minimum=2)
    one.start(1, 2)
    one.topic("t", (1, 2))
    one.do(forget_broker(one.view, 1))
    assert one.sets() == (2, (2,), ())
    assert list(one.image.brokers.brokers) == [2]
    with pytest.raises(KafkaError) as caught:
        forget_broker(one.view, 1)
    assert caught.value.code is ErrorCode.BROKER_ID_NOT_REGISTERED


@pytest.mark.parametrize("elr", [False, True])
def test_replicas_in_a_directory_that_is_offline_leave_and_others_stay(world, elr):
    """The disk is gone, so the replica is not even eligible; directories that are unknown change nothing."""
    one = world(elr=elr, minimum=2)
    one.register(one.registration(1, directories=(A, B)))
    one.beat(1)
    one.start(2)
    one.topic("t", (1, 2), (1, 2))
    for number, directory in ((0, A), (1, B)):
        _assign(one, 1, number, directory)
    end = one.next_offset
    one.beat(1, offline_directories=(C,))
    assert one.next_offset == end
    one.beat(1, offline_directories=(A,))
    assert [one.sets("t", number) for number in (0, 1)] == [(2, (2,), ()), (1, (1, 2), ())]
    assert one.image.brokers.brokers[1].directories == (B,)
    end = one.next_offset
    one.beat(1, offline_directories=(A,))
    assert one.next_offset == end


def _assign(one, broker_id, number, directory):
    key = PartitionKey(one.image.topics.by_name["t"].topic_id, number)
    epoch = one.image.brokers.brokers[broker_id].epoch
    one.do(assign_replicas_to_directories(one.view, broker_id, epoch, [Placed(key, directory)]))


def test_a_heartbeat_that_unfences_and_loses_a_directory_elects_no_leader_there(world):
    """The replica on the lost disk cannot lead; the one on the other disk does."""
    one = world()
    one.register(one.registration(1, directories=(A, B)))
    one.beat(1)
    one.topic("t", (1,), (1,))
    for number, directory in ((0, A), (1, B)):
        _assign(one, 1, number, directory)
    one.beat(1, wants_fence=True)
    one.beat(1, offline_directories=(A,))
    assert [one.state("t", number).leader for number in (0, 1)] == [NO_LEADER, 1]


def test_cordoned_directories_are_noted_when_they_change(world):
    """``None`` is "not known yet"; an empty list is noted once; below level 30 they are not kept."""
    one = world()
    one.start(1)
    found = []
    for reported in (None, (), (), (A,), (A,)):
        before = one.next_offset
        one.beat(1, cordoned_directories=reported)
        found.append((one.next_offset - before, one.image.brokers.brokers[1].cordoned_directories))
    assert found == [(0, None), (1, ()), (0, ()), (1, (A,)), (0, (A,))]
    one.write((FeatureLevelRecord(name="metadata.version", feature_level=29),))
    before = one.next_offset
    one.beat(1, cordoned_directories=(B,))
    assert one.next_offset == before


def test_a_large_fence_is_written_in_several_batches_with_the_broker_in_the_last(world):
    """1,000 records at most in each."""
    one = world()
    one.start(1, 2)
    one.topic("t", *[(1, 2)] * 1_001)
    parts = list(batches(fence_brokers(one.view, (1,)), 30))
    assert [len(part) for part in parts] == [1_000, 2]
    assert isinstance(parts[-1][-1], BrokerRegistrationChangeRecord)
