"""A topic is deleted, and perhaps made again, between two files of one checkpoint: `Directories.checkpoint_steps`."""

import shutil
from pathlib import Path

import pytest

from stratalog.client.admin import delete_topics
from stratalog.wire.topic import TopicPartition

NAME = TopicPartition("t", 0)


@pytest.fixture
def under_way(broker):
    """The rest of a checkpoint that has stored the recovery points; the topic, which begins at offset 5, was deleted since."""
    broker.create("t", segment_bytes=1 << 20)
    unified = broker.partition("t")
    for number in range(6):
        broker.produce("t", b"old %d" % number)
    broker.wait_until(lambda: unified.partition.high_watermark == 6)
    broker.run(lambda: unified.log.advance_log_start(5))
    node = broker.node
    directory = node.directories.of(unified.partition.directory)
    steps = node.directories.checkpoint_steps(directory, node.hosted.table.partitions)
    while not directory.files.points_stored or NAME not in directory.files.recovery_points:
        broker.run(lambda: next(steps))
    delete_topics(broker.client(), ["t"])
    broker.wait_until(lambda: "t" not in node.image.topics.by_name)
    return steps


def test_a_topic_that_is_made_again_within_a_checkpoint_keeps_its_records_over_a_kill(broker, under_way):
    """A row of the old log would be the new one's: it would begin behind its own records."""
    broker.create("t")
    assert [broker.produce("t", b"new %d" % number)[0] for number in range(3)] == [0, 1, 2]
    broker.run(lambda: list(under_way))
    killed = Path(broker.directory + "-killed")
    shutil.copytree(broker.directory, killed)  # as a kill at this moment leaves it
    broker.stop()
    shutil.rmtree(broker.directory)
    shutil.move(killed, broker.directory)
    broker.start()
    assert broker.values("t") == [b"new 0", b"new 1", b"new 2"]


def test_a_topic_that_is_made_again_after_that_checkpoint_begins_at_zero(broker, under_way):
    """No row of the old log came back into memory, from where the next log of its name would take it at any time."""
    broker.run(lambda: list(under_way))
    files = broker.node.directories.all[0].files
    assert all(NAME not in rows for rows in (files.recovery_points, files.log_start_offsets, files.bounds))
    broker.create("t")
    assert broker.produce("t", b"new")[0] == 0
