"""Compacted topics with an archive: nothing that a reader from 0 could miss is cleaned, nothing deleted comes back."""

import pytest

from stratalog.client.admin import alter_topic_configs
from stratalog.client.records import NewRecord

TIERED = {
    "cleanup_policy": "compact",
    "remote_storage_enable": "true",
    "internal_segment_bytes": 2000,
    "min_cleanable_dirty_ratio": "0",
    "delete_retention_ms": 0,
    "retention_ms": -1,
}


@pytest.fixture
def broker(start_node):
    """It cleans when a test says so."""
    return start_node(log_cleaner_backoff_ms=3_600_000, log_retention_check_interval_ms="100")


def put(broker, key: bytes, value: bytes | None) -> None:
    broker.produce("t", NewRecord(value, broker.node.clock.wall_ms(), key=key, partition=0))


def write(broker, rounds: int) -> None:
    """Ten keys a round; key 3 is deleted in each."""
    for _ in range(rounds):
        for number in range(10):
            put(broker, b"%d" % number, b"v" * 100)
        put(broker, b"3", None)
    broker.run(broker.partition("t").log.roll)


def archived(broker) -> None:
    def done() -> bool:
        unified = broker.partition("t")
        return unified.remote.end_offset == unified.log.active_base_offset > 0

    broker.wait_until(done)


def clean(broker) -> None:
    broker.run(broker.node.compaction.look)
    broker.wait_until(lambda: broker.node.compaction.idle)


def latest(broker) -> dict[bytes, bytes | None]:
    return {record.key: record.value for record in broker.read("t")}


def local_offsets(broker) -> set[int]:
    start = broker.partition("t").log.local_log_start_offset
    return {record.offset for record in broker.read("t", offset=start)}


@pytest.mark.story
def test_records_above_the_remote_end_are_not_cleaned(broker):
    """A record is dropped only for a later one below the remote end."""
    broker.create("t", remote_log_copy_disable="true", **TIERED)
    write(broker, 3)
    clean(broker)
    assert broker.node.compaction.cleanings == 0
    assert len(local_offsets(broker)) == 33
    alter_topic_configs(broker.client(), "t", set_to={"remote.log.copy.disable": "false"})
    archived(broker)
    clean(broker)
    assert broker.node.compaction.cleanings == 1
    assert local_offsets(broker) == {22, 23, 24, *range(26, 33)}


@pytest.mark.story
def test_a_reader_from_0_never_sees_a_deleted_key_again(broker):
    """Tombstones stay while the archive has not been cleaned past them, whatever their retention says."""
    broker.create("t", **TIERED)
    write(broker, 3)
    archived(broker)
    for _ in range(3):
        clean(broker)
        write(broker, 1)
        archived(broker)
    clean(broker)
    tombstones = [record.offset for record in broker.read("t") if record.value is None]
    assert broker.partition("t").log.log_end_offset - 1 in tombstones
    expected = {b"%d" % number: None if number == 3 else b"v" * 100 for number in range(10)}
    assert latest(broker) == expected
    alter_topic_configs(broker.client(), "t", set_to={"local.retention.bytes": "0"})
    log = broker.partition("t").log
    broker.wait_until(lambda: log.local_log_start_offset == log.active_base_offset)
    assert [record.offset for record in broker.read("t")] == list(range(log.log_end_offset))
    assert latest(broker) == expected


def test_readers_cross_the_border_into_a_cleaned_log(broker):
    """The local log begins with a gap; every offset is a fetch offset."""
    broker.create("t", **TIERED)
    write(broker, 4)
    archived(broker)
    log = broker.partition("t").log
    alter_topic_configs(broker.client(), "t", set_to={"local.retention.bytes": "2500"})
    broker.wait_until(lambda: log.local_log_start_offset > 0)
    alter_topic_configs(broker.client(), "t", set_to={"local.retention.bytes": "1000000"})
    broker.wait_until(lambda: log.config.local_retention_bytes == 1_000_000)  # the border stays where it is
    clean(broker)
    archive = set(range(log.local_log_start_offset))
    left = sorted(archive | local_offsets(broker))
    assert len(left) < log.log_end_offset
    for offset in range(log.log_end_offset):
        assert [record.offset for record in broker.read("t", offset=offset)] == [one for one in left if one >= offset]


@pytest.mark.story
def test_a_log_that_was_compacted_before_is_archived_with_its_gaps(broker):
    """The upload's own checks know of them, also when the topic is compacted no longer."""
    broker.create("t", **{**TIERED, "remote_storage_enable": "false", "delete_retention_ms": 3_600_000})
    write(broker, 3)
    clean(broker)
    left = local_offsets(broker)
    assert len(left) < 33
    changes = {"remote.storage.enable": "true", "cleanup.policy": "delete", "local.retention.bytes": "0"}
    alter_topic_configs(broker.client(), "t", set_to=changes)
    archived(broker)
    log = broker.partition("t").log
    broker.wait_until(lambda: log.local_log_start_offset == log.active_base_offset)
    assert {record.offset for record in broker.read("t")} == left
