"""One leadership's work on its archive, step by step."""

import pytest
from msgspec.structs import replace

from stratalog.hot.log.log import Log
from stratalog.hot.storage.checkpoint import RemoteLogState
from stratalog.tier.manifests.manifest import Claimant, claim, successor
from stratalog.tier.manifests.manifest_store import change_manifest
from stratalog.tier.manifests.second_timeline import MadeClaims
from stratalog.tier.messages import commands
from stratalog.tier.stores.memory_store import MemoryStore
from stratalog.tier.work.work import Worker
from tests.broker.archive.archive_rig import CONFIG, PARTITION, Rig


@pytest.fixture
def rig(tmp_path):
    return Rig(tmp_path)


def test_the_bucket_is_asked_only_once_there_is_something_to_archive(rig):
    """An idle partition costs no request; nor does one whose first segment is still open."""
    assert rig.settle() == []
    rig.write(1)
    assert rig.settle() == []


def test_frozen_segments_are_claimed_uploaded_committed_read_back_and_evicted(rig):
    """In this order; the active one stays."""
    rig.write(9)
    asked = rig.settle()
    assert asked[:2] == ["Claim", "Upload"]
    assert asked.index("Commit") < asked.index("ReadBack")
    active = rig.log.active_base_offset
    assert rig.manifest.remote_end == active == rig.log.first_base_offset
    assert rig.archive.lag == (active, active)
    assert rig.settle() == []


@pytest.mark.parametrize("kind", ["Claim", "Upload", "Commit"])
def test_each_failure_that_keeps_records_from_the_bucket_counts_as_an_error(rig, kind):
    """A bucket that cannot be claimed copies as little as one that takes no upload: the alarm is the same."""
    rig.write(5)
    rig.archive.look()
    while type(rig.queue[0][0]).__name__ != kind:
        rig.step()
    rig.step(commands.FailedReport("connection refused", retriable=True))
    assert rig.unified.metrics.remote_copy_errors == 1
    rig.settle()
    assert rig.unified.metrics.remote_copy_errors == 1


@pytest.mark.parametrize("kind", ["Claim", "Upload", "Commit", "ReadBack"])
def test_an_answer_that_is_lost_is_asked_for_again(rig, kind):
    """Whether or not the command was carried out: the end is the same, and no range stands twice."""
    rig.write(9)
    for carried_out in (True, False, True):
        rig.archive.look()
        while rig.queue and type(rig.queue[0][0]).__name__ != kind:
            rig.step()
        if carried_out and rig.queue:
            rig.worker.execute(rig.queue[0][0])
        if rig.queue:
            rig.step(commands.FailedReport("the connection broke", retriable=True))
        rig.now_ms += 1_000_000
    rig.settle()
    ends = [0, *[entry.end for entry in rig.manifest.entries]]
    assert [entry.base for entry in rig.manifest.entries] == ends[:-1]
    assert ends[-1] == rig.log.active_base_offset == rig.log.first_base_offset


def test_eviction_waits_for_the_read_back(rig):
    """Committed data stays on the disk until the read-back has answered."""
    rig.write(9)
    rig.archive.look()
    while not isinstance(rig.queue[0][0], commands.ReadBack):
        rig.step()
    assert rig.manifest.entries
    assert rig.log.first_base_offset == 0
    rig.settle()
    assert rig.log.first_base_offset > 0


def test_a_log_start_inside_a_segment_that_is_not_archived_yet(rig):
    """The archive begins at the segment, the manifest's log start is the log's."""
    rig.write(9)
    rig.log.advance_log_start(13)
    rig.log.delete_local_before(13)
    rig.settle()
    assert rig.manifest.log_start_offset == 13
    assert rig.manifest.remote_start == 10
    assert rig.manifest.remote_end == rig.log.active_base_offset


def test_records_deleted_before_they_were_archived_are_skipped(rig, caplog):
    """The archive goes on behind it, with no alarm about a gap without readable records."""
    rig.write(5)
    rig.settle()
    rig.write(10)
    rig.archive.look()
    rig.log.advance_log_start(52)
    rig.log.delete_local_before(52)
    rig.settle()
    assert rig.manifest.log_start_offset == 52
    assert rig.manifest.remote_end == rig.log.active_base_offset
    assert rig.manifest.remote_start == 50
    assert "nothing can be archived" not in caplog.text


def test_a_gap_that_readers_would_fall_into_is_reported(rig, caplog):
    """Files that went without the log start: nothing is archived behind the hole, and it is said once."""
    rig.write(5)
    rig.settle()
    rig.write(10)
    rig.log.delete_local_before(40)
    rig.settle()
    assert rig.manifest.remote_end < 40
    assert caplog.text.count("nothing can be archived") == 1


def test_the_log_follows_a_manifest_that_starts_later(rig):
    """Records that the archive has dropped are not brought back by an older local checkpoint."""
    rig.write(9)
    rig.settle()
    rig.archive.close()
    rig.log.advance_log_start(7)
    rig.archive = rig.lead(2)
    rig.write(4)
    rig.settle()
    rig.log.start.offset = 0
    rig.archive.look()
    assert rig.log.log_start_offset == 7


def test_a_newer_leader_ends_it(rig):
    """No more writes, no eviction; the reason is logged."""
    rig.write(5)
    rig.settle()
    before = rig.log.first_base_offset
    newer = Claimant(0, 2, b"n" * 16)
    change_manifest(rig.store, PARTITION, lambda manifest: claim(manifest, newer, now_ms=0))
    rig.write(4)
    rig.settle()
    assert rig.archive.state == "fenced"
    assert rig.log.first_base_offset == before
    assert rig.settle() == []


def test_a_corrupt_segment_stays_and_stops_the_archive(rig, caplog):
    """It is reported with partition and offset, and what lies behind it is not archived."""
    rig.write(5)
    path = rig.log.segments()[1].path
    with open(path, "r+b") as file:  # noqa: PTH123 - the log names its files by strings
        file.seek(80)
        file.write(b"\xff")
    rig.settle()
    assert rig.archive.state == "quarantined"
    assert "offset 10" in rig.archive.corrupt
    assert "t" in caplog.text
    assert rig.manifest.remote_end <= 10
    assert rig.log.first_base_offset <= 10


def test_after_the_end_answers_change_nothing(rig):
    """The partition has another leader, or is deleted."""
    rig.write(9)
    rig.archive.look()
    rig.archive.close()
    rig.step()
    assert rig.queue == []
    assert rig.log.first_base_offset == 0


def test_a_disk_that_fails_at_eviction_goes_offline(rig, monkeypatch):
    """The archive itself is not in question."""
    rig.write(9)

    def fail(_):
        raise OSError("broken")

    monkeypatch.setattr(Log, "delete_local_before", lambda self, offset: fail(offset))
    rig.archive.look()
    while rig.queue:
        rig.step()
    assert rig.failed
    assert rig.log.first_base_offset == 0


def test_copying_can_be_switched_off_and_on(rig):
    """``remote.log.copy.disable``."""
    rig.write(5)
    rig.settle()
    end = rig.manifest.remote_end
    rig.log.update_config(replace(CONFIG, remote_copy_disable=True))
    rig.archive.configured()
    rig.write(6)
    rig.settle()
    assert rig.manifest.remote_end == end
    rig.log.update_config(CONFIG)
    rig.archive.configured()
    rig.settle()
    assert rig.manifest.remote_end == rig.log.active_base_offset


def other_bucket(rig, store, *, knows=True):
    """The next leadership finds this store; it knows what the last one did, or leads for the first time."""
    known = rig.archive.remote.state if knows else None
    rig.archive.close()
    rig.queue.clear()
    rig.store, rig.worker = store, Worker(store)
    rig.archive = rig.lead(rig.archive.claimant.leader_epoch + 1, known)


def assert_nothing_is_archived(rig):
    """The archive is lost to the broker at each look, and the store stays empty."""
    for _ in range(5):
        rig.now_ms += 100_000
        rig.archive.look()
        rig.archive.evict()
        while rig.queue:
            rig.step()
    assert rig.archive.state == "lost"
    assert list(rig.store.list("")) == []


def test_another_bucket_is_left_alone_and_the_right_one_is_gone_on_with(rig, caplog):
    """No write goes there, no log start moves, no segment is evicted; reads are refused for a while, not for good."""
    rig.write(9)
    rig.settle()
    right, end = rig.store, rig.manifest.remote_end
    other_bucket(rig, MemoryStore())
    rig.write(6)
    assert_nothing_is_archived(rig)
    assert (rig.log.log_start_offset, rig.log.first_base_offset, rig.archive.remote.end_offset) == (0, end, end)
    assert caplog.text.count("its archive is lost") == 1
    rig.store, rig.worker = right, Worker(right)
    rig.settle()
    assert rig.archive.state == "held"
    assert "is in the bucket again" in caplog.text
    assert (rig.manifest.log_start_offset, rig.manifest.remote_start) == (0, 0)
    assert rig.manifest.remote_end == rig.log.active_base_offset == rig.log.first_base_offset > end


def test_a_new_leader_begins_no_archive_where_its_disk_begins_behind_its_log(rig):
    """A copy leads for the first time, and knows of no archive. All that was archived was out of the log for good."""
    rig.write(9)
    rig.settle()
    right, end = rig.store, rig.manifest.remote_end
    other_bucket(rig, MemoryStore(), knows=False)
    rig.write(6)
    assert_nothing_is_archived(rig)
    assert (rig.log.log_start_offset, rig.log.first_base_offset) == (0, end)
    rig.store, rig.worker = right, Worker(right)
    rig.settle()
    assert rig.archive.state == "held"
    assert (rig.manifest.log_start_offset, rig.log.log_start_offset) == (0, 0)
    assert rig.manifest.remote_end == rig.log.active_base_offset > end


def test_a_new_leader_begins_an_archive_where_its_whole_log_is_on_its_disk(rig):
    """Or where records before it were deleted: they are owed to no reader."""
    rig.write(9)
    rig.settle()
    end = rig.manifest.remote_end
    rig.log.advance_log_start(end)
    other_bucket(rig, MemoryStore(), knows=False)
    rig.write(6)
    rig.settle()
    assert rig.archive.state == "held"
    assert (rig.manifest.log_start_offset, rig.manifest.remote_start) == (end, end)


def test_a_manifest_that_is_not_believed_moves_nothing(rig):
    """An older copy of the bucket knows another log start and an earlier end."""
    rig.write(9)
    rig.settle()
    older = MemoryStore()
    for info in rig.store.list(""):
        older.put(info.key, rig.store.get(info.key)[0])
    rig.write(9)
    rig.settle()
    change_manifest(older, PARTITION, lambda m: replace(successor(m, "log start", 0), log_start_offset=m.remote_end))
    before = rig.log.first_base_offset
    other_bucket(rig, older)
    rig.write(6)
    for _ in range(5):
        rig.now_ms += 100_000
        rig.archive.look()
        while rig.queue:
            rig.step()
    assert rig.archive.state == "lost"
    assert (rig.log.log_start_offset, rig.log.first_base_offset) == (0, before)
    assert rig.manifest.claimant.leader_epoch == 1


@pytest.mark.parametrize("kind", ["Commit", "ReadBack"])
def test_a_bucket_that_is_emptied_under_a_leader_loses_the_archive(rig, kind):
    """It is noticed by the next change, and nothing is evicted on the account of an earlier read-back."""
    rig.write(5)
    rig.settle()
    kept = {info.key: rig.store.get(info.key)[0] for info in rig.store.list("")}
    rig.write(6)
    rig.archive.look()
    while rig.queue and type(rig.queue[0][0]).__name__ != kind:
        rig.step()
    kept |= {info.key: rig.store.get(info.key)[0] for info in rig.store.list("")}
    rig.store.delete_many(list(kept))
    before = rig.log.first_base_offset
    for _ in range(3):
        while rig.queue:
            rig.step()
        rig.now_ms += 100_000
        rig.archive.look()
    assert rig.archive.state == "lost"
    assert rig.log.first_base_offset == before
    for key, data in kept.items():
        rig.store.put(key, data)
    rig.settle()
    assert rig.archive.state == "held"
    assert rig.manifest.remote_end == rig.log.active_base_offset == rig.log.first_base_offset


@pytest.mark.parametrize("known", [True, False])
def test_an_archive_that_is_longer_than_was_known_is_compared_first(rig, known):
    """The checkpoint may be older than a kill, or the disk went back in time: no upload before that is settled."""
    rig.write(9)
    rig.settle()
    end = rig.manifest.remote_end
    rig.archive.close()
    rig.made = MadeClaims()
    rig.archive = rig.lead(2, RemoteLogState(0, end if known else end - 5, 1))
    rig.write(4)
    asked = rig.settle()
    assert ("Upload" in asked) is known
    assert [certain for _, certain in rig.compared] == ([] if known else [False])
    if not known:
        rig.archive.remote.refresh()
        rig.step()
        rig.archive.compared()
        assert "Upload" in rig.settle()


def test_a_claim_of_another_timeline_holds_the_log_back(rig):
    """Equal epochs under another id: nothing is written before the comparison."""
    rig.write(5)
    rig.settle()
    other = Claimant(0, 2, b"other timeline!!")
    change_manifest(rig.store, PARTITION, lambda manifest: claim(manifest, other, now_ms=0))
    rig.archive.close()
    rig.made = MadeClaims(frozenset([bytes([1]) * 16]), 0)
    rig.archive = rig.lead(2, RemoteLogState(0, rig.manifest.remote_end, 1))
    rig.write(4)
    assert rig.settle() == ["Claim"]
    assert [certain for _, certain in rig.compared] == [True]
