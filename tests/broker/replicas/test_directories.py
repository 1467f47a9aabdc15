"""Log directories: whose they are, who uses them, and what is written down about them."""

import asyncio
import errno
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

from stratalog.broker.replicas.directories import Directories
from stratalog.broker.runtime.tick import Tick
from stratalog.hot.cleaner_offsets import note_cleaner_offset
from stratalog.hot.config import LogConfig
from stratalog.hot.storage.checkpoint import (
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    read_offsets,
)
from stratalog.wire.batch import Record, build_batch
from stratalog.wire.errors import Invalid
from stratalog.wire.topic import TopicPartition

NAME = TopicPartition("t", 0)


class Bench:
    """Opens directories below one place, as often as the test wants."""

    def __init__(self, path: Path, files) -> None:
        self.path = path
        self.files = files
        self.failures = []
        self.threads = ThreadPoolExecutor(1)

    def open(self, *names, node_id=1) -> Directories:
        loop = asyncio.get_running_loop()
        return Directories.open(
            [str(self.path / name) for name in names],
            files=self.files,
            node_id=node_id,
            loop=loop,
            tick=Tick(loop),
            sync_threads=self.threads,
            on_failed=lambda writer, error: self.failures.append(writer.path),
            metadata_dir=str(self.path / names[0]),
        )

    def partition(self, directory, name=NAME, topic_id=b"i" * 16):
        """A stand-in for a led partition on a real log."""
        log = directory.files.open_log(name, topic_id, LogConfig(), now_ms=0)
        log.sync()
        return SimpleNamespace(
            log=log, directory=directory.writer, topic_partition=name, high_watermark=log.log_end_offset
        )


@pytest.fixture
async def bench(tmp_path, watched_files):
    bench = Bench(tmp_path, watched_files)
    yield bench
    bench.threads.shutdown()


async def test_a_directory_that_cannot_be_made_is_refused_by_name(bench):
    """With the setting that names it."""
    (bench.path / "file").write_text("")
    with pytest.raises(
        Invalid, match=r"log\.dirs \(--data\): the directory .*/file/below cannot be made: Not a directory"
    ):
        bench.open("file/below")


async def test_the_first_start_names_the_cluster_and_the_next_one_keeps_it(bench):
    """All directories carry the cluster's id and an id of their own."""
    first = bench.open("a", "b")
    ids = [directory.directory_id for directory in first.all]
    assert len(set(ids)) == 2
    assert len(first.cluster_id) == 22
    assert not first.cluster_id.startswith("-")
    first.close([], broker_epoch=5, sync_threads=bench.threads)
    second = bench.open("a", "b", "c")
    assert second.cluster_id == first.cluster_id
    assert [directory.directory_id for directory in second.all][:2] == ids
    second.close([], broker_epoch=6, sync_threads=bench.threads)


async def test_a_directory_is_used_by_one_process(bench):
    """The second one gets an error, and a failed start leaves no lock behind."""
    first = bench.open("a")
    with pytest.raises(Invalid, match="in use by another process"):
        bench.open("b", "a")
    first.close([], broker_epoch=1, sync_threads=bench.threads)
    bench.open("b", "a").close([], broker_epoch=1, sync_threads=bench.threads)


async def test_a_directory_and_its_copy_are_refused_together(bench):
    """The controller would wait for one that says where its replicas are."""
    bench.open("a").close([], broker_epoch=1, sync_threads=bench.threads)
    shutil.copytree(bench.path / "a", bench.path / "b")
    before = contents(bench.path)
    with pytest.raises(Invalid, match=rf"{bench.path}/a and {bench.path}/b have the same directory\.id"):
        bench.open("a", "b")
    assert contents(bench.path) == before


async def test_one_directory_under_two_names_is_refused(bench):
    """Its own lock would be taken for another process's."""
    bench.open("a").close([], broker_epoch=1, sync_threads=bench.threads)
    (bench.path / "link").symlink_to("a")
    with pytest.raises(Invalid, match=rf"one directory twice, as {bench.path}/a and as {bench.path}/link"):
        bench.open("a", "link")


async def test_a_directory_of_another_node_or_cluster_is_not_touched(bench):
    """The message names both sides."""
    bench.open("a").close([], broker_epoch=1, sync_threads=bench.threads)
    bench.open("b").close([], broker_epoch=1, sync_threads=bench.threads)
    before = contents(bench.path)
    with pytest.raises(Invalid, match=rf"{bench.path}/a belongs to node 1, this broker has node\.id=2"):
        bench.open("a", node_id=2)
    with pytest.raises(Invalid, match=rf"different clusters: .*{bench.path}/b to "):
        bench.open("a", "b")
    assert contents(bench.path) == before
    second = bench.open("a")
    assert second.all[0].files.clean_broker_epoch == 1
    second.close([], broker_epoch=1, sync_threads=bench.threads)


async def test_a_start_that_is_refused_before_it_writes_leaves_the_mark_of_the_last_stop(bench):
    """The next one need not verify every log; a start that may have written leaves none."""
    bench.open("a", "b").close([], broker_epoch=7, sync_threads=bench.threads)
    before = contents(bench.path)
    bench.open("a", "b").release(untouched=True)
    assert contents(bench.path) == before
    bench.open("a", "b").release()
    assert before.keys() - contents(bench.path).keys() == {"a/.kafka_cleanshutdown", "b/.kafka_cleanshutdown"}


def contents(top):
    """Every file below a directory."""
    return {str(one.relative_to(top)): one.read_bytes() for one in top.rglob("*") if one.is_file()}


async def test_new_partitions_go_where_the_fewest_are(bench):
    """Offline directories get none, and with all of them offline there is no place."""
    directories = bench.open("a", "b")
    one, two = directories.all
    assert directories.emptiest({one.path: 3, two.path: 2}) is two
    two.writer.fail(OSError(errno.EIO, "broken"))
    assert bench.failures == [two.path]
    assert directories.emptiest({one.path: 3, two.path: 2}) is one
    assert directories.online == [one]
    one.writer.fail(OSError(errno.EIO, "broken"))
    with pytest.raises(OSError, match="every log directory is offline"):
        directories.emptiest({})
    directories.close([], broker_epoch=1, sync_threads=bench.threads)


async def test_the_directory_of_the_metadata_log_alone_gets_no_partitions(bench):
    """A new partition goes to the other directory, although that one holds more partitions."""
    directories = bench.open("a", "b")
    one, two = directories.all
    directories.metadata_only = two.path
    assert directories.emptiest({one.path: 3, two.path: 0}) is one
    directories.close([], broker_epoch=1, sync_threads=bench.threads)


async def test_a_partition_is_found_where_it_lies(bench):
    """So that a restart opens it there and nowhere else."""
    directories = bench.open("a", "b")
    partition = bench.partition(directories.all[1])
    directories.close([partition], broker_epoch=1, sync_threads=bench.threads)
    again = bench.open("a", "b")
    assert again.holding(NAME) == [again.all[1]]
    assert again.holding(TopicPartition("t", 1)) == []
    again.close([], broker_epoch=1, sync_threads=bench.threads)


async def test_checkpoints_hold_the_known_state_of_each_partition(bench):
    """Recovery point, log start and high watermark, in Kafka's files."""
    directories = bench.open("a")
    partition = bench.partition(directories.all[0])
    partition.high_watermark = 7
    assert directories.checkpoint([partition])
    path = directories.all[0].path
    found = [read_offsets(bench.files, path, name) for name in (RECOVERY_POINTS, LOG_START_OFFSETS, HIGH_WATERMARKS)]
    assert found == [{NAME: 0}, {NAME: 0}, {NAME: 7}]
    directories.close([], broker_epoch=1, sync_threads=bench.threads)


@pytest.mark.parametrize("refused", [RECOVERY_POINTS, "log-start-offset-checkpoint", HIGH_WATERMARKS])
async def test_the_note_of_a_cut_stays_until_the_mark_behind_it_is_stored(bench, refused):
    """A checkpoint that finds no room for one of its files leaves none of the old marks without the note."""
    directories = bench.open("a")
    partition = bench.partition(directories.all[0])
    log = partition.log
    for number in range(4):
        log.append_as_leader(bytearray(build_batch([Record(0, number, None, b"v")])), leader_epoch=0, now_ms=0)
    log.sync()
    partition.high_watermark = 4
    assert directories.checkpoint([partition])
    log.truncate_to(1)
    partition.high_watermark = 1
    bench.files.fail("write", f"{refused}.tmp", errno.ENOSPC)
    assert directories.checkpoint([partition]) == (refused == "log-start-offset-checkpoint")
    stored = read_offsets(bench.files, directories.all[0].path, HIGH_WATERMARKS)[NAME]
    assert (log.cycles.noted_cut is None) <= (stored == 1)
    bench.files.faults.clear()
    assert directories.checkpoint([partition])
    assert log.cycles.noted_cut is None
    directories.close([], broker_epoch=1, sync_threads=bench.threads)


async def test_a_checkpoint_that_fails_takes_its_directory_offline(bench):
    """But a full disk is only told, because appends and reads may go on."""
    directories = bench.open("a")
    partition = bench.partition(directories.all[0])
    bench.files.fail("write", RECOVERY_POINTS, errno.ENOSPC)
    assert not directories.checkpoint([partition])
    assert bench.failures == []
    bench.files.faults.clear()
    bench.files.fail("write", RECOVERY_POINTS, errno.EIO)
    assert not directories.checkpoint([partition])
    assert bench.failures == [directories.all[0].path]
    bench.files.faults.clear()
    assert not directories.checkpoint([partition])
    directories.close([], broker_epoch=1, sync_threads=bench.threads)


async def test_the_mark_of_a_clean_stop_is_left_only_where_nothing_failed(bench):
    """The next start verifies the other directory."""
    directories = bench.open("a", "b")
    directories.all[1].writer.fail(OSError(errno.EIO, "broken"))
    directories.close([], broker_epoch=9, sync_threads=bench.threads)
    assert (bench.path / "a" / ".kafka_cleanshutdown").exists()
    assert not (bench.path / "b" / ".kafka_cleanshutdown").exists()
    again = bench.open("a", "b")
    assert [directory.files.clean for directory in again.all] == [True, False]
    again.close([], broker_epoch=1, sync_threads=bench.threads)


async def test_a_log_that_is_about_to_arrive_has_its_high_watermark_written_there(bench):
    """A kill right after the move finds the mark in the directory of the log."""
    directories = bench.open("a", "b")
    first, second = directories.all
    one = bench.partition(first)
    second.arriving[NAME] = one
    assert directories.checkpoint([one])
    for directory in (first, second):
        assert read_offsets(bench.files, directory.path, HIGH_WATERMARKS) == {NAME: one.high_watermark}
    assert NAME not in read_offsets(bench.files, second.path, RECOVERY_POINTS)
    directories.release()


async def test_rows_of_a_log_that_has_left_go_with_an_orderly_stop(bench):
    """It comes before the next checkpoint: those of the cleaner and of archives were kept."""
    directories = bench.open("a")
    (directory,) = directories.all
    note_cleaner_offset(directory.files, NAME, 5)()
    directory.files.forget(NAME)
    directories.close([], broker_epoch=1, sync_threads=bench.threads)
    assert read_offsets(bench.files, directory.path, CLEANER_OFFSETS) == {}


async def test_logs_that_lie_on_other_brokers_since_the_last_run_are_kept_aside(bench, caplog):
    """A record took them away; others stay, and one with an unreadable id does. Metadata may have been restored: no log is deleted."""
    directories = bench.open("a", "b")
    for directory in directories.all:
        bench.partition(directory)
    directories.release()
    (bench.path / "b" / "u-7").mkdir()
    directories = bench.open("a", "b")
    asked = []

    def is_held_elsewhere(name, topic_id):
        asked.append((name, topic_id))
        return len(asked) == 1

    directories.set_moved_aside(is_held_elsewhere)
    assert {name for name, _ in asked} == {NAME}
    first, second = directories.all
    assert (NAME in first.files.partitions, NAME in second.files.partitions) == (False, True)
    (kept,) = (bench.path / "a").glob("t-0.*-stray")
    assert (first.files.doomed, list(kept.glob("*.log"))) == ([], [kept / f"{0:020d}.log"])
    assert f"1 partitions in {first.path} lie on other brokers since this one was away" in caplog.text
    directories.release()


async def test_a_move_that_was_interrupted_is_known_to_the_start(bench):
    """Its copy goes, and where it was to go is kept until the move has begun again."""
    directories = bench.open("a", "b")
    bench.partition(directories.all[0])
    directories.release()
    Path(bench.path / "b" / f"t-0.{'7' * 32}-future").mkdir()
    directories = bench.open("a", "b")
    assert [(one.topic_partition, one.target) for one in directories.settled.unfinished_moves] == [
        (NAME, str(bench.path / "b"))
    ]
    assert directories.all[1].files.doomed == [f"{bench.path}/b/t-0.{'7' * 32}-delete"]
    directories.release()
