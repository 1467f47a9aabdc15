"""A node's copy of the metadata log on its disk."""

import asyncio
import errno
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress

import pytest

from stratalog.broker.quorum.batches import data_batch, parse_batches
from stratalog.broker.quorum.metadata_log import open_metadata_log
from stratalog.broker.quorum.replica import MetadataReplica
from stratalog.broker.replicas.directories import Directories
from stratalog.broker.runtime.tick import Tick
from stratalog.metadata.image.image import EMPTY_IMAGE, Provenance
from stratalog.metadata.image.snapshot import SnapshotId, build_snapshot, snapshot_name
from stratalog.wire.errors import Corrupt, ErrorCode, KafkaError
from tests.conftest import WatchedFilesystem


class Killed(WatchedFilesystem):
    """Takes ``left`` more changes, and then none: as if the process had been killed."""

    left = None

    def note(self, call, path):
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise OSError(errno.EIO, "killed")


@asynccontextmanager
async def opened(directory, files, **more):
    """A replica in a directory of its own."""
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(2) as threads:
        directories = Directories.open(
            [str(directory)], files=files, node_id=1, loop=loop, tick=Tick(loop), sync_threads=threads,
            on_failed=lambda _writer, _error: None,
        )  # fmt: skip
        (home,) = directories.all
        try:
            log = open_metadata_log(home, now_ms=1, **more)
        except Corrupt:
            directories.release()
            raise
        replica = MetadataReplica(log, directory=home.writer, files=files, threads=threads)
        try:
            yield replica
        finally:
            replica.close()
            await directories.settle()
            log.abandon()
            directories.release()


def batch(offset, count=2, epoch=1):
    return data_batch([b"value"] * count, base_offset=offset, epoch=epoch, timestamp_ms=1)


async def test_a_batch_can_be_fetched_when_it_is_written_and_counts_when_it_is_synced(tmp_path, watched_files):
    """Followers sync beside the leader."""
    async with opened(tmp_path, watched_files) as replica:
        synced = asyncio.Event()
        replica.on_synced = synced.set
        replica.write([batch(0)], epoch=1, now_ms=1)
        assert [one.end_offset for one in parse_batches(replica.read(0, 2))] == [2]
        assert replica.log.flushed_offset == 0
        replica.sync()
        await asyncio.wait_for(synced.wait(), 5)
        assert replica.log.flushed_offset == 2
        assert replica.read(2, 2) == b""


async def test_a_batch_that_finds_no_room_leaves_no_trace(tmp_path, watched_files):
    """The next one takes its place."""
    async with opened(tmp_path, watched_files) as replica:
        replica.write([batch(0)], epoch=1, now_ms=1)
        watched_files.fail("write", ".log", errno.ENOSPC)
        with pytest.raises(KafkaError) as refused:
            replica.write([batch(2)], epoch=1, now_ms=1)
        assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        watched_files.faults.clear()
        replica.directory.retry_refused()
        replica.write([batch(2, count=1)], epoch=1, now_ms=1)
        assert replica.log.log_end_offset == 3


async def test_a_refused_batch_counts_until_the_log_is_settled(tmp_path, watched_files):
    """With a full disk it may not be taken back at once either: a replica that begins anew would not find it in the file."""
    async with opened(tmp_path, watched_files) as replica:
        replica.write([batch(0)], epoch=1, now_ms=1)
        replica.settle()
        for operation in ("write", "truncate"):
            watched_files.fail(operation, ".log", errno.ENOSPC)
        with pytest.raises(KafkaError):
            replica.write([batch(2)], epoch=1, now_ms=1)
        with pytest.raises(OSError, match="No space"):
            replica.settle()
        watched_files.faults.clear()
        replica.settle()
        assert replica.log.log_end_offset == 2


async def test_a_brokers_copy_may_have_holes_where_it_was_not_synced(tmp_path, watched_files):
    """A power cut keeps any part of it. The quorum has the rest; a voter's word may have been counted, so it refuses."""
    async with opened(tmp_path, watched_files) as replica:
        replica.write([batch(0), batch(2), batch(4)], epoch=1, now_ms=1)
        (segment,) = tmp_path.glob("__cluster_metadata-0/*.log")
        written = bytearray(segment.read_bytes())
        size = len(written) // 3
    torn = written[:size] + bytes(size) + written[2 * size :]
    segment.write_bytes(torn)
    with pytest.raises(Corrupt, match="offset 2 of"):
        async with opened(tmp_path, watched_files):
            pass
    assert segment.read_bytes() == torn
    async with opened(tmp_path, watched_files, is_copy=True) as replica:
        assert replica.log.log_end_offset == 2
        replica.write([batch(2, epoch=2)], epoch=2, now_ms=2)
        assert [one.end_offset for one in parse_batches(replica.read(0, 4))] == [2, 4]


async def test_a_brokers_copy_with_a_hole_in_what_was_synced_is_refused(tmp_path, watched_files):
    """That is no power cut."""
    async with opened(tmp_path, watched_files) as replica:
        replica.write([batch(0), batch(2), batch(4)], epoch=1, now_ms=1)
        (segment,) = tmp_path.glob("__cluster_metadata-0/*.log")
        size = len(written := segment.read_bytes()) // 3
    segment.write_bytes(written[:size] + bytes(size) + written[2 * size :])
    (tmp_path / "recovery-point-offset-checkpoint").write_text("0\n1\n__cluster_metadata 0 6\n")
    with pytest.raises(Corrupt, match="offset 2 of"):
        async with opened(tmp_path, watched_files, is_copy=True):
            pass


async def test_a_failed_directory_takes_nothing(tmp_path, watched_files):
    """The error names the log; its owner hears once."""
    async with opened(tmp_path, watched_files) as replica:
        heard = []
        replica.on_failed = heard.append
        watched_files.fail("write", ".log", errno.EIO)
        for _ in range(2):
            with pytest.raises(KafkaError, match="cannot be written"):
                replica.write([batch(0)], epoch=1, now_ms=1)
        assert [error.errno for error in heard] == [errno.EIO]


async def test_a_cut_drops_what_lies_behind(tmp_path, watched_files):
    """Other records may take the same offsets in a later epoch."""
    async with opened(tmp_path, watched_files) as replica:
        for offset in (0, 2, 4):
            replica.write([batch(offset)], epoch=1, now_ms=1)
        replica.truncate(2)
        replica.write([batch(2, count=1, epoch=5)], epoch=5, now_ms=1)
        assert [(one.base_offset, one.epoch) for one in parse_batches(replica.read(0, 3))] == [(0, 1), (2, 5)]


async def test_a_fetched_snapshot_has_its_name_only_when_it_is_whole_and_synced(tmp_path, watched_files):
    """Position 0 begins anew; what was there before of the same snapshot goes."""
    async with opened(tmp_path, watched_files) as replica:
        snapshot = SnapshotId(7, 3)
        replica.keep_chunk(snapshot, 0, b"old and longer")
        replica.keep_chunk(snapshot, 0, b"abc")
        replica.keep_chunk(snapshot, 3, b"def")
        assert replica.snapshots() == []
        assert replica.read_part(snapshot) == b"abcdef"
        replica.finish_snapshot(snapshot)
        (stored,) = replica.snapshots()
        assert (stored.snapshot, stored.size_bytes) == (snapshot, 6)
        assert stored.written_ms == pytest.approx(time.time() * 1000, abs=60_000)
        assert replica.snapshot_chunk(snapshot, 4) == (6, b"ef")
        assert replica.snapshot_chunk(snapshot, 6) == (6, b"")
        assert replica.snapshot_chunk(snapshot, -1) == (6, b"")
        names = [path for call, path in watched_files.calls if call == "sync"]
        assert any(path.endswith(f"{snapshot_name(snapshot)}.part") for path in names)
        replica.write([batch(0)], epoch=1, now_ms=1)
        replica.begin_behind(snapshot)
        assert (replica.log.log_start_offset, replica.log.log_end_offset) == (7, 7)


async def test_a_snapshot_that_finds_no_room_takes_none(tmp_path, watched_files):
    """The logs of the directory would find none either, as long as it lies there half."""
    async with opened(tmp_path, watched_files) as replica:
        replica.keep_chunk(SnapshotId(9, 3), 0, b"abc")
        watched_files.free_bytes = 5
        with pytest.raises(OSError, match="No space"):
            replica.keep_chunk(SnapshotId(9, 3), 3, b"defghi")
        watched_files.free_bytes = 5
        with pytest.raises(OSError, match="No space"):
            replica.write_snapshot(SnapshotId(7, 3), [bytearray(b"longer")])
        watched_files.free_bytes = None
        assert not list(tmp_path.glob("__cluster_metadata-0/*checkpoint*"))


@pytest.mark.parametrize("is_whole", [True, False])
async def test_a_kill_while_a_log_begins_behind_a_snapshot_is_no_damage(tmp_path, watched_files, is_whole):
    """Between the new segment and the end of the old ones there is a gap, which the snapshot fills, if it can be read."""
    async with opened(tmp_path, watched_files) as replica:
        replica.write([batch(0)], epoch=1, now_ms=1)
        snapshot = SnapshotId(7, 3)
        content = b"".join(build_snapshot(EMPTY_IMAGE.apply((), Provenance(6, 3, 1))))
        replica.keep_chunk(snapshot, 0, content if is_whole else content[:-1])
        replica.finish_snapshot(snapshot)
        watched_files.fail("rename", ".log", errno.EIO)
        with pytest.raises(OSError, match="Input/output"):
            replica.begin_behind(snapshot)
        watched_files.faults.clear()
    files = sorted(path.name for path in tmp_path.glob("__cluster_metadata-0/*.log"))
    assert files == [f"{base:020d}.log" for base in (0, 7)]
    if not is_whole:
        with pytest.raises(Corrupt, match="the next segment begins at offset 7"):
            async with opened(tmp_path, watched_files):
                pass
        assert sorted(path.name for path in tmp_path.glob("__cluster_metadata-0/*.log")) == files
        return
    async with opened(tmp_path, watched_files) as replica:
        assert (replica.log.log_start_offset, replica.log.log_end_offset) == (0, 2)
        replica.begin_behind(snapshot)
        assert (replica.log.log_start_offset, replica.log.log_end_offset) == (7, 7)


async def test_a_kill_at_any_call_while_a_log_begins_behind_a_snapshot_lets_the_next_start_begin_it(tmp_path):
    """Part of the old segments may be left: the newest go first."""
    ends = []
    for left in range(100):
        files, directory = Killed(), tmp_path / str(left)
        async with opened(directory, files) as replica:
            for offset in (0, 2, 4):
                replica.write([batch(offset)], epoch=1, now_ms=1)
                replica.log.roll()
            snapshot = SnapshotId(9, 3)
            replica.write_snapshot(snapshot, build_snapshot(EMPTY_IMAGE.apply((), Provenance(8, 3, 1))))
            files.left = left
            with suppress(OSError):
                replica.begin_behind(snapshot)
            is_killed, files.left = files.left < 0, None
        async with opened(directory, files) as replica:
            ends.append(replica.log.log_end_offset)
            replica.begin_behind(snapshot)
            assert (replica.log.log_start_offset, replica.log.log_end_offset) == (9, 9)
        if not is_killed:
            break
    assert set(ends) == {2, 4, 6, 9}
    assert ends[-1] == 9


async def test_an_observer_syncs_what_it_has_written_for_a_while(tmp_path, watched_files):
    """It does not sync before it fetches again."""
    async with opened(tmp_path, watched_files) as replica:
        synced = asyncio.Event()
        replica.on_synced = synced.set
        replica.tick(10.0)
        replica.write([batch(0)], epoch=1, now_ms=1)
        replica.tick(10.5)
        await asyncio.sleep(0.05)
        assert not synced.is_set()
        replica.tick(11.5)
        await asyncio.wait_for(synced.wait(), 5)


async def test_names_that_change_while_they_are_listed_harm_nothing(tmp_path, watched_files, monkeypatch):
    """Another thread writes a snapshot meanwhile: its temporary name is gone when its size is asked for."""
    async with opened(tmp_path, watched_files) as replica:
        for end_offset in (3, 5):
            replica.keep_chunk(SnapshotId(end_offset, 1), 0, b"x")
            replica.finish_snapshot(SnapshotId(end_offset, 1))
        scan = watched_files.scan

        def racing(directory, *, sized=("",)):
            if sized:
                raise FileNotFoundError(f"{directory}/00000000000000000009-0000000001.checkpoint.tmp")
            return scan(directory, sized=sized)

        monkeypatch.setattr(watched_files, "scan", racing)
        assert [one.snapshot.end_offset for one in replica.snapshots()] == [3, 5]
        replica.remove_snapshots_before(SnapshotId(5, 1))
        assert [one.snapshot.end_offset for one in replica.snapshots()] == [5]
