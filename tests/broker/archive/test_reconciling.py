"""Rule 8 at a start: the archive is asked before the first write, and it wins."""

import errno

import pytest

from stratalog.broker.archive.reconciling import TimelinePorts
from stratalog.hot.config import LogConfig
from stratalog.hot.storage.checkpoint import RemoteLogState
from stratalog.hot.storage.filesystem import RealFilesystem
from stratalog.tier.bucket.trash import DELETED_RECORDS
from stratalog.tier.manifests.manifest import set_log_start
from stratalog.tier.manifests.manifest_store import change_manifest, read_manifest
from stratalog.tier.manifests.second_timeline import MadeClaims
from stratalog.tier.messages import commands
from stratalog.tier.objects.segment_blobs import AbortedTransaction
from tests.broker.archive.reconciling_rig import PARTITION, Rig


@pytest.fixture
def rig(tmp_path):
    return Rig(tmp_path)


@pytest.mark.parametrize(
    ("checkpoint", "lost", "needed"),
    [
        (None, False, True),
        (RemoteLogState(0, 10, 0), False, False),
        (RemoteLogState(0, 20, 0), False, False),
        (RemoteLogState(0, 21, 0), False, True),
        (RemoteLogState(0, 0, 0), True, True),
    ],
    ids=["no checkpoint", "below the end", "at the end", "above the end", "lost directory"],
)
def test_the_archive_is_asked_only_where_something_may_be_missing(rig, checkpoint, lost, needed):
    """Every other leader starts without the bucket."""
    rig.write(4)
    assert rig.begin(checkpoint, lost=lost).needed() is needed


@pytest.mark.parametrize(("flush_messages", "needed"), [(1, False), (2, True)])
def test_an_unclean_stop_without_sync_on_ack_needs_the_archive(rig, flush_messages, needed):
    """With sync on ack nothing that was archived can be missing."""
    rig.write(4)
    rig.log = rig.open(LogConfig(remote_storage_enable=True, flush_messages=flush_messages), clean=False)
    assert rig.begin(RemoteLogState(0, 10, 0)).needed() is needed


def test_a_cluster_that_owns_no_archive_asks_only_for_a_log_that_is_lost(rig):
    """It is refused for ever, and has archived nothing that its log could lack."""
    rig.write(4)
    assert not rig.begin(RemoteLogState(0, 21, 0), incarnation=-1).needed()
    assert rig.begin(RemoteLogState(0, 0, 0), lost=True, incarnation=-1).needed()


def test_a_partition_serves_no_read_until_the_archive_has_answered(rig):
    """It stays held back over three failed claims, and the claim comes before any other command."""
    rig.write(4)
    rig.archive(2)
    rig.begin()
    rig.start()
    for _ in range(3):
        assert rig.partition.held_back
        assert isinstance(rig.queue[0][0], commands.Claim)
        rig.run(commands.FailedReport("down", retriable=True))
        rig.timers.pop()()
    rig.run()
    assert rig.partition.held_back is None
    assert rig.finished == 1
    assert read_manifest(rig.store, PARTITION).manifest.claimant.leader_epoch == 2


def test_a_log_that_agrees_is_kept(rig):
    """The log stays untouched."""
    rig.write(4)
    rig.archive(2)
    rig.begin()
    rig.start()
    rig.run()
    assert (rig.log.log_start_offset, rig.log.log_end_offset, rig.restarted) == (0, 20, 0)


def test_the_first_archive_of_a_log_begins_at_its_first_segment(rig):
    """The archive begins at offset 0, although the log start lies in the middle of the segment."""
    rig.write(4)
    rig.log.advance_log_start(7)
    rig.begin()
    rig.start()
    rig.run()
    assert read_manifest(rig.store, PARTITION).manifest.remote_end == 0
    assert rig.log.log_start_offset == 7


@pytest.mark.parametrize("local", [4, 1], ids=["the log is kept", "the archive wins"])
def test_a_moving_log_start_is_reported(rig, local, caplog):
    """With topic, partition, both offsets and why: a copy was put back."""
    rig.write(local)
    rig.archive(2)
    change_manifest(
        rig.store, PARTITION, lambda held: set_log_start(held, held.claimant, 7, now_ms=0, reason=DELETED_RECORDS)
    )
    rig.begin()
    rig.start()
    rig.run()
    if rig.queue:
        rig.run()
    assert rig.log.log_start_offset == 7
    assert "the log start moves from offset 0 to 7, because its archive begins there" in caplog.text
    assert caplog.text.count("t-0: the log start moves") == 1


@pytest.mark.parametrize(("local", "epoch"), [(0, 1), (1, 1), (4, 3)], ids=["empty", "shorter", "other epochs"])
def test_the_archive_wins(rig, local, epoch):
    """The local data is kept aside and the log goes on at the remote end, with the archive's epochs."""
    if local:
        rig.write(local, epoch)
    rig.archive(3)
    rig.begin(lost=not local)
    rig.start()
    rig.run()
    rig.run()  # what producers the newest object knows
    assert (rig.log.local_log_start_offset, rig.log.log_end_offset) == (15, 15)
    assert rig.log.log_start_offset == 0
    assert rig.log.leader_epochs.entries[0].start_offset == 0
    assert rig.restarted == 1
    assert rig.partition.held_back is None
    assert rig.finished == 1


def test_a_log_that_was_served_all_the_time_is_held_back_only_if_the_archive_wins(rig):
    """Tiering was switched on later: produce goes on while the bucket is asked."""
    rig.write(4)
    rig.begin(hold=False)
    rig.start()
    assert rig.partition.held_back is None
    rig.run()
    assert rig.finished == 1


def test_answers_that_come_after_the_end_change_nothing(rig):
    """The topic was deleted meanwhile."""
    rig.archive(3)
    rig.begin()
    rig.start()
    rig.reconciling.close()
    rig.run()
    assert (rig.log.log_end_offset, rig.finished, rig.views) == (0, 0, [])


def test_a_log_that_lacks_what_a_lost_archive_holds_waits(rig, caplog):
    """No manifest is made in the place of the one that the checkpoint names; the reason is logged once."""
    rig.write(4)
    rig.begin(RemoteLogState(0, 30, 1))
    rig.start()
    for _ in range(3):
        rig.run()
        rig.timers.pop()()
    assert rig.partition.held_back
    assert "is missing" in rig.reconciling.waits_for
    assert caplog.text.count("waits for its archive") == 1
    assert list(rig.store.list("")) == []
    rig.archive(6)
    rig.run()
    rig.run()
    assert rig.partition.held_back is None
    assert (rig.reconciling.waits_for, rig.log.log_end_offset) == ("", 30)


def test_transactions_that_were_archived_without_their_markers_end_as_the_archive_says(rig):
    """Those above the end of the archive are left to the coordinator. No request comes before the markers."""
    rig.log.assign_leader_epoch(1)
    for producer_id in (7, 8, 9):
        rig.begin_transaction(producer_id)
    rig.write(1)
    rig.archive(2, aborted=[AbortedTransaction(8, 5, 40, 41)])
    rig.begin()
    rig.start()
    rig.run()
    assert rig.partition.held_back
    rig.run(commands.FailedReport("the bucket is away", retriable=True))
    assert "aborted transactions" in rig.reconciling.waits_for
    assert rig.finished == 0
    rig.timers.pop()()
    rig.run()
    rig.run()
    assert (rig.finished, rig.queue, rig.partition.held_back) == (1, [], None)
    assert [entry.producer_id for _, entry in rig.log.producer_state.open_transactions()] == [9]
    aborted = rig.log.aborted_transactions(0, rig.log.log_end_offset)
    assert [(one.producer_id, one.first_offset) for one in aborted] == [(8, 5)]


def test_a_batch_that_decides_and_cannot_be_read_is_waited_for(rig, caplog):
    """Damage where log and archive must agree: the partition waits and says where, the comparison does not die."""
    rig.write(4)
    rig.archive(3)
    rig.begin(timeline=TimelinePorts(MadeClaims(), raise_epoch=print, compared=int, restarts=int))
    path = next(rig.tmp_path.rglob("*.log"))
    data = path.read_bytes()
    third = 2 * len(data) // 4
    path.write_bytes(data[: third + 8] + b"\xff\xff\xff\xff" + data[third + 12 :])
    rig.start()
    rig.run()
    rig.run()
    assert rig.finished == 0
    assert rig.partition.held_back is not None
    assert "offset 14, where the two must agree, cannot be read" in rig.reconciling.waits_for
    path.write_bytes(data)
    rig.timers.pop()()
    rig.run()
    rig.run()
    assert rig.finished == 1


def test_a_log_goes_on_from_its_archive_once_the_disk_has_a_note_of_that(rig):
    """A crash during the restart would leave nothing from which the next start knew what is lost."""
    rig.write(1)
    rig.archive(3)
    noted = [False]
    rig.begin(timeline=TimelinePorts(MadeClaims(), raise_epoch=print, compared=int, restarts=lambda: noted[0]))
    rig.start()
    rig.run()
    assert (rig.log.log_end_offset, rig.restarted) == (5, 0)
    assert "takes no note" in rig.reconciling.waits_for
    noted[0] = True
    rig.timers.pop()()
    rig.run()
    rig.run()
    assert (rig.log.log_end_offset, rig.restarted) == (15, 1)


def test_a_restart_state_that_is_damaged_is_waited_for(rig):
    """The partition says why it is held back, nothing of the log has gone, and it goes on once the object is mended."""
    rig.begin_behind_its_archive()
    rig.run(commands.RestartStateRead("key", (), b"no snapshot"))
    assert (rig.log.log_end_offset, rig.restarted, rig.finished) == (5, 0, 0)
    assert rig.partition.held_back
    assert ".seg is damaged: producer snapshot version" in rig.reconciling.waits_for
    rig.timers.pop()()
    rig.run()
    assert rig.reconciling.waits_for == ""
    rig.run()
    assert (rig.log.log_end_offset, rig.restarted, rig.finished) == (15, 1, 1)
    assert rig.partition.held_back is None


@pytest.mark.parametrize(
    ("refused", "number", "waits"),
    [("rename", errno.ENOSPC, True), ("sync_directory", errno.EMFILE, True), ("rename", errno.EIO, False)],
)
def test_a_log_that_finds_no_room_to_go_on_from_its_archive_does_when_there_is(
    rig, monkeypatch, caplog, refused, number, waits
):
    """Its directory stays in use: a lack of room passes. A disk that fails does not go on."""
    rig.begin_behind_its_archive()
    with monkeypatch.context() as full:
        full.setattr(RealFilesystem, refused, lambda *_: (_ for _ in ()).throw(OSError(number, "refused")))
        rig.run()
        assert rig.partition.held_back
        assert [one.errno for one in rig.reported] == [number]
        assert bool(rig.timers) is bool(rig.reconciling.waits_for) is waits
        if not waits:
            return
        rig.timers.pop()()
        assert caplog.text.count("free some of it") == 1
    rig.timers.pop()()
    assert (rig.finished, rig.restarted, rig.partition.held_back) == (1, 1, None)
    assert (rig.log.first_base_offset, rig.log.log_end_offset) == (15, 15)
    rig.write(1, epoch=3)
    assert rig.log.log_end_offset == 20


def test_a_log_that_is_led_no_longer_does_not_go_on_from_its_archive(rig, monkeypatch):
    """Its next attempt came too late."""
    rig.begin_behind_its_archive()
    with monkeypatch.context() as full:
        full.setattr(RealFilesystem, "rename", lambda *_: (_ for _ in ()).throw(OSError(errno.ENOSPC, "full")))
        rig.run()
    rig.reconciling.close()
    rig.timers.pop()()
    assert (rig.finished, rig.restarted) == (0, 0)


@pytest.mark.parametrize("batches", [0, 4])
def test_a_log_goes_on_behind_records_that_are_deleted_and_were_not_archived(rig, batches):
    """DeleteRecords had moved the log start into the active segment when the disk was lost, or the end of the log.

    Acknowledged records below the log start would never be read.
    """
    rig.archive(3)
    owner = read_manifest(rig.store, PARTITION).manifest.claimant
    change_manifest(
        rig.store,
        PARTITION,
        lambda manifest: set_log_start(manifest, owner, 22, now_ms=1, resume_at=15, reason=DELETED_RECORDS),
    )
    if batches:
        rig.write(batches)
    rig.begin(lost=True)
    rig.start()
    while rig.queue:
        rig.run()
    assert rig.finished == 1
    assert (rig.log.log_start_offset, rig.log.log_end_offset) == (22, 22)
    rig.write(1, epoch=3)
    read = rig.log.read(22, max_bytes=1000, max_offset=27)
    assert (read.size_bytes > 0, read.next_offset) == (True, 27)
