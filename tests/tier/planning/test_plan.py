from __future__ import annotations

from itertools import pairwise

import pytest

from stratalog.tier.planning.plan import ArchivePlan, Phase, PlanSettings
from stratalog.tier.planning.plan_events import (
    ArchiveLost,
    Claimed,
    ClaimFailed,
    ClaimWanted,
    CommitDone,
    CommitFailed,
    Compared,
    ComparisonBegun,
    Configured,
    EvictBelow,
    Evicted,
    FencedOut,
    Progress,
    RangeRef,
    ReadBackDone,
    ReadBackFailed,
    RemoteEndMoved,
    ReportGap,
    ReportLost,
    ReportQuarantine,
    Sealed,
    SendClaim,
    SendCommit,
    SendReadBack,
    SendUpload,
    StandDown,
    Throttled,
    Tick,
    UploadCorrupt,
    UploadDone,
    UploadFailed,
)


class Driver:
    """A plan, the time, and short ways to feed it."""

    def __init__(self, local_start=0, uploads_max=2, **options):
        self.plan = ArchivePlan(PlanSettings(uploads_max=uploads_max), local_start=local_start, **options)
        self.now_ms = 1000

    def feed(self, *events):
        """All actions that the events call for."""
        return [action for event in events for action in self.plan.step(event, self.now_ms)]

    def sealed(self, *borders, stable=10**6):
        """Segments between the borders, everything below ``stable`` committed and flushed."""
        pairs = pairwise(borders)
        return self.feed(*(Sealed(a, b) for a, b in pairs), Progress(stable, stable, stable))

    def held(self, *borders, remote_end=None):
        """As `sealed`, and the claim is granted."""
        self.sealed(*borders)
        return self.feed(Claimed(borders[0] if remote_end is None else remote_end))


@pytest.mark.parametrize("kind", ["claim", "upload", "commit", "read-back"])
def test_failed_requests_are_sent_again_at_once_when_they_may_succeed(kind):
    """The pause may have become long; the next ones are as short as at first."""
    driver = Driver(uploads_max=1)
    steps = [
        ("claim", ClaimFailed(0.9), Claimed(0)),
        ("upload", lambda sent: UploadFailed(sent.ref, 0.9), lambda sent: UploadDone(sent.ref)),
        ("commit", CommitFailed(0.9), CommitDone(100)),
        ("read-back", ReadBackFailed(0.9), ReadBackDone(100)),
    ]
    (sent,) = driver.sealed(0, 100)
    for name, failed, done in steps:
        if name == kind:
            for _ in range(12):
                assert driver.feed(failed(sent) if callable(failed) else failed, Tick()) == []
                driver.now_ms += 100_000
                (sent,) = driver.feed(Tick())
            assert driver.feed(failed(sent) if callable(failed) else failed, Tick()) == []
            assert driver.plan.deadline() > driver.now_ms + 20_000
            (sent,) = driver.feed(Tick(resumes=True))
            assert driver.feed(failed(sent) if callable(failed) else failed, Tick()) == []
            assert driver.plan.deadline() <= driver.now_ms + 500
            return
        (sent,) = driver.feed(done(sent) if callable(done) else done)


def test_no_object_is_written_before_the_claim():
    """The first sealed and stable segment calls for a claim, and for nothing else until it is granted."""
    driver = Driver()
    assert driver.feed(Sealed(0, 100)) == []
    assert driver.feed(Progress(100, 100, 100)) == [SendClaim()]
    assert driver.feed(Sealed(100, 200), Tick(), Progress(200, 200, 200)) == []
    assert driver.feed(Claimed(0)) == [SendUpload(RangeRef(0, 100, 1)), SendUpload(RangeRef(100, 200, 2))]


def test_a_partition_with_nothing_to_copy_claims_nothing():
    """Claims are lazy: leadership alone costs no request."""
    driver = Driver()
    assert driver.feed(Progress(50, 50, 50), Tick()) == []
    assert driver.plan.phase is Phase.UNCLAIMED


@pytest.mark.parametrize("lowest", [0, 1, 2])
def test_only_stable_flushed_and_committed_data_is_copied(lowest):
    """The lowest of high watermark, last stable offset and flushed offset decides (rule 3)."""
    driver = Driver()
    limits = [200, 200, 200]
    limits[lowest] = 199
    assert driver.feed(Sealed(0, 100), Sealed(100, 200), Progress(*limits)) == [SendClaim()]
    assert driver.feed(Claimed(0)) == [SendUpload(RangeRef(0, 100, 1))]
    assert driver.feed(Progress(200, 200, 200)) == [SendUpload(RangeRef(100, 200, 2))]


def test_ranges_begin_at_the_remote_end_wherever_the_segments_do():
    """A replica that rolled elsewhere goes on in the middle of its own segment."""
    driver = Driver()
    assert driver.held(0, 100, 200, remote_end=130) == [
        SendReadBack(0, 130),
        SendUpload(RangeRef(130, 200, 1)),
    ]


def test_at_most_so_many_uploads_at_a_time_and_ahead_of_the_commit():
    """Two run; with the first still missing, no more than four are ahead of the remote end."""
    driver = Driver()
    first = driver.held(*range(0, 1000, 100))
    assert [a.ref.base for a in first] == [0, 100]
    assert [a.ref.base for a in driver.feed(UploadDone(RangeRef(100, 200, 2)))] == [200]
    assert [a.ref.base for a in driver.feed(UploadDone(RangeRef(200, 300, 3)))] == [300]
    assert driver.feed(UploadDone(RangeRef(300, 400, 4))) == []


def test_one_commit_takes_all_consecutive_uploads():
    """A later range waits for an earlier one, then both go in one compare-and-swap."""
    driver = Driver()
    driver.held(0, 100, 200, 300)
    assert driver.feed(UploadDone(RangeRef(100, 200, 2))) == [SendUpload(RangeRef(200, 300, 3))]
    assert driver.feed(UploadDone(RangeRef(0, 100, 1))) == [SendCommit((RangeRef(0, 100, 1), RangeRef(100, 200, 2)))]
    assert driver.feed(UploadDone(RangeRef(200, 300, 3))) == []
    assert driver.feed(CommitDone(200)) == [SendCommit((RangeRef(200, 300, 3),)), SendReadBack(0, 200)]


def test_a_read_back_waits_for_the_next_range_but_not_for_many():
    """While one is uploaded or committed, a single one is not read back yet; two are not kept waiting."""
    driver = Driver()
    driver.held(*range(0, 1000, 100))
    uploads = [UploadDone(RangeRef(base, base + 100, base // 100 + 1)) for base in (0, 100, 200)]
    assert SendCommit((RangeRef(0, 100, 1),)) in driver.feed(*uploads[:1])
    driver.feed(*uploads[1:2])
    assert driver.feed(CommitDone(100)) == [SendCommit((RangeRef(100, 200, 2),))]
    driver.feed(*uploads[2:])
    assert SendReadBack(0, 200) in driver.feed(CommitDone(200))


def test_eviction_follows_the_read_back_only():
    """A commit alone evicts nothing; the read-back allows exactly what it verified (rule 4)."""
    driver = Driver()
    driver.held(0, 100, 200)
    actions = driver.feed(UploadDone(RangeRef(0, 100, 1)), UploadDone(RangeRef(100, 200, 2)), CommitDone(100))
    assert not [a for a in actions if isinstance(a, EvictBelow)]
    assert driver.feed(ReadBackDone(100)) == [EvictBelow(100)]
    assert driver.feed(Evicted(100), Tick()) == []
    assert driver.feed(CommitDone(200)) == [SendReadBack(100, 200)]
    assert driver.feed(ReadBackDone(150)) == [EvictBelow(150), SendReadBack(150, 200)]
    assert driver.feed(ReadBackFailed(0.0)) == []
    assert driver.plan.deadline() == 1250


def test_a_failed_upload_is_repeated_under_a_new_attempt():
    """After a wait, and never under the same key (rule 2)."""
    driver = Driver(uploads_max=1)
    driver.held(0, 100)
    assert driver.feed(UploadFailed(RangeRef(0, 100, 1), 0.0)) == []
    assert driver.plan.deadline() == 1250
    driver.now_ms = 1250
    assert driver.feed(Tick()) == [SendUpload(RangeRef(0, 100, 2))]
    assert driver.plan.deadline() is None
    assert driver.feed(UploadDone(RangeRef(0, 100, 1))) == []


def test_a_claim_without_an_answer_is_repeated():
    """Claiming is idempotent by its uuid, so it is simply sent again."""
    driver = Driver()
    driver.sealed(0, 100)
    assert driver.feed(ClaimFailed(0.5)) == []
    driver.now_ms = driver.plan.deadline()
    assert driver.feed(Tick()) == [SendClaim()]


def test_a_commit_without_an_answer_is_repeated_as_it_was():
    """The same attempts are committed again: their uuids tell whether the first one landed."""
    driver = Driver(uploads_max=1)
    driver.held(0, 100)
    sent = driver.feed(UploadDone(RangeRef(0, 100, 1)))
    assert driver.feed(CommitFailed(0.0)) == []
    driver.now_ms += 60_000
    assert driver.feed(Tick()) == sent == [SendCommit((RangeRef(0, 100, 1),))]


def test_a_refused_commit_cuts_the_range_anew():
    """The archive ends elsewhere: the old objects become orphans, the next range begins there."""
    driver = Driver()
    driver.held(0, 100, 200)
    driver.feed(UploadDone(RangeRef(0, 100, 1)))
    assert driver.feed(RemoteEndMoved(40)) == [
        SendReadBack(0, 40),
        SendUpload(RangeRef(40, 100, 3)),
        SendUpload(RangeRef(100, 200, 4)),
    ]
    assert driver.feed(UploadDone(RangeRef(100, 200, 2))) == []


def test_a_fenced_leader_stands_down_for_good():
    """After the first sign of a higher claim nothing is sent, whatever happens."""
    driver = Driver()
    driver.held(0, 100, 200)
    assert driver.feed(FencedOut("epoch 9")) == [StandDown("epoch 9"), EvictBelow(0)]
    assert driver.feed(UploadDone(RangeRef(0, 100, 1)), Claimed(0), Sealed(200, 300), Tick(), CommitDone(100)) == []
    assert driver.plan.deadline() is None


def test_copying_can_be_switched_off_and_throttled():
    """No new upload starts while the topic is not copied or the byte budget is spent; a commit still goes out."""
    driver = Driver(uploads_max=1)
    driver.held(0, 100, 200)
    assert driver.feed(Configured(copy_enabled=False), UploadDone(RangeRef(0, 100, 1))) == [
        SendCommit((RangeRef(0, 100, 1),))
    ]
    assert driver.feed(Throttled(5000), Configured(copy_enabled=True)) == []
    assert driver.plan.deadline() == 5000
    driver.now_ms = 5000
    assert driver.feed(Tick()) == [SendUpload(RangeRef(100, 200, 2))]
    assert driver.plan.deadline() is None


def test_a_corrupt_range_stops_the_archive_in_front_of_it():
    """It is reported and never retried, and nothing behind it is copied; what was before it is still committed."""
    driver = Driver()
    driver.held(0, 100, 200, 300)
    assert driver.feed(UploadCorrupt(RangeRef(100, 200, 2), "crc")) == [ReportQuarantine(100, 200, "crc")]
    assert driver.feed(UploadDone(RangeRef(0, 100, 1))) == [SendCommit((RangeRef(0, 100, 1),))]
    driver.now_ms += 10**6
    assert driver.feed(CommitDone(100), Tick()) == [SendReadBack(0, 100)]


def test_a_hole_between_archive_and_local_log_is_reported_once():
    """No range is copied across it until the archive's end has moved."""
    driver = Driver(local_start=100)
    assert driver.held(100, 200, remote_end=50) == [ReportGap(50, 100)]
    assert driver.feed(Tick()) == []
    assert driver.feed(RemoteEndMoved(100)) == [SendUpload(RangeRef(100, 200, 1))]


def test_ranges_whose_files_went_with_the_log_start_are_dropped():
    """Records deleted by their owner are not uploaded any more."""
    driver = Driver()
    driver.held(0, 100, 200)
    assert driver.feed(Evicted(100)) == [ReportGap(0, 100)]
    assert driver.feed(UploadDone(RangeRef(0, 100, 1)), RemoteEndMoved(100)) == [SendUpload(RangeRef(100, 200, 3))]


def test_segments_below_the_log_start_are_not_copied():
    """The archive goes on where the segment of the log start begins, once its own log start has moved."""
    driver = Driver()
    driver.held(0, 100)
    driver.feed(UploadDone(RangeRef(0, 100, 1)), CommitDone(100), Progress(400, 400, 400, resume_at=300))
    assert driver.feed(Sealed(100, 200), Sealed(200, 300), Sealed(300, 400), Tick()) == []
    assert driver.feed(RemoteEndMoved(300)) == [SendUpload(RangeRef(300, 400, 2))]


def test_a_segment_that_holds_the_log_start_is_copied_whole():
    """Its first records are deleted, but batches are not cut."""
    driver = Driver()
    driver.sealed(0, 100, 200)
    assert driver.feed(Progress(200, 200, 200, resume_at=100), Claimed(100)) == [
        SendReadBack(0, 100),
        SendUpload(RangeRef(100, 200, 1)),
    ]


def test_ranges_archived_by_another_writer_need_no_upload():
    """A claim that finds the data there only reads it back."""
    driver = Driver()
    assert driver.held(0, 100, 200, remote_end=200) == [SendReadBack(0, 200)]
    assert driver.feed(ReadBackDone(200)) == [EvictBelow(200)]


def test_a_range_that_a_repair_removed_from_the_archive_stays_local():
    """An end that goes back takes the permission to evict with it, also where a read-back is still on its way."""
    driver = Driver()
    driver.held(0, 100, 200, remote_end=200)
    assert driver.feed(ReadBackDone(200)) == [EvictBelow(200)]
    assert EvictBelow(100) in driver.feed(RemoteEndMoved(100))
    assert driver.plan.verified_end == 100
    assert not [one for one in driver.feed(ReadBackDone(200)) if isinstance(one, EvictBelow)]


def test_the_lag_counts_what_could_be_archived():
    """From the remote end to the last stable border."""
    driver = Driver()
    driver.held(0, 100, 200, 300)
    driver.feed(Progress(250, 250, 250))
    assert driver.plan.lag == (0, 200)


def test_a_read_back_that_verifies_nothing_is_not_repeated_at_once():
    """An archive that does not reach back to the local log would otherwise be asked without end."""
    driver = Driver()
    assert driver.held(0, 100, remote_end=100) == [SendReadBack(0, 100)]
    assert driver.feed(ReadBackDone(0)) == []
    driver.now_ms = driver.plan.deadline()
    assert driver.feed(Tick()) == [SendReadBack(0, 100)]


def lost_driver():
    """Two ranges archived, one of them evictable, a third on its way; then the archive is gone."""
    driver = Driver()
    driver.held(0, 100, 200, 300, remote_end=100)
    driver.feed(ReadBackDone(100))
    assert driver.feed(ArchiveLost("gone", 0.0)) == [ReportLost("gone"), EvictBelow(0)]
    return driver


def test_a_lost_archive_stops_uploads_and_takes_the_leave_to_evict_back():
    """Late answers of what was under way change nothing; it is said once."""
    driver = lost_driver()
    assert driver.plan.phase is Phase.LOST
    assert driver.feed(UploadDone(RangeRef(100, 200, 1)), ReadBackDone(100), Progress(300, 300, 300)) == []
    assert driver.feed(ArchiveLost("gone", 0.0)) == [EvictBelow(0)]


def test_a_lost_archive_is_claimed_again_and_again_until_it_is_there():
    """With pauses that grow; then archiving goes on where the archive ends, after a new read-back."""
    driver = lost_driver()
    for _ in range(3):
        driver.now_ms = driver.plan.deadline()
        assert driver.feed(Tick()) == [SendClaim()]
        assert driver.feed(Tick()) == []
        driver.feed(ArchiveLost("gone", 0.0))
        assert driver.plan.phase is Phase.LOST
    driver.now_ms = driver.plan.deadline()
    assert driver.feed(Tick()) == [SendClaim()]
    assert driver.feed(ClaimFailed(0.0)) == []
    assert driver.plan.phase is Phase.LOST
    driver.now_ms = driver.plan.deadline()
    driver.feed(Tick())
    actions = driver.feed(Claimed(100))
    assert SendReadBack(0, 100) in actions
    assert [one.ref.base for one in actions if isinstance(one, SendUpload)] == [100, 200]


def test_a_lost_archive_is_looked_for_also_where_nothing_is_to_be_copied():
    """An idle topic comes back by itself, too."""
    driver = Driver(copy_enabled=False)
    driver.feed(ClaimWanted(), ArchiveLost("gone", 0.0))
    driver.now_ms = driver.plan.deadline()
    assert driver.feed(Tick()) == [SendClaim()]


def test_no_object_is_written_while_log_and_archive_are_compared():
    """The log may hold other records than the archive; no deadline wakes the plan meanwhile."""
    driver = Driver()
    driver.sealed(0, 10, 20)
    assert driver.feed(ComparisonBegun()) == []
    assert driver.feed(ClaimFailed(0.5), ClaimWanted(), Claimed(0), Configured(True), Tick()) == []
    assert driver.plan.deadline() is None


def test_after_a_comparison_only_what_the_log_seals_from_then_on_is_archived():
    """It began again at 15: borders, uploads and read-backs of the log before it name other records."""
    driver = Driver()
    driver.held(0, 10, 20, 30)
    assert driver.feed(ComparisonBegun(), Compared(15)) == [EvictBelow(15)]
    driver.now_ms += 10_000
    assert driver.feed(Progress(100, 100, 100), Tick()) == []
    assert driver.feed(Sealed(15, 40)) == [SendClaim()]
    assert [(a.ref.base, a.ref.end) for a in driver.feed(Claimed(15))] == [(15, 40)]


def test_a_lost_archive_stays_lost_over_a_comparison():
    """Only a claim finds it again."""
    driver = Driver()
    driver.held(0, 10)
    driver.feed(ArchiveLost("gone", 0.0), ComparisonBegun(), Compared(0))
    assert driver.plan.phase is Phase.LOST


def test_an_archive_that_has_moved_past_a_corrupt_range_goes_on():
    """Its records were deleted: the log start lies above it, and the archive's end with it."""
    driver = Driver()
    driver.held(0, 100, 200, 300, 400)
    driver.feed(UploadCorrupt(RangeRef(0, 100, 1), "crc"), UploadDone(RangeRef(100, 200, 2)))
    assert driver.plan.blocked
    assert driver.feed(RemoteEndMoved(200)) == [
        SendReadBack(0, 200),
        SendUpload(RangeRef(200, 300, 3)),
        SendUpload(RangeRef(300, 400, 4)),
    ]
    assert not driver.plan.blocked


@pytest.mark.parametrize("second", [0, 100])
def test_an_archive_goes_on_behind_the_last_of_its_corrupt_ranges(second):
    """The end of the archive has to be behind all of them."""
    driver = Driver()
    driver.held(0, 100, 200, 300)
    for base, attempt in ((second, 1 + second // 100), (100 - second, 2 - second // 100)):
        driver.feed(UploadCorrupt(RangeRef(base, base + 100, attempt), "crc"))
    assert driver.feed(RemoteEndMoved(100)) == [SendReadBack(0, 100)]
    assert driver.feed(RemoteEndMoved(200)) == [SendUpload(RangeRef(200, 300, 3))]
