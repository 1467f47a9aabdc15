"""Tests of hot/log/close.py."""

import os
from pathlib import Path

import pytest

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
