"""Snapshots of the cluster's metadata: the event loop goes on while they are made and written."""

import asyncio
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import SimpleNamespace

import pytest

from stratalog.broker.control.metadata_log import MetadataLog
from stratalog.broker.runtime.slices import Slices
from stratalog.hot.storage.filesystem import RealFilesystem
from stratalog.metadata.formatting.initial_voters import InitialVoter, quorum_of
from stratalog.metadata.image.image import EMPTY_IMAGE, Provenance
from stratalog.metadata.image.snapshot import SnapshotId, image_records, read_snapshot_and_quorum, snapshot_name
from stratalog.wire.records.metadata import AccessControlEntryRecord, PartitionRecord, TopicRecord

TURN_MS_MAX = 50
QUORUM = quorum_of([InitialVoter(1, "a", 9093, b"d" * 16)], "CONTROLLER")


def records(topics, rules):
    for number in range(topics):
        topic_id = number.to_bytes(16, "big")
        yield TopicRecord(name=f"t{number}", topic_id=topic_id)
        yield PartitionRecord(
            partition_id=0, topic_id=topic_id, replicas=[1], isr=[1], leader=1, leader_epoch=0, partition_epoch=0
        )
    for number in range(rules):
        yield AccessControlEntryRecord(
            id=number.to_bytes(16, "big"),
            resource_type=2,
            resource_name=f"t{number}",
            pattern_type=3,
            principal=f"User:u{number}",
            host="*",
            operation=3,
            permission_type=3,
        )


class Files(RealFilesystem):
    """Notes which thread changes the disk; a sync takes its time."""

    def __init__(self):
        self.threads = []
        self.calls = []

    def open_append(self, path):
        self._note("open")
        return super().open_append(path)

    def rename(self, old, new):
        self._note("rename")
        super().rename(old, new)

    def sync_directory(self, path):
        self._note("sync directory")
        time.sleep(0.2)
        super().sync_directory(path)

    def unlink(self, path):
        self._note("unlink")
        super().unlink(path)

    def _note(self, call):
        self.calls.append(call)
        self.threads.append(threading.get_ident())


@pytest.fixture
def threads():
    with ThreadPoolExecutor(1) as pool:
        yield pool


def metadata_log(directory, files, threads):
    """A metadata log above a log that only notes what becomes of it."""
    log = SimpleNamespace(size_bytes=0, directory=str(directory))
    log.roll = partial(files.calls.append, "roll")
    log.advance_log_start = lambda _offset: files.calls.append("advance")
    log.delete_local_before = lambda _offset: files.calls.append("delete")
    return MetadataLog(SimpleNamespace(log=log), files, 1, threads, QUORUM)


async def in_slices(slices, steps):
    return await slices.run(steps)


@pytest.mark.story
@pytest.mark.parametrize(("topics", "rules"), [(500, 5_000), pytest.param(10_000, 100_000, marks=pytest.mark.slow)])
async def test_the_loop_is_not_held_by_a_large_snapshot(tmp_path, threads, topics, rules):
    """No turn computes for long, and none waits for the disk."""
    image = EMPTY_IMAGE.apply(records(topics, rules), Provenance(7, 3, 99))
    files = Files()
    log = metadata_log(tmp_path, files, threads)
    loop = asyncio.get_running_loop()
    slices = Slices(loop.call_soon, time.monotonic)
    writing = asyncio.ensure_future(log.write_snapshot(image, partial(in_slices, slices)))
    longest_cpu = turns_while_syncing = 0
    while not writing.done():
        begun = time.thread_time()
        await asyncio.sleep(0)
        longest_cpu = max(longest_cpu, time.thread_time() - begun)
        if files.calls and files.calls[-1] == "sync directory":
            turns_while_syncing += 1
            await asyncio.sleep(0.001)
    await writing
    assert longest_cpu * 1e3 < TURN_MS_MAX
    assert turns_while_syncing > 10
    assert threading.get_ident() not in files.threads
    path = tmp_path / snapshot_name(SnapshotId(8, 3))
    assert read_snapshot_and_quorum(path.read_bytes(), SnapshotId(8, 3)) == (image, QUORUM)


async def test_the_log_is_shortened_after_the_snapshot_is_on_disk_and_older_ones_go_last(tmp_path, threads):
    """In this order, a crash at any point leaves a snapshot and the log behind it."""
    image = EMPTY_IMAGE.apply(records(3, 3), Provenance(7, 3, 99))
    older = tmp_path / snapshot_name(SnapshotId(5, 3))
    older.write_bytes(b"older")
    newer = tmp_path / snapshot_name(SnapshotId(9, 3))
    newer.write_bytes(b"newer")
    files = Files()
    log = metadata_log(tmp_path, files, threads)
    slices = Slices(asyncio.get_running_loop().call_soon, time.monotonic)
    await log.write_snapshot(image, partial(in_slices, slices))
    assert files.calls == ["open", "rename", "sync directory", "roll", "advance", "delete", "unlink"]
    assert not older.exists()
    assert newer.exists()
    assert not log.snapshot_due


async def test_a_snapshot_that_cannot_be_written_changes_nothing(tmp_path, threads):
    """The log keeps what the snapshot would have held, and the next command tries again."""
    image = EMPTY_IMAGE.apply(records(3, 3), Provenance(7, 3, 99))
    files = Files()

    def full(old, new):
        raise OSError(28, os.strerror(28))

    files.rename = full
    log = metadata_log(tmp_path, files, threads)
    log._bytes_since_snapshot = 5
    slices = Slices(asyncio.get_running_loop().call_soon, time.monotonic)
    with pytest.raises(OSError, match="No space"):
        await log.write_snapshot(image, partial(in_slices, slices))
    assert files.calls == ["open"]
    assert log.snapshot_due
    assert not list(tmp_path.glob("*.checkpoint"))


def test_records_of_an_image_make_it_again():
    """The records above are those of an image."""
    image = EMPTY_IMAGE.apply(records(3, 3))
    assert EMPTY_IMAGE.apply(image_records(image)) == image
