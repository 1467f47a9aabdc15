"""An archive is compacted by a job while its broker serves it: readers see the same values, and the cleaner goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from stratalog.client.admin import alter_topic_configs
from stratalog.client.records import NewRecord
from stratalog.spark.archive_store import open_archive
from stratalog.spark.rewrite.compact import CompactSettings, compact
from stratalog.spark.rewrite.rewriter import HereRewriter
from stratalog.spark.source.options import parse_options
from stratalog.tier.care.verify import verify_bucket
from stratalog.tier.care.verify_partition import VerifyOptions
from stratalog.tier.manifests.manifest_store import read_manifest

TIERED = {
    "cleanup_policy": "compact",
    "remote_storage_enable": "true",
    "internal_segment_bytes": 2000,
    "min_cleanable_dirty_ratio": "0",
    "delete_retention_ms": 0,
    "retention_ms": -1,
}
EXPECTED = {b"%d" % number: b"v" * 100 for number in range(10) if number != 3}


class Told:
    """A listener that ignores everything."""

    def planned(self, scan_bytes: int, group_bytes: int) -> None:
        """So much."""

    def moved(self, size_bytes: int) -> None:
        """So far."""


@pytest.fixture
def broker(start_node):
    """It cleans when a test says so."""
    return start_node(log_cleaner_backoff_ms=3_600_000, log_retention_check_interval_ms="100")


def write(broker, rounds: int, *, third: bool = True) -> None:
    """Ten keys a round; key 3 is deleted in each, or left out."""
    for _ in range(rounds):
        for number in range(10):
            if third or number != 3:
                put(broker, b"%d" % number, b"v" * 100)
        if third:
            put(broker, b"3", None)
    broker.run(broker.partition("t").log.roll)


def put(broker, key: bytes, value: bytes | None) -> None:
    broker.produce("t", NewRecord(value, broker.node.clock.wall_ms(), key=key, partition=0))


def archived(broker) -> None:
    def done() -> bool:
        unified = broker.partition("t")
        return unified.remote.end_offset == unified.log.active_base_offset > 0

    broker.wait_until(done)
    broker.wait_until(lambda: list(Path(broker.directory, "bucket").glob("topics/*/topic.json")))


def clean(broker) -> None:
    broker.run(broker.node.compaction.look)
    broker.wait_until(lambda: broker.node.compaction.idle)


def url(broker) -> str:
    return f"file://{broker.directory}/bucket"


def compacted(broker, **changes):
    settings = CompactSettings("t", parse_options({"archive": url(broker), "subscribe": "t"}), **changes)
    return compact(settings, HereRewriter(), Told())


def manifest(broker):
    return read_manifest(open_archive(url(broker), {}), broker.partition("t").remote.facts.partition).manifest


def local_start(broker) -> int:
    return broker.partition("t").log.local_log_start_offset


def all_read(broker) -> dict[bytes, bytes | None]:
    return {record.key: record.value for record in broker.read("t")}


def evicted(broker) -> None:
    """Frozen segments are no longer on the local disk."""
    alter_topic_configs(broker.client(), "t", set_to={"local.retention.bytes": "0"})
    log = broker.partition("t").log
    broker.wait_until(lambda: log.local_log_start_offset == log.active_base_offset)


@pytest.mark.story
def test_tombstones_leave_the_local_log_and_the_archive_and_no_key_comes_back(broker):
    """First nothing local may go; after a compaction the cleaner drops what lies below it, and later the archive does."""
    broker.create("t", **TIERED)
    write(broker, 3)
    archived(broker)
    for _ in range(3):
        clean(broker)
        write(broker, 1, third=False)
        archived(broker)
    assert 32 in [record.offset for record in broker.read("t", offset=local_start(broker))]
    summary = compacted(broker)
    assert summary.is_whole
    assert summary.records - summary.records_kept == 60 - 10
    assert manifest(broker).archive_clean_offset == 60
    write(broker, 1, third=False)
    archived(broker)
    broker.wait_until(lambda: broker.partition("t").remote.archive_clean_offset == 60)
    for _ in range(2):
        clean(broker)
        write(broker, 1, third=False)
        archived(broker)
    assert 32 not in [record.offset for record in broker.read("t", offset=local_start(broker))]
    assert all_read(broker).items() >= EXPECTED.items()
    assert all_read(broker).get(b"3") is None
    evicted(broker)
    assert all_read(broker) == EXPECTED | {b"3": None}
    for _ in range(2):
        assert compacted(broker, again=True).is_whole
    broker.restart()
    assert all_read(broker) == EXPECTED


def test_readers_of_a_compacted_archive_find_every_offset(broker):
    """Also when a fetch begins at one that is gone; what verifies the bucket finds nothing wrong."""
    broker.create("t", **TIERED)
    write(broker, 4)
    archived(broker)
    evicted(broker)
    everything = [record.offset for record in broker.read("t")]
    assert everything == list(range(broker.partition("t").log.log_end_offset))
    assert compacted(broker, object_bytes=3_000).is_whole
    write(broker, 1)
    archived(broker)
    unified = broker.partition("t")
    broker.wait_until(lambda: unified.remote.archive_clean_offset == 44)
    broker.wait_until(lambda: unified.log.local_log_start_offset == unified.log.active_base_offset)
    left = [record.offset for record in broker.read("t")]
    assert left == [*(33 + n for n in (0, 1, 2, 4, 5, 6, 7, 8, 9, 10)), *range(44, 55)]
    for offset in range(0, 55, 3):
        assert [record.offset for record in broker.read("t", offset=offset)] == [one for one in left if one >= offset]
    reports = verify_bucket(open_archive(url(broker), {}), VerifyOptions(2**62, 0, deep=True))
    assert [one for report in reports for one in report.anomalies] == []


@pytest.mark.story
def test_a_cold_broker_reads_what_a_compaction_has_left(broker):
    """A restart knows nothing but the bucket's manifest."""
    broker.create("t", **TIERED)
    write(broker, 3)
    archived(broker)
    evicted(broker)
    assert compacted(broker).is_whole
    broker.restart()
    assert all_read(broker) == EXPECTED | {b"3": None}
