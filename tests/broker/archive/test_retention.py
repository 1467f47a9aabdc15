"""Where retention would move the log start of a tiered partition: asked for, and nothing is moved."""

import errno
import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from stratalog.broker.archive.retention import planned_log_start, retained_bytes
from stratalog.client.admin import alter_topic_configs
from stratalog.hot.segments.log_summary import LOG_SUMMARIES
from stratalog.hot.storage.filesystem import RealFilesystem
from stratalog.wire.batch import Record, build_batch
from tests.broker.archive.archive_rig import Rig

TIERED = {
    "remote_storage_enable": "true",
    "internal_segment_bytes": 2000,
    "local_retention_bytes": 0,
    "retention_ms": -1,
}


@pytest.fixture
def broker(start_node):
    """A broker whose retention never looks of its own."""
    return start_node(log_retention_check_interval_ms="3600000")


def archived(broker, topic="t", batches=20, **configs):
    """A topic with archived segments and a few records beyond them."""
    broker.create(topic, **{**TIERED, **configs})
    for _ in range(batches):
        broker.produce(topic, *[b"v" * 100] * 5)
    unified = broker.partition(topic)
    broker.wait_until(lambda: unified.remote.end_offset == unified.log.active_base_offset > 0)
    return unified


def planned(broker, unified, **changes):
    """The plan under other settings."""

    def ask():
        unified.log.update_config(replace(unified.log.config, **changes))
        return planned_log_start(unified, unified.remote, broker.node.clock.wall_ms() + 10_000)

    return broker.run(ask)


def test_no_segment_goes_without_limits(broker):
    """No segment goes on a compacted topic either; a plan alone moves no log start."""
    unified = archived(broker)
    assert planned(broker, unified) == 0
    assert planned(broker, unified, retention_ms=1, cleanup_policy=frozenset({"compact"})) == 0
    assert unified.log.log_start_offset == 0


@pytest.mark.story
def test_archive_and_local_log_count_once(broker):
    """The newest bytes stay, whole ranges of them, wherever they are; also where the archive has copies of local ones."""
    unified = archived(broker, local_retention_bytes=-2)
    total = broker.run(retained_bytes, unified, unified.remote)
    local = broker.run(lambda: sum(one.size_bytes for one in unified.log.segments()))
    assert total == local, "everything is in both places"
    for kept in (0, 1, total // 2, total - 1):
        start = planned(broker, unified, retention_bytes=kept)
        sizes = [unified.remote.entries.segment(n) for n in range(len(unified.remote.entries))]
        beyond = sum(one.data_bytes for one in sizes if one.base >= start)
        active = total - sum(one.data_bytes for one in sizes)
        assert beyond + active >= kept
        dropped = [one for one in sizes if one.end <= start]
        assert not dropped or beyond + active < kept + dropped[-1].data_bytes or kept == 0
    assert planned(broker, unified, retention_bytes=total) == 0
    assert planned(broker, unified, retention_bytes=-1, retention_ms=1) == unified.remote.end_offset


@pytest.mark.story
def test_a_manifest_that_was_not_read_yet_is_asked_for(broker):
    """After a restart only the checkpoint is known: no plan, instead of one by half of the data."""
    archived(broker)
    broker.restart()
    unified = broker.partition("t")
    assert planned(broker, unified, retention_bytes=1) is None
    assert broker.run(retained_bytes, unified, unified.remote) == 0
    broker.run(unified.remote.refresh)
    broker.wait_until(lambda: unified.remote.entries is not None)
    assert planned(broker, unified, retention_bytes=1) > 0


def test_a_leader_that_has_not_read_its_archive_moves_no_log_start_by_local_times(tmp_path):
    """An older range that is not expired keeps all behind it, as records of a backfill do; it is in the archive only."""
    rig = Rig(tmp_path)
    now_ms = 1_000_000_000
    newest = build_batch([Record(n, now_ms - 500, None, b"v" * 60) for n in range(5)])
    rig.log.append_as_leader(memoryview(newest), leader_epoch=1, now_ms=now_ms)
    rig.write(8)
    rig.settle()
    rig.write(4)
    assert rig.log.first_base_offset > 0
    rig.log.update_config(replace(rig.log.config, retention_ms=1000))
    assert planned_log_start(rig.unified, rig.unified.remote, now_ms) == 0
    rig.lead(2)
    remote = rig.unified.remote
    assert planned_log_start(rig.unified, remote, now_ms) is None
    for entries in (False, True):
        remote.refresh(entries=entries)
        rig.step()
    assert planned_log_start(rig.unified, remote, now_ms) == 0


class UnreadableIndexes(RealFilesystem):
    """A disk that cannot read time indexes any more, from some time on."""

    fails_with = refused = 0

    def open_read(self, path):
        if self.fails_with and path.endswith(".timeindex"):
            self.refused += 1
            raise OSError(self.fails_with, os.strerror(self.fails_with), path)
        return super().open_read(path)


@pytest.mark.parametrize("code", [errno.EIO, errno.EMFILE])
def test_a_disk_that_fails_while_an_archive_looks_at_its_log_ends_no_tick(start_node, caplog, code):
    """It goes offline, or is tried again. There were four tracebacks a second, and no ticks of the metadata log."""
    files = UnreadableIndexes()
    broker = start_node(files=files)
    broker.create("t", internal_segment_bytes=2000, retention_ms=-1)
    for _ in range(6):
        broker.produce("t", *[b"v" * 100] * 5)
    broker.stop()
    Path(broker.directory, "data", LOG_SUMMARIES).unlink()  # a start without it looks at no segment
    broker.start()
    files.fails_with = code
    alter_topic_configs(broker.client(), "t", set_to={"remote.storage.enable": "true"})
    broker.wait_until(lambda: files.refused > 2 or broker.node.failed.is_set())
    assert broker.node.failed.is_set() is (code == errno.EIO)
    files.fails_with = 0
    if code == errno.EMFILE:
        unified = broker.partition("t")
        broker.wait_until(lambda: unified.remote.end_offset == unified.log.active_base_offset > 0)
    assert "tick failed" not in caplog.text


def test_an_oldest_range_without_a_time_keeps_nothing_for_ever(tmp_path):
    """A disk has lost its records for good, say. The ranges are read to know what follows."""
    rig = Rig(tmp_path)
    for _ in range(2):
        unknown = build_batch([Record(n, -1, None, b"v" * 60) for n in range(5)])
        rig.log.append_as_leader(memoryview(unknown), leader_epoch=1, now_ms=1)
    rig.write(8)
    rig.settle()
    now_ms = 1_000_000_000
    rig.log.update_config(replace(rig.log.config, retention_ms=1000))
    assert rig.manifest.entries[0].max_timestamp_ms == -1
    remote = rig.unified.remote
    remote.unload()
    assert planned_log_start(rig.unified, remote, now_ms) is None
    remote.refresh()
    rig.step()
    assert planned_log_start(rig.unified, remote, now_ms) == rig.log.active_base_offset


def test_a_local_segment_without_times_is_as_old_as_its_first_append(tmp_path):
    """As in a topic without an archive: its records are not archived yet, and what follows may bear times of long ago."""
    rig = Rig(tmp_path)
    append_ms = rig.now_ms = 1_000_000_000
    unknown = build_batch([Record(n, -1, None, b"v" * 60) for n in range(5)])
    rig.log.append_as_leader(memoryview(unknown), leader_epoch=1, now_ms=append_ms)
    rig.log.roll()
    rig.write(1)
    rig.log.roll()
    rig.log.update_config(replace(rig.log.config, retention_ms=1000))
    remote = rig.unified.remote
    assert planned_log_start(rig.unified, remote, append_ms + 500) == 0
    assert planned_log_start(rig.unified, remote, append_ms + 1001) == 10
