"""The copy of a log that is in use: after the last pass it is the log, whatever was done meanwhile."""

import errno
import os
import random
import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace

from stratalog.hot.config import LogConfig
from stratalog.hot.log.log import Log
from stratalog.hot.log_copy import LogCopy, SourceFailed
from stratalog.hot.storage.filesystem import RealFilesystem

CONFIG = LogConfig(index_interval_bytes=100, segment_bytes=3_000)


def new_copy(bench, log, files=None):
    """A copy beside the log, with small pieces."""
    copy = LogCopy(files or bench.files, log.directory, bench.directory + ".copy", bench.topic_id)
    copy.allowed_bytes = 500
    copy.begin()
    return copy


def complete(log, copy):
    """The last pass, for which the log stands still."""
    log.write_queued()
    log.moving.begin()
    view = log.moving.view()
    sizes = list(copy.copying(view))
    copy.finish(log.leader_epochs.to_bytes())
    assert copy.is_near(view, 0)
    assert copy.end_offset == log.log_end_offset
    return sizes


def opened(bench, directory, end):
    """The log in a directory, as a start after a kill finds it."""
    return Log.open(
        directory, bench.partition, bench.topic_id, CONFIG, files=bench.files, now_ms=bench.now_ms, clean=False,
        recovery_point=end, may_have_gaps=True,
    )  # fmt: skip


def everything(log):
    """The bytes of all batches."""
    start = log.local_log_start_offset
    if start == log.log_end_offset:
        return b""
    read = log.read(start, max_bytes=1 << 30, max_offset=log.log_end_offset)
    return b"".join(part.file.pread(part.length, part.position) for part in read.parts)


def same(bench, log, copy):
    """Whether the next start finds in the copy all that it finds in the log."""
    log.sync()
    end = log.log_end_offset
    shutil.copytree(log.directory, f"{log.directory}.same")
    found, wanted = opened(bench, copy.target, end), opened(bench, f"{log.directory}.same", end)
    assert [one.base_offset for one in found.segments()] == [one.base_offset for one in log.segments()]
    assert everything(found) == everything(log)
    assert (found.log_start_offset, found.log_end_offset) == (wanted.log_start_offset, end)
    assert found.leader_epochs.entries == log.leader_epochs.entries
    assert found.producer_state.to_bytes() == wanted.producer_state.to_bytes()
    whole = log.local_log_start_offset, end
    assert found.aborted_transactions(*whole) == wanted.aborted_transactions(*whole)
    assert found.recovery.frozen_indexes_rebuilt == wanted.recovery.frozen_indexes_rebuilt == []


class Use:
    """A log in use: each `change` is one of the things that happen to logs."""

    def __init__(self, bench, log, seed):
        self.bench = bench
        self.log = log
        self.dice = random.Random(seed)
        self.epoch = 1

    def change(self):
        kind, log, dice = self.dice.random(), self.log, self.dice
        if kind < 0.5:
            self.bench.write_mixed(log, dice.randrange(1, 6), seed=dice.randrange(1 << 30), epoch=self.epoch)
        elif kind < 0.7:
            log.roll()
        elif kind < 0.8:
            log.sync()
            log.delete_local_before(dice.randrange(log.log_end_offset + 1))
        elif kind < 0.9:
            log.truncate_to(dice.randrange(log.log_start_offset, log.log_end_offset + 1))
            self.epoch += 1
        elif kind < 0.92:
            log.truncate_fully_and_start_at(log.log_end_offset + 3, (), None)
            self.epoch += 1

    def during(self, pieces):
        """Change the log between pieces of a pass; a file that has left the log ends it, and the next pass follows."""
        try:
            for _ in pieces:
                if self.dice.random() < 0.3:
                    self.change()
        except SourceFailed as failure:
            assert isinstance(failure.error, FileNotFoundError)


@pytest.mark.parametrize("seed", range(12))
def test_a_copy_follows_a_log_that_is_in_use(bench, seed):
    """Appends, rolls, deletions, cuts and a log that is begun anew, between any two pieces."""
    log = bench.open(CONFIG)
    bench.write_mixed(log, 20, seed=seed)
    log.sync()
    copy, use = new_copy(bench, log), Use(bench, log, seed)
    for _ in range(4):
        use.during(copy.copying(log.moving.view()))
    complete(log, copy)
    same(bench, log, copy)


def test_a_pass_copies_only_news(bench):
    """Frozen segments are copied once, of the active one what was added."""
    log = bench.open(CONFIG)
    bench.fill(log, 3)
    copy = new_copy(bench, log)
    assert copy.missing_bytes(log.moving.view()) == log.size_bytes
    assert sum(complete(log, copy)) >= log.size_bytes
    assert sum(complete(log, copy)) == 0
    before = log.size_bytes
    bench.append(log)
    log.write_queued()
    assert copy.missing_bytes(log.moving.view()) == log.size_bytes - before
    assert sum(complete(log, copy)) == log.size_bytes - before
    same(bench, log, copy)


def test_pieces_have_at_most_what_is_allowed(bench):
    """So a throttle has its say between two of them."""
    log = bench.open(CONFIG)
    bench.fill(log, 2)
    copy = new_copy(bench, log)
    sizes = complete(log, copy)
    assert max(sizes) <= 500
    assert len(sizes) > log.size_bytes / 500


def test_a_segment_that_was_just_frozen_is_not_near(bench):
    """Its indexes are still to be copied."""
    log = bench.open(CONFIG)
    bench.append(log, 2)
    copy = new_copy(bench, log)
    complete(log, copy)
    log.roll()
    assert copy.missing_bytes(log.moving.view()) == 0
    assert not copy.is_near(log.moving.view(), 1 << 20)


class OtherBytes(RealFilesystem):
    """A disk that gives back other bytes than were written to it."""

    def open_append(self, path):
        file = super().open_append(path)
        if not path.endswith(".log"):
            return file
        plain = type(file)

        class Spoiled(plain):
            def pread(self, length, position):
                return bytes(len(super().pread(length, position)))

        spoiled = Spoiled(os.dup(file.fileno()), path)
        file.close()
        return spoiled


def test_a_copy_is_read_back_before_it_counts(bench):
    """A disk that does not keep what it was given is no place for a log."""
    log = bench.open(CONFIG)
    bench.fill(log, 1)
    copy = new_copy(bench, log, OtherBytes())
    with pytest.raises(OSError, match="not what was written") as failed:
        complete(log, copy)
    assert failed.value.errno == errno.EIO


def test_a_log_that_cannot_be_read_is_no_copy(bench):
    """The disk of the log has failed, not that of the copy."""
    log = bench.open(CONFIG)
    bench.fill(log, 1)
    copy = new_copy(bench, log)
    Path(log.directory, f"{0:020d}.log").unlink()
    with pytest.raises(SourceFailed):
        list(copy.copying(log.moving.view()))


def test_an_empty_log_is_copied_with_its_place(bench):
    """Its one empty segment says at which offset it goes on."""
    log = bench.open(CONFIG)
    bench.append(log, 3)
    log.sync()
    log.truncate_fully_and_start_at(40, (), None)
    copy = new_copy(bench, log)
    complete(log, copy)
    found = opened(bench, copy.target, 40)
    assert (found.log_start_offset, found.log_end_offset) == (40, 40)


def test_a_copy_follows_the_cleaner(bench, compactor):
    """Cleaned segments are copied anew, and those that they replace leave the copy; half a swap is waited for."""
    log = bench.open(CONFIG)
    log.update_config(replace(CONFIG, cleanup_policy=frozenset({"compact"})))
    bench.fill(log, 3)
    copy = new_copy(bench, log)
    complete(log, copy)
    seen = []
    compactor.clean(log, now_ms=bench.now_ms, between=lambda: seen.append(log.moving.why_not()))
    assert copy.missing_bytes(log.moving.view()) > 0
    complete(log, copy)
    same(bench, log, copy)
    assert seen[0] is None


def test_a_log_does_not_move_in_the_middle_of_a_cleaners_swap(bench, compactor):
    """The new segment has the names of a swap until the old ones are gone."""
    log = bench.open(replace(CONFIG, cleanup_policy=frozenset({"compact"})))
    bench.fill(log, 3)
    cleaning = compactor.cleaning(log, now_ms=bench.now_ms)
    cleaning.build_map()
    swap = log.compaction.begin_replace(cleaning.clean_group(0))
    list(swap.stage())
    assert log.compaction.put_in(swap)
    assert "compacted" in log.moving.why_not()
    list(swap.retire())
    list(log.compaction.retire(swap))
    assert log.moving.why_not() is None


def test_half_a_swap_is_not_copied(bench, compactor, watched_files):
    """It waits for room on the disk that the log is to leave: the name of the new segment is an old one's still."""
    log = bench.open(replace(CONFIG, cleanup_policy=frozenset({"compact"})))
    bench.fill(log, 3)
    copy = new_copy(bench, log)
    list(copy.copying(log.moving.view()))
    cleaning = compactor.cleaning(log, now_ms=bench.now_ms)
    cleaning.build_map()
    swap = log.compaction.begin_replace(cleaning.clean_group(0))
    list(swap.stage())
    assert log.compaction.put_in(swap)
    view = log.moving.view()
    with pytest.raises(SourceFailed) as failed:
        list(copy.copying(view))
    assert isinstance(failed.value.error, FileNotFoundError)
    list(log.compaction.retire(swap))
    assert not log.moving.is_at(view)
    complete(log, copy)
    same(bench, log, copy)
