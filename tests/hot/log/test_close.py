"""Tests of hot/log/close.py."""

import os
from pathlib import Path

import pytest

from stratalog.hot.log.log import Log
from stratalog.hot.storage.removed_log import RemovedLog
from stratalog.wire.errors import KafkaError


def test_a_closed_log_is_opened_again_as_it_was(bench):
    """Offsets, epochs, producers; the files of a clean stop."""
    log = bench.open()
    bench.append(log, 3, producer_id=7, producer_epoch=0, base_sequence=0)
    log.close()
    assert sorted(entry.name for entry in Path(bench.directory).iterdir()) == [
        f"{0:020d}.index",
        f"{0:020d}.log",
        f"{0:020d}.timeindex",
        f"{3:020d}.snapshot",
        "leader-epoch-checkpoint",
        "partition.metadata",
    ]
    log = bench.open()
    assert (log.log_end_offset, log.flushed_offset, log.leader_epochs.latest_epoch) == (3, 3, 1)
    assert log.producer_state.entries[7].last_sequence == 2


def test_closing_an_untouched_log_writes_nothing(bench, monkeypatch):
    """Thousands of idle partitions stop at once."""
    log = bench.open()
    bench.append(log)
    log.close()
    log = bench.open()
    monkeypatch.setattr(os, "writev", None)
    monkeypatch.setattr(os, "fdatasync", None)
    log.close()


def test_a_closed_log_takes_no_appends(bench):
    """A holder that uses it afterwards gets an error."""
    log = bench.open()
    log.close()
    with pytest.raises(KafkaError, match="closed"):
        bench.append(log)


def test_a_closed_log_leaves_no_index_without_a_log(bench, log):
    """All files of a segment that has just left end with .deleted: Kafka's tools take a lone index for one of the log."""
    log.delete_local_before(10)
    log.close()
    assert {f"{0:020d}{suffix}.deleted" for suffix in (".log", ".index", ".timeindex")} <= set(bench.names())
    assert not [name for name in bench.names() if name.startswith(f"{0:020d}.") and not name.endswith(".deleted")]


OPERATIONS = {
    "segments leave": lambda log: log.delete_local_before(10),
    "a cut": lambda log: log.truncate_to(12),
    "a cut after a failed write": Log.discard_unwritten,
    "a new beginning": lambda log: log.truncate_fully_and_start_at(40, (), None),
    "a new beginning beside what is kept": lambda log: log.quarantine_and_restart_at(
        40, (), None, now_ms=0, reason="it is damaged"
    ),
    "a write": lambda log: log.write_queued(),
    "a roll": Log.roll,
    "a sync": Log.sync,
    "an orderly end": Log.close,
    "a noted cut": lambda log: log.cycles.void_recovery_point(5),
    "names that become durable": lambda log: (log.cycles.note_names(), log.cycles.sync_names()),
    "a read": lambda log: log.read(3, max_bytes=1, max_offset=30),
    "a look for a time": lambda log: log.timestamp_search(1, 0, max_offset=30),
}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_removed_log_touches_no_file_of_the_log_that_was_made_again_in_its_place(bench, log, operation):
    """Work that has paused goes on with the old log: with its paths it would remove or read what is the other log's."""
    log.abandon(is_removed=True)
    os.rename(bench.directory, f"{bench.directory}.removed")  # noqa: PTH104 - paths are texts here
    other = bench.open()
    bench.fill(other, 3)
    other.sync()
    before = [(one, bench.files.read_bytes(f"{bench.directory}/{one}")) for one in bench.names()]
    with pytest.raises(RemovedLog, match=r"flights-0 in .* was removed"):
        OPERATIONS[operation](log)
    assert [(one, bench.files.read_bytes(f"{bench.directory}/{one}")) for one in bench.names()] == before


def test_a_removed_log_has_no_swap_that_could_go_on(bench, log):
    """The cleaner looks whether its swap is pending still before it renames anything."""
    swap = object()
    log.compaction._parts.pending.swap = swap
    log.abandon(is_removed=True)
    assert not log.compaction.is_pending(swap)
