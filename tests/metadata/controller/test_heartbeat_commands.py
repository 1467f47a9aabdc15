"""Heartbeats as records and answers."""

from stratalog.metadata.controller.broker_heartbeats import Heartbeat
from stratalog.metadata.controller.heartbeat_commands import answering_heartbeat, fence_silent_brokers
from stratalog.wire.records.metadata import PartitionChangeRecord


def test_an_answer_says_whether_the_broker_is_caught_up_fenced_and_may_stop(world):
    """From the registration to the stop."""
    one = world()
    one.register(one.registration(1))
    found = []
    for fields in ({"metadata_offset": 0}, {"wants_fence": True}, {}, {}, {"wants_shutdown": True}):
        answer = one.beat(1, **fields)
        found.append((answer.is_caught_up, answer.is_fenced, answer.should_shut_down))
    assert found == [
        (False, True, False),
        (True, True, False),
        (True, False, False),
        (True, False, False),
        (True, True, True),
    ]


def test_a_heartbeat_that_changes_nothing_writes_nothing(world):
    """The metadata log does not grow with the number of brokers and hours."""
    one = world()
    one.start(1)
    end = one.next_offset
    for _ in range(5):
        one.beat(1)
    assert one.next_offset == end


def test_a_directory_that_fails_with_all_its_replicas_is_left_in_steps(world):
    """Also where the same heartbeat asks to stop: the second decision is made on the image after the first."""
    one, directories = world(), (b"a" * 16, b"b" * 16)
    one.register(one.registration(1, directories=directories))
    one.beat(1)
    one.start(2)
    topic_id = one.topic("t", *[(1, 2)] * 1000)
    one.write(
        [
            PartitionChangeRecord(topic_id=topic_id, partition_id=number, directories=[directories[0], b"\2" * 16])
            for number in range(1000)
        ]
    )
    beat = Heartbeat(
        broker_id=1,
        broker_epoch=one.image.brokers.brokers[1].epoch,
        metadata_offset=one.next_offset - 1,
        wants_shutdown=True,
        offline_directories=directories[:1],
    )
    deciding = answering_heartbeat(one.heartbeats, one.view, beat, now_ms=one.now_ms, next_offset=one.next_offset)
    assert sum(1 for _ in deciding) > 2 * 1000 + 9  # each partition twice, and between them the records of the first


def test_all_brokers_of_a_lost_rack_are_fenced_in_few_decisions(world):
    """Sixteen a decision; the next follows at once."""
    one = world()
    brokers = tuple(range(1, 21))
    one.start(*brokers)
    one.now_ms += 9000
    found = [len(one.do(fence_silent_brokers(one.heartbeats, one.view, one.now_ms))) for _ in range(3)]
    assert found == [16, 4, 0]
    assert all(broker.is_fenced for broker in one.image.brokers.brokers.values())
