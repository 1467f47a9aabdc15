from __future__ import annotations

import os
import pickle

import pytest

from stratalog.tier.manifests.manifest import Claimant
from stratalog.tier.messages import commands
from stratalog.tier.messages.commands import (
    Claim,
    Commit,
    CorruptReport,
    FailedReport,
    FencedReport,
    ManifestRead,
    MissingReport,
    MovedReport,
    ReadBack,
    ReadFooter,
    ReadManifest,
    Upload,
    UploadDone,
    VerifiedUpTo,
)
from stratalog.tier.objects.segment_object import FileRange, SegmentRequest
from stratalog.tier.objects.segment_reader import CorruptObject
from stratalog.tier.objects.segment_upload import ObjectDiffers
from stratalog.tier.stores.faulty_store import Fault, FaultRule, FaultyStore
from stratalog.tier.stores.store import ChecksumMismatch
from stratalog.tier.stores.throttled_store import ThrottledStore, TokenBucket
from stratalog.tier.work.work import Worker

ONE = Claimant(0, 1, bytes([1] * 16), 7)
TWO = Claimant(0, 2, bytes([2] * 16), 8)


class Site:
    """A worker, a partition and short ways to make commands."""

    def __init__(self, store, log_bytes, directory):
        self.store = store
        self.worker = Worker(store)
        self.partition = log_bytes.partition
        self.log_bytes = log_bytes
        self.directory = directory

    def run(self, command):
        """Execute what a pickled copy of the command says, and pickle the answer, as between processes."""
        return pickle.loads(pickle.dumps(self.worker.execute(pickle.loads(pickle.dumps(command)))))

    def claim(self, claimant=ONE, **options):
        return self.run(Claim(self.partition, claimant, 10, 0, **options))

    def upload_command(self, base, end, claimant=ONE):
        data = self.log_bytes.segment(base, (end - base) // 10)
        path = self.directory / f"{base}.log"
        path.write_bytes(data)
        request = SegmentRequest(
            self.partition, os.urandom(16), base, end, claimant.leader_epoch, (FileRange(str(path), 0, len(data)),)
        )
        return Upload(request, claimant)

    def upload(self, base, end, claimant=ONE):
        return self.run(self.upload_command(base, end, claimant)).uploaded

    def commit(self, *uploads, claimant=ONE, **options):
        return self.run(Commit(self.partition, claimant, uploads, 20, **options))


@pytest.fixture
def site(memory_store, log_bytes, tmp_path):
    """A site over an empty store in memory."""
    return Site(memory_store, log_bytes, tmp_path)


def test_a_range_goes_from_file_to_verified_archive(site):
    """Claim, upload, commit, read back: each answer carries what the broker needs next."""
    claimed = site.claim(cluster_id="c")
    assert isinstance(claimed, ManifestRead)
    assert (claimed.view.remote_end, claimed.view.claimant) == (0, ONE)
    first, second = site.upload(0, 100), site.upload(100, 150)
    committed = site.commit(first, second)
    assert (committed.view.remote_end, list(committed.view.entries.bases)) == (150, [0, 100])
    assert site.run(ReadBack(site.partition, 0, 150, 0, ONE)) == VerifiedUpTo(150)
    later = site.commit(site.upload(150, 160), known_end=150)
    assert (later.view.entries_from, list(later.view.entries.bases)) == (150, [150])


def test_every_command_has_an_executor():
    """A command without one would only be noticed when it is sent."""
    from stratalog.tier.work.work import _EXECUTORS

    assert set(_EXECUTORS) == set(commands.Command.__args__)


def test_every_writing_command_reports_a_fenced_leader(site):
    """Claim, commit, log start and read-back under a lower claim: stand down."""
    site.claim()
    upload = site.upload(0, 100)
    site.claim(TWO)
    assert isinstance(site.claim(), FencedReport)
    assert isinstance(site.commit(upload), FencedReport)
    assert isinstance(site.run(commands.SetLogStart(site.partition, ONE, 5, 1, "r")), FencedReport)
    assert isinstance(site.run(ReadBack(site.partition, 0, 100, 0, ONE)), FencedReport)


def test_a_commit_behind_the_remote_end_gets_the_remote_end(site):
    """So that the plan can cut the next range there."""
    site.claim()
    assert site.commit(site.upload(100, 200)).remote_end == 0
    site.commit(site.upload(0, 100))
    moved = site.commit(site.upload(0, 100))
    assert isinstance(moved, MovedReport)
    assert moved.remote_end == 100


def test_a_commit_to_an_archive_in_the_trash_says_so(site):
    """Under its own claim: to send it again would be in vain for ever."""
    site.claim()
    upload = site.upload(0, 100)
    site.run(commands.TrashArchive(site.partition, ONE, 1, "tiering switched off"))
    assert isinstance(site.commit(upload), commands.DeletedReport)


def test_a_commit_whose_reply_is_lost_is_made_once(site):
    """The first answer is a retriable failure, the repeated command finds its own uuid."""
    site.claim()
    upload = site.upload(0, 100)
    faulty = FaultyStore(site.store, [FaultRule(Fault.DROP_AFTER_COMMIT, "compare_and_swap")])
    site.worker = Worker(faulty)
    failed = site.commit(upload)
    assert isinstance(failed, FailedReport)
    assert failed.retriable
    again = site.commit(upload)
    assert len(again.view.entries) == 1
    assert again.view.seq == 2


def test_a_corrupt_segment_is_reported_with_its_place(site):
    """Partition, offset, file and position, and nothing reaches the store."""
    site.claim()
    command = site.upload_command(0, 100)
    path = site.directory / "0.log"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    report = site.run(command)
    assert isinstance(report, CorruptReport)
    assert (report.partition, report.offset, report.place) == (site.partition, 90, str(path))
    assert not list(site.store.list(site.partition.segments_prefix))


@pytest.mark.parametrize(
    "error",
    [
        ChecksumMismatch("put_if_absent", "key", "memory:", "BadDigest"),
        ObjectDiffers("another length"),
        CorruptObject("key", 0, -1, "no footer"),
    ],
    ids=lambda one: type(one).__name__,
)
def test_an_upload_that_the_store_has_damaged_may_be_repeated(site, monkeypatch, error):
    """The source has passed its check: the report is not one of corrupt local bytes."""

    def put(*_, **__):
        raise error

    monkeypatch.setattr("stratalog.tier.work.archive_commands.put_segment", put)
    report = site.run(site.upload_command(0, 100))
    assert isinstance(report, FailedReport)
    assert report.retriable
    assert not report.local


def test_a_vanished_file_is_an_ordinary_failure(site):
    """The upload may be repeated; nothing is quarantined."""
    site.claim()
    command = site.upload_command(0, 100)
    (site.directory / "0.log").unlink()
    report = site.run(command)
    assert isinstance(report, commands.FailedReport)
    assert report.retriable
    assert report.local  # the bucket has nothing to do with it


def test_a_missing_object_differs_from_a_store_that_is_away(site):
    """Missing: read the manifest again; away: try again."""
    assert isinstance(site.run(ReadFooter(site.partition, "no/such.seg")), MissingReport)
    site.worker = Worker(FaultyStore(site.store, [FaultRule(Fault.FAIL_BEFORE)]))
    report = site.run(ReadFooter(site.partition, "no/such.seg"))
    assert isinstance(report, commands.FailedReport)
    assert report.retriable
    assert not report.local


def test_only_uploads_obey_the_byte_rate(site, virtual_time):
    """Manifest writes and reads pass although the budget is spent (rule 7)."""
    bucket = TokenBucket(1000, burst_bytes=1000, timing=virtual_time)
    site.worker = Worker(site.store, uploads=ThrottledStore(site.store, writes=bucket))
    site.claim()
    assert virtual_time.sleeps == []
    upload = site.upload(0, 100)
    waited_s = sum(virtual_time.sleeps)
    assert waited_s == pytest.approx((upload.entry.size_bytes - 1000) / 1000)
    site.commit(upload)
    assert sum(virtual_time.sleeps) == waited_s


def test_a_damaged_manifest_stops_the_archive(site):
    """It is reported as corrupt and left as it is."""
    site.claim()
    site.store.put(site.partition.manifest_key, b"{}")
    assert isinstance(site.claim(TWO), CorruptReport)
    assert isinstance(site.run(ReadManifest(site.partition)), CorruptReport)
    assert site.store.get(site.partition.manifest_key)[0] == b"{}"


def test_an_upload_under_another_epoch_than_its_key_is_refused(site):
    """The key's epoch is what later tells an orphan from a live object."""
    command = site.upload_command(0, 100)
    report = site.run(Upload(command.request, TWO))
    assert isinstance(report, commands.FailedReport)
    assert not report.retriable


def test_the_same_commands_run_on_a_directory(local_store, log_bytes, tmp_path):
    """The embedded store goes through the same path."""
    site = Site(local_store, log_bytes, tmp_path)
    site.claim()
    done = site.run(site.upload_command(0, 100))
    assert isinstance(done, UploadDone)
    assert site.commit(done.uploaded).view.remote_end == 100
    assert site.run(ReadBack(site.partition, 0, 100, 0, ONE)) == VerifiedUpTo(100)
