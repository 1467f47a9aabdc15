"""A data directory that is put back to an older copy is noticed by what the bucket knows, and acknowledges nothing twice."""

import asyncio
import shutil
from pathlib import Path

import pytest

from stratalog.broker.archive import bucket_gate
from stratalog.broker.archive.bucket_gate import BucketGate
from stratalog.broker.replicas.led import Led
from stratalog.hot.storage.checkpoint import SECOND_TIMELINES, read_offsets
from stratalog.hot.storage.filesystem import RealFilesystem
from stratalog.wire.topic import TopicPartition

TIERED = {
    "remote_storage_enable": "true",
    "internal_segment_bytes": 2000,
    "local_retention_bytes": 1,
    "retention_ms": -1,
}
NAME = TopicPartition("t", 0)


@pytest.fixture
def broker(start_node, monkeypatch):
    """One tiered topic with an archive."""
    monkeypatch.setattr(bucket_gate, "START_SECONDS", 60.0)  # a machine that does much else starts workers late
    node = start_node(log_flush_offset_checkpoint_interval_ms="100", log_retention_check_interval_ms="100")
    node.create("t", **TIERED)
    write(node, "old", 8)
    settled(node)
    return node


def write(node, word, batches):
    """Batches of five records each."""
    for number in range(batches):
        node.produce("t", *[f"{word}{number}-{one}".encode() + b"v" * 90 for one in range(5)])


def settled(node):
    """Wait until all frozen segments are archived."""
    node.wait_until(lambda: node.partition("t").remote.end_offset == node.partition("t").log.active_base_offset > 0)


def suspects(node):
    """The partitions that have to be compared, by the file."""
    return read_offsets(RealFilesystem(), f"{node.directory}/data", SECOND_TIMELINES)


def put_back(node, act):
    """Copy the data directory, let it go on, and put the copy in its place."""
    data, copy = Path(node.directory, "data"), Path(node.directory, "copy")
    node.stop()
    shutil.copytree(data, copy)
    node.start()
    act()
    node.stop()
    shutil.rmtree(data)
    copy.rename(data)


def words(node):
    """The sentences for a reader, without the numbers."""
    return [value[:3].decode() for value in node.values("t")]


def test_a_directory_that_went_back_goes_on_behind_its_archive(broker):
    """No offset is given out twice: the check comes before the first append, and the next starts know."""

    def longer():
        write(broker, "los", 8)
        settled(broker)

    put_back(broker, longer)
    end = 0
    for word in ("ne0", "ne1"):
        broker.start()
        broker.wait_until(lambda: broker.partition("t").partition.held_back is None)
        log = broker.partition("t").log
        assert log.log_end_offset > max(40, end)
        end = log.log_end_offset
        write(broker, word, 4)
        read = words(broker)
        assert read[:40] == ["old"] * 40
        assert read[end : end + 20] == [word] * 20
        assert len(read) == end + 20
        settled(broker)
        broker.stop()
    broker.start()


@pytest.mark.story
def test_doubts_are_remembered_until_they_are_settled(broker):
    """A broker that dies before the comparison begins again with it, although the bucket shows its own start by then."""

    def longer():
        write(broker, "los", 8)
        settled(broker)

    put_back(broker, longer)
    broker.start()
    broker.wait_until(lambda: broker.partition("t").partition.held_back is None)
    first = broker.partition("t").log.log_end_offset
    broker.wait_until(lambda: suspects(broker) == {})
    broker.stop()
    path = Path(broker.directory, "data", SECOND_TIMELINES)
    path.write_text("0\n1\nt 0 0\n")
    broker.start()
    broker.wait_until(lambda: broker.partition("t").partition.held_back is None)
    assert broker.partition("t").log.log_end_offset == first
    broker.wait_until(lambda: suspects(broker) == {})


@pytest.mark.story
def test_producers_get_ids_that_the_missing_time_did_not_give_out(broker):
    """Batches of a new producer would be taken for repetitions of those that the archive knows."""
    before = broker.run(broker.node.producer_ids.next)

    def longer():
        write(broker, "los", 8)
        settled(broker)

    put_back(broker, longer)
    broker.start()
    assert broker.run(broker.node.producer_ids.next) >= before + (1 << 20)


@pytest.mark.story
def test_equal_epochs_are_distinguished_while_the_log_is_longer_than_the_archive(broker, monkeypatch):
    """The bucket did not answer at the start: what was acknowledged meanwhile is kept aside, and that is said."""

    def longer():
        write(broker, "los", 4)
        settled(broker)

    put_back(broker, longer)
    with monkeypatch.context() as silent:
        silent.setattr(BucketGate, "_look", lambda _: None)
        silent.setattr(BucketGate, "look_at_start", lambda _: asyncio.sleep(0))
        broker.start()
        write(broker, "new", 16)
    broker.run(broker.node.tiering.gate._look)
    broker.wait_until(lambda: list(Path(broker.directory, "data").glob("t-0.*-stray")))
    broker.wait_until(lambda: broker.partition("t").partition.held_back is None)
    read = words(broker)
    assert "new" not in read
    assert read[:40] == ["old"] * 40
    assert 40 < len(read) <= 60


@pytest.mark.story
def test_a_directory_that_did_not_go_back_is_not_compared(broker):
    """Kills and stops in any order leave nothing to notice."""
    for _ in range(3):
        broker.restart()
        write(broker, "old", 2)
        settled(broker)
    assert suspects(broker) == {}
    assert set(words(broker)) == {"old"}


def test_a_comparison_that_ends_with_its_leadership_holds_nothing_back(broker):
    """The bucket was silent, and another broker led meanwhile. A log that is taken over from it is complete, and is not compared."""
    unified, tiering = broker.partition("t"), broker.node.tiering

    def led(why):
        tiering.detach(unified)
        tiering.attach(unified, why)
        held_back, unified.comparison_owed = unified.partition.held_back, False  # it copies what the other has
        return held_back

    assert broker.run(lambda: (led(Led.UNCLEAN), led(Led.TAKEN_OVER))) == (
        "its archive is being compared with its local log",
        None,
    )
    write(broker, "new", 1)
    assert len(broker.values("t")) == 45
