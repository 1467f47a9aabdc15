"""Tests of hot/log/sync.py."""

import errno

import pytest

from stratalog.hot.config import LogConfig
from stratalog.hot.log.sync import InPlace, Replacement, StoredFile, SyncTicket
from stratalog.hot.state.leader_epochs import EpochEntry


class Recorder:
    """Notes what was synced, in order; fails where told."""

    def __init__(self, *, fail: bool = False) -> None:
        self.calls: list[str] = []
        self.fail = fail
        self.descriptors = 1

    def fdatasync(self) -> None:
        if self.fail:
            raise OSError("lost")
        self.calls.append("file")

    def sync_directory(self, path: str) -> None:
        if self.descriptors == 0:
            self.descriptors = 1
            raise OSError(errno.EMFILE, "too many open files")
        self.calls.append(path)

    def rename(self, source: str, target: str) -> None:
        self.calls.append(f"{source} -> {target}")


def test_data_is_synced_before_names():
    """A name that survives without its bytes would be an empty segment."""
    recorder = Recorder()
    ticket = SyncTicket(recorder, [recorder, recorder], [Replacement(recorder, "x.tmp", "x", 1, InPlace())], ["/d"], 7)
    assert not ticket.done
    ticket.run()
    assert recorder.calls == ["file", "file", "file", "x.tmp -> x", "/d"]
    assert ticket.done


def test_a_cycle_without_new_names_leaves_the_directory_alone():
    """Most cycles are one fdatasync."""
    recorder = Recorder()
    SyncTicket(recorder, [recorder], [], [], 7).run()
    assert recorder.calls == ["file"]


def test_a_failed_cycle_is_not_done():
    """No append that it covers may be acknowledged."""
    recorder = Recorder(fail=True)
    ticket = SyncTicket(recorder, [recorder], [], ["/d"], 7)
    with pytest.raises(OSError, match="lost"):
        ticket.run()
    assert not ticket.done
    assert recorder.calls == []


def test_a_cycle_that_found_no_descriptor_goes_on_with_the_directories():
    """The files are durable and have their names by then; renaming one again would fail."""
    recorder = Recorder()
    recorder.descriptors = 0
    ticket = SyncTicket(recorder, [recorder], [Replacement(recorder, "x.tmp", "x", 1, InPlace())], ["/d", "/"], 7)
    with pytest.raises(OSError, match="too many"):
        ticket.run()
    assert not ticket.done
    ticket.run()
    assert ticket.done
    assert recorder.calls == ["file", "file", "x.tmp -> x", "/d", "/"]


def test_a_stored_file_is_opened_only_while_it_is_synced(files, tmp_path):
    """Its descriptor is given back at once; one that was removed has nothing to sync."""
    path = tmp_path / "f"
    path.write_bytes(b"x")
    opened = []

    class Watched(type(files)):
        def open_read(self, name):
            opened.append(super().open_read(name))
            return opened[-1]

    StoredFile(Watched(), str(path)).fdatasync()
    with pytest.raises(ValueError, match="closed"):
        opened[0].fileno()
    path.unlink()
    StoredFile(Watched(), str(path)).fdatasync()
    assert len(opened) == 1


def test_a_ticket_of_one_real_file_may_be_synced_by_others(files, tmp_path):
    """Anything more, or a file that is not the system's own, is for `run`."""
    real = files.open_append(str(tmp_path / "f"))
    ticket = SyncTicket(files, [real], [], [], 7)
    assert ticket.only_file is real
    assert not ticket.done
    ticket.synced()
    assert ticket.done
    assert ticket.only_file is None
    for tickets in (
        SyncTicket(files, [], [], [], 7),
        SyncTicket(files, [real, real], [], [], 7),
        SyncTicket(files, [real], [], [str(tmp_path)], 7),
        SyncTicket(files, [real], [Replacement(real, "x.tmp", "x", 1, InPlace())], [], 7),
        SyncTicket(files, [Recorder()], [], [], 7),
    ):
        assert tickets.only_file is None


def test_epochs_of_a_cycle_that_began_before_do_not_replace_newer_ones(bench):
    """A copy that begins behind its archive syncs at once, while a cycle of before still runs in its thread."""
    config = LogConfig(remote_storage_enable=True)
    history = EpochEntry(1, 0), EpochEntry(3, 5), EpochEntry(4, 60)
    log = bench.open(config)
    for epoch in (1, 2):
        bench.append(log, 5, epoch=epoch)
        log.roll()
        if epoch == 1:
            log.sync()
    ticket = log.begin_sync()
    log.truncate_fully_and_start_at(80, history, None, log_start_offset=0)
    log.sync()
    ticket.run()
    log.finish_sync(ticket)
    log.abandon()
    assert not [name for name in bench.names() if name.endswith(".tmp")]
    assert bench.open(config, clean=False, others_have_it=True).leader_epochs.entries == history
