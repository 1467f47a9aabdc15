"""The log start in two places: which of them is behind, and why it moved."""

from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from stratalog.broker.archive.log_start import ArchiveLogStart
from stratalog.hot.config import LogConfig
from stratalog.tier.bucket.trash import DELETED_RECORDS, LOG_START_MOVED, RETENTION
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.manifest import Claimant
from stratalog.tier.messages import commands
from tests.broker.archive.archive_rig import CONFIG, Rig

PARTITION = PartitionId("t", bytes(16), 0)


@pytest.fixture
def log():
    """A log that starts at 50, in a segment that begins at 45; the active one begins at 60."""
    segments = [SimpleNamespace(base_offset=offset) for offset in (45, 55, 60)]
    found = SimpleNamespace(
        log_start_offset=50,
        first_base_offset=45,
        active_base_offset=60,
        segments=lambda: segments,
        config=LogConfig(retention_ms=1000),
    )

    def advance(offset):
        moves = offset > found.log_start_offset
        found.log_start_offset = max(offset, found.log_start_offset)
        return moves

    found.advance_log_start = advance
    return found


@pytest.fixture
def start(log):
    """The log start of one leadership of it."""
    unified = SimpleNamespace(log=log, partition=SimpleNamespace(high_watermark=80))
    claimant = Claimant(0, 1, bytes(16))
    return ArchiveLogStart(unified, SimpleNamespace(known_end=70), PARTITION, claimant, lambda: 9)


def test_the_manifest_learns_what_it_does_not_know(start):
    """A higher log start, or that the local log begins behind its end."""
    assert start.is_news(49, 60)
    assert not start.is_news(50, 60)
    assert start.is_news(50, 44)


def test_archiving_resumes_where_the_segment_of_the_log_start_begins_unless_that_leaves_a_hole(start, log):
    """Segments that end at it are skipped, the one that holds it is not; below the local log there is only the archive."""
    for log.log_start_offset, border in ((50, 45), (55, 55), (59, 55), (60, 60), (70, 60), (50, 45)):
        assert start.resume_at() == border
    log.first_base_offset = 51
    assert start.resume_at() is None


def test_an_older_checkpoint_follows_the_manifest(start, log, caplog):
    """It never passes the high watermark; each move is logged, with both offsets and why."""
    start.follow(60)
    assert log.log_start_offset == 60
    start.follow(90)
    assert log.log_start_offset == 80
    start.follow(90)
    start.follow(7)
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 2
    assert told[0].endswith("the log start moves from offset 50 to 60, because its archive begins there")
    assert told[1].endswith("the log start moves from offset 60 to 80, because its archive begins there")


def test_the_log_follows_a_manifest_that_readers_see(log):
    """A lookup by time had an answer from the archive, and EARLIEST one from the log (`make sim-replicas SEED=700037`)."""
    remote = SimpleNamespace(known_end=70)
    unified = SimpleNamespace(log=log, partition=SimpleNamespace(high_watermark=80), remote=remote)
    ArchiveLogStart(unified, remote, PARTITION, Claimant(0, 1, bytes(16)), lambda: 9)
    remote.follow_start(60)
    assert log.log_start_offset == 60
    unified.remote = None  # another broker leads: its follower hears of the log start from there
    remote.follow_start(70)
    assert log.log_start_offset == 60


def test_why_it_moved(start, log):
    """By retention, by hand, or before this leadership: then only a log without limits rules retention out."""
    assert start.command().reason == LOG_START_MOVED
    log.config = replace(log.config, retention_ms=-1)
    assert start.command().reason == DELETED_RECORDS
    log.config = LogConfig(retention_ms=1000)
    log.log_start_offset = start.retained_to = 59
    command = start.command()
    assert (command.reason, command.offset, command.resume_at, command.known_end) == (RETENTION, 59, 55, 70)
    log.log_start_offset = 61
    assert start.command().reason == DELETED_RECORDS


def test_a_log_start_that_the_bucket_does_not_take_is_sent_again_after_pauses(tmp_path, caplog):
    """A look comes four times a second. The pause ends as soon as requests may succeed again."""
    rig = Rig(tmp_path, replace(CONFIG, local_retention_bytes=10**9))
    rig.write(9)
    rig.settle()
    rig.log.advance_log_start(12)
    sent = []
    for _ in range(240):
        rig.now_ms += 250
        rig.archive.look()
        while rig.queue:
            sent.append(rig.step(commands.FailedReport("out of contact", retriable=True)))
    assert 5 < len(sent) < 15
    assert caplog.text.count("out of contact") == len(sent)
    rig.archive.look(1)
    assert isinstance(rig.step(), commands.SetLogStart)
    assert rig.manifest.log_start_offset == 12
    rig.log.advance_log_start(13)
    rig.archive.look(1)
    rig.step()
    assert rig.manifest.log_start_offset == 13
