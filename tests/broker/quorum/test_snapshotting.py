"""Snapshots of the cluster's metadata: the event loop goes on while they are made and written."""

import asyncio
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.broker.quorum.publishing import at_start
from stratalog.broker.quorum.replica import MetadataReplica, StoredSnapshot
from stratalog.broker.quorum.snapshotting import SnapshotRules, Snapshotting, first_to_keep
from stratalog.broker.runtime.slices import Slices
from stratalog.hot.storage.filesystem import RealFilesystem
from stratalog.metadata.formatting.initial_voters import InitialVoter, quorum_of
from stratalog.metadata.image.image import EMPTY_IMAGE, Provenance
from stratalog.metadata.image.snapshot import SnapshotId, image_records, read_snapshot_and_quorum, snapshot_name
from stratalog.metadata.raft.events import CleanLog, SnapshotDue, SnapshotWritten
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
        self.reported = []
        self.now = 1000.0

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


def snapshotting(directory, files, threads, image, *, keeps_log=False, in_slices=at_start):
    """Snapshots of an image beside a log that only notes what becomes of it, and the events that come of them."""
    log = SimpleNamespace(size_bytes=100, directory=str(directory), log_start_offset=0, topic_partition=("m", 0))
    writer = SimpleNamespace(add=lambda _owner: None, report=files.reported.append)
    replica = MetadataReplica(log, directory=writer, files=files, threads=threads)
    publisher = SimpleNamespace(image=image, quorum=QUORUM)
    rules = SnapshotRules(
        snapshot_bytes=10,
        snapshot_interval_ms=0,
        retention_bytes=-1,
        retention_ms=-1,
        keeps_log=keeps_log,
    )
    clock = SimpleNamespace(wall_ms=lambda: 1_000_000, monotonic=lambda: files.now)
    made, events = Snapshotting(replica, publisher, rules, in_slices=in_slices, clock=clock), []
    made.attach(events.append)
    return made, events


@pytest.mark.story
@pytest.mark.parametrize(("topics", "rules"), [(500, 5_000), pytest.param(10_000, 100_000, marks=pytest.mark.slow)])
async def test_the_loop_is_not_held_by_a_large_snapshot(tmp_path, threads, topics, rules):
    """No turn computes for long, and none waits for the disk."""
    image = EMPTY_IMAGE.apply(records(topics, rules), Provenance(7, 3, 99))
    files = Files()
    loop = asyncio.get_running_loop()
    made, events = snapshotting(tmp_path, files, threads, image, in_slices=Slices(loop.call_soon, time.monotonic).run)
    made.published()
    assert events == [SnapshotDue(8)]
    writing = asyncio.ensure_future(made.write(SnapshotId(8, 3)))
    longest_cpu = turns_while_syncing = 0
    while not writing.done():
        begun = time.thread_time()
        await asyncio.sleep(0)
        longest_cpu = max(longest_cpu, time.thread_time() - begun)
        if files.calls and files.calls[-1] == "sync directory":
            turns_while_syncing += 1
            await asyncio.sleep(0.001)
    await writing
    made.close()
    assert longest_cpu * 1e3 < TURN_MS_MAX
    assert turns_while_syncing > 10
    assert threading.get_ident() not in files.threads
    path = tmp_path / snapshot_name(SnapshotId(8, 3))
    assert read_snapshot_and_quorum(path.read_bytes(), SnapshotId(8, 3)) == (image, QUORUM)


@pytest.mark.parametrize("keeps_log", [False, True])
async def test_the_log_may_go_once_the_snapshot_is_on_disk(tmp_path, threads, keeps_log):
    """In this order, a crash at any point leaves a snapshot and the log behind it. With other nodes the log stays."""
    image = EMPTY_IMAGE.apply(records(3, 3), Provenance(7, 3, 99))
    files = Files()
    made, events = snapshotting(tmp_path, files, threads, image, keeps_log=keeps_log)
    made.published()
    made.published()
    await made.write(SnapshotId(8, 3))
    assert files.calls == ["open", "rename", "sync directory"]
    written = [SnapshotDue(8), SnapshotWritten((8, 3))]
    assert events == (written if keeps_log else [*written, CleanLog((8, 3))])
    assert not made.is_due
    made.grown(10)
    made.published()
    assert len(events) == len(written) + (not keeps_log)  # the image is the one that is on the disk already
    made.close()


async def test_an_image_that_is_due_is_not_forgotten_for_an_older_one(tmp_path, threads):
    """The quorum may ask for the older one first: only the newer is written."""
    image = EMPTY_IMAGE.apply(records(3, 3), Provenance(7, 3, 99))
    made, events = snapshotting(tmp_path, Files(), threads, image, keeps_log=True)
    made.published()
    made._publisher.image = image.apply((), Provenance(8, 3, 99))
    made.published()
    assert events == [SnapshotDue(8), SnapshotDue(9)]
    await made.write(SnapshotId(8, 3))
    await made.write(SnapshotId(9, 3))
    made.close()
    assert [path.name for path in tmp_path.iterdir()] == [snapshot_name(SnapshotId(9, 3))]


async def test_older_snapshots_go_and_newer_ones_stay(tmp_path, threads):
    """Parts of those that were being fetched, or written when the process was killed, go with them."""
    image = EMPTY_IMAGE.apply(records(3, 3), Provenance(7, 3, 99))
    made, _ = snapshotting(tmp_path, Files(), threads, image)
    for end_offset in (5, 8, 9):
        (tmp_path / snapshot_name(SnapshotId(end_offset, 3))).write_bytes(b"content")
    for unfinished in (".part", ".tmp"):
        (tmp_path / (snapshot_name(SnapshotId(4, 3)) + unfinished)).write_bytes(b"part")
    (tmp_path / "00000000000000000004.snapshot.tmp").write_bytes(b"of the log")
    await made.remove_before(SnapshotId(8, 3))
    made.close()
    left = [snapshot_name(SnapshotId(end, 3)) for end in (8, 9)]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["00000000000000000004.snapshot.tmp", *left]


async def test_a_snapshot_that_cannot_be_written_changes_nothing(tmp_path, threads):
    """The log keeps what the snapshot would have held, and a later image is written after a pause: each takes its time."""
    image = EMPTY_IMAGE.apply(records(3, 3), Provenance(7, 3, 99))
    files = Files()

    def full(old, new):
        raise OSError(28, os.strerror(28))

    files.rename = full
    made, events = snapshotting(tmp_path, files, threads, image)
    made.published()
    await made.write(SnapshotId(8, 3))
    assert [error.errno for error in files.reported] == [28]
    assert files.calls == ["open", "unlink"]
    assert made.is_due
    assert not list(tmp_path.iterdir())
    files.now += 29
    made.published()
    assert events == [SnapshotDue(8)]
    files.now += 2
    made.published()
    made.close()
    assert events == [SnapshotDue(8), SnapshotDue(8)]


async def test_a_snapshot_that_the_leaders_overtakes_while_it_is_written_is_none(tmp_path, threads):
    """The bytes since the newer one count for the next, from none on."""
    image = EMPTY_IMAGE.apply(records(3, 3), Provenance(7, 3, 99))
    made, events = snapshotting(tmp_path, Files(), threads, image, keeps_log=True)
    made.published()
    writing = asyncio.ensure_future(made.write(SnapshotId(8, 3)))
    await asyncio.sleep(0.01)
    made.loaded(SnapshotId(20, 4))
    await writing
    assert events == [SnapshotDue(8)]
    made.grown(10)
    assert made.is_due
    made.close()


SIZES = st.lists(st.tuples(st.integers(1, 100), st.integers(0, 1000)), max_size=6)


@given(sizes=SIZES, log_bytes=st.integers(0, 300), bytes_max=st.integers(-1, 300), ms_max=st.integers(-1, 1000))
def test_retention_lets_the_oldest_go_and_never_the_newest(sizes, log_bytes, bytes_max, ms_max):
    """No snapshot goes that both limits allow; after the cut the rest is within them, or is the newest alone."""
    stored = [StoredSnapshot(SnapshotId(at + 1, 1), size, written) for at, (size, written) in enumerate(sizes)]
    rules = SnapshotRules(
        snapshot_bytes=1, snapshot_interval_ms=0, retention_bytes=bytes_max, retention_ms=ms_max, keeps_log=True
    )
    keep = first_to_keep(stored, log_bytes=log_bytes, now_ms=1000, rules=rules)
    first = 0 if keep is None else [one.snapshot for one in stored].index(keep)
    kept = stored[first:]
    for gone in range(first):
        total = log_bytes + sum(one.size_bytes for one in stored[gone:])
        assert 0 <= bytes_max < total or 0 <= ms_max < 1000 - stored[gone].written_ms
    if len(kept) > 1:
        total = log_bytes + sum(one.size_bytes for one in kept)
        assert bytes_max < 0 or total <= bytes_max
        assert ms_max < 0 or 1000 - kept[0].written_ms <= ms_max


def test_records_of_an_image_make_it_again():
    """The records above are those of an image."""
    image = EMPTY_IMAGE.apply(records(3, 3))
    assert EMPTY_IMAGE.apply(image_records(image)) == image
