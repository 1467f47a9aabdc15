"""DeleteRecords has pauses: in one of them its topic is deleted, or made again, or led by another broker."""

from pathlib import Path

import pytest

from stratalog.broker.replicas.record_deletion import delete_records
from stratalog.client.admin import delete_topics


def filled(broker, topic="t"):
    """A topic with six closed segments of a record each."""
    broker.create(topic, segment_bytes=1 << 20)
    unified = broker.partition(topic)
    for number in range(6):
        broker.produce(topic, b"old %d" % number)
        broker.run(unified.log.roll)
    broker.wait_until(lambda: unified.partition.high_watermark == 6)
    return unified


def advanced(broker, steps, count):
    """Whether the steps still go on after so many of them."""

    def advance():
        return all(next(steps, steps) is None for _ in range(count))

    return broker.run(advance)


def test_a_topic_that_is_deleted_in_any_pause_takes_no_directory_offline(broker):
    """Its files have other names by then, which says nothing about the disk."""
    node = broker.node
    for paused_after in range(8):
        unified = filled(broker, f"t{paused_after}")
        steps = delete_records(node.directories, node.hosted.table, [(unified, 4)])
        goes_on = advanced(broker, steps, paused_after)
        broker.run(lambda one=unified: list(node.hosted.deleting(one.topic_partition.topic, one.topic_id)))
        broker.run(lambda steps=steps: list(steps))
        assert unified.partition.directory.offline is None
        if not goes_on:
            break
    assert paused_after > 2


@pytest.mark.parametrize("paused_after", [1, 2, 3])
def test_a_topic_that_is_made_again_in_a_pause_keeps_its_records(broker, paused_after):
    """Its segments have the names of those that were to go, and its rows in checkpoints those of the log before."""
    unified = filled(broker)
    steps = delete_records(broker.node.directories, broker.node.hosted.table, [(unified, 4)])
    assert advanced(broker, steps, paused_after)
    delete_topics(broker.client(), ["t"])
    broker.wait_until(lambda: "t" not in broker.node.image.topics.by_name)
    broker.create("t")
    assert [broker.produce("t", b"new %d" % number)[0] for number in range(3)] == [0, 1, 2]
    broker.run(lambda: list(steps))
    home = Path(broker.partition("t").log.directory)
    assert not [one.name for one in home.iterdir() if one.name.endswith(".deleted")]
    broker.restart()
    assert broker.values("t") == [b"new 0", b"new 1", b"new 2"]
