"""Tests of hot/log/truncate.py."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stratalog.hot.config import LogConfig
from stratalog.hot.log import snapshots
from stratalog.hot.recovery import replay as replaying
from stratalog.hot.segments import segment as segments
from stratalog.hot.state.leader_epochs import EpochEntry
from stratalog.wire.batch import Record, build_batch
from stratalog.wire.errors import ErrorCode, KafkaError

COMPACTED = LogConfig(cleanup_policy=frozenset({"compact"}))


@pytest.mark.parametrize("offset", range(31))
def test_truncation_at_any_offset_removes_its_batch_and_everything_behind(bench, offset):
    """Inside a batch the whole batch goes; then the log goes on from there, after a restart too."""
    log = bench.open()
    bench.fill(log, 3)
    log.sync()
    log.truncate_to(offset)
    end = offset // 2 * 2
    assert log.log_end_offset == log.written_offset == log.flushed_offset == end
    assert [header.base_offset for header in bench.headers(log)] == list(range(0, end, 2))
    assert bench.append(log, 2, epoch=4).base_offset == end
    log.sync()
    for clean in (True, False):
        assert [header.base_offset for header in bench.headers(log)] == list(range(0, end + 2, 2))
        log.close()
        log = bench.open(clean=clean)
    assert log.recovery.damaged_offset is None


def test_truncation_restores_epochs_and_producers(bench):
    """State that came from the removed batches is void."""
    log = bench.open()
    bench.append(log, 1, epoch=1, producer_id=7, producer_epoch=0, base_sequence=0)
    bench.append(log, 1, epoch=2, producer_id=7, producer_epoch=0, base_sequence=1)
    log.truncate_to(1)
    assert log.leader_epochs.entries == (EpochEntry(1, 0),)
    assert bench.append(log, 1, epoch=3, producer_id=7, producer_epoch=0, base_sequence=1).base_offset == 1


def test_truncation_into_a_gap_ends_the_log_at_the_offset(bench, make_batch):
    """As in Kafka, and after a restart, too: a follower would be sent what it believes to have."""
    for clean in (True, False):
        bench.begin_anew()
        log = bench.open(COMPACTED)
        for base, count in ((0, 5), (20, 2)):
            log.append_as_follower(memoryview(make_batch(base, count)), leader_epoch=0, now_ms=0)
        log.sync()
        log.truncate_to(10)
        assert (log.log_end_offset, log.written_offset, log.flushed_offset) == (10, 10, 10)
        flushed = log.flushed_offset
        (log.close if clean else log.abandon)()
        log = bench.open(COMPACTED, clean=clean, recovery_point=flushed)
        assert (log.log_end_offset, log.recovery.damaged_offset) == (10, None)
        assert bench.append(log, 2).base_offset == 10
        log.sync()
        assert [header.base_offset for header in bench.headers(log)] == [0, 10]


@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])
def test_a_gap_at_the_start_of_the_log_is_read_on_over(bench, make_batch, clean):
    """The cleaner may leave nothing below the offset to which a log is cut; the log starts where it started."""
    log = bench.open(COMPACTED)
    log.append_as_follower(memoryview(make_batch(20, 2)), leader_epoch=0, now_ms=0)
    log.sync()
    log.truncate_to(10)
    bench.append(log, 2)
    log.sync()
    for _ in range(2):
        assert (log.log_start_offset, log.local_log_start_offset, log.log_end_offset) == (0, 0, 12)
        for offset in (0, 5, 10):
            read = log.read(offset, max_bytes=1 << 20, max_offset=12)
            assert (read.size_bytes > 0, read.next_offset) == (True, 12)
        flushed = log.flushed_offset
        (log.close if clean else log.abandon)()
        log = bench.open(COMPACTED, clean=clean, recovery_point=flushed)
    assert log.missing_ranges() == []


@st.composite
def gapped(draw):
    """Batches as ``(base offset, count, epoch, producer)``, some behind a gap, some behind a roll."""
    batches, offset, epoch = [], draw(st.integers(0, 3)), 0
    for _ in range(draw(st.integers(1, 12))):
        offset += draw(st.sampled_from([0, 0, 0, 1, 4, 30]))
        epoch += draw(st.sampled_from([0, 0, 0, 1]))
        count = draw(st.integers(1, 3))
        batches.append((offset, count, epoch, draw(st.sampled_from([-1, 7, 8])), draw(st.booleans())))
        offset += count
    return batches


@given(batches=gapped(), data=st.data())
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_truncated_log_with_gaps_equals_one_that_was_never_longer(bench_type, tmp_path_factory, batches, data):
    """Offsets, batches, epochs, producers and look-ups; at once, after a restart, and after an unclean one."""
    config = LogConfig(cleanup_policy=frozenset({"compact"}), index_interval_bytes=150)
    bench, control = bench_type(str(tmp_path_factory.mktemp("a"))), bench_type(str(tmp_path_factory.mktemp("b")))
    end = batches[-1][0] + batches[-1][1]
    target = data.draw(st.integers(0, end))
    kept = [one for one in batches if one[0] + one[1] <= target]
    inside = [one[0] for one in batches if one[0] < target < one[0] + one[1]]
    expected = inside[0] if inside else target
    log, shorter = bench.open(config), control.open(config)
    for one, content in ((log, batches), (shorter, kept)):
        for base, count, epoch, producer_id, roll in content:
            records = [Record(base + i, bench.now_ms + base + i, None, b"v" * 50) for i in range(count)]
            made = build_batch(
                records, leader_epoch=epoch, producer_id=producer_id, producer_epoch=0, base_sequence=base
            )
            if roll:
                one.roll()
            one.append_as_follower(memoryview(made), leader_epoch=epoch, now_ms=0)
        one.sync()
    log.truncate_to(target)
    for reopen in (None, True, False):
        if reopen is not None:
            flushed = log.flushed_offset
            (log.close if reopen else log.abandon)()
            log = bench.open(config, clean=reopen, recovery_point=flushed)
        assert (log.log_end_offset, log.written_offset) == (expected, expected)
        assert log.recovery.damaged_offset is None
        assert bench.headers(log) == control.headers(shorter)
        assert log.leader_epochs.entries == shorter.leader_epochs.entries
        assert log.producer_state.to_bytes() == shorter.producer_state.to_bytes()
        for base, count, *_ in kept:
            assert log.read(base, max_bytes=1, max_offset=expected).next_offset >= base + count
            assert bench.offset_for_timestamp(log, bench.now_ms + base, max_offset=expected).offset == base
    assert bench.append(log, 2, epoch=99).base_offset == expected
    log.sync()
    assert [one.base_offset for one in bench.headers(log)] == [one[0] for one in kept] + [expected]


def test_truncation_to_the_end_or_beyond_does_nothing(log):
    """There is nothing to remove."""
    log.truncate_to(30)
    log.truncate_to(99)
    assert log.log_end_offset == 30


def test_after_a_full_disk_the_log_goes_on_without_a_hole(bench, full_disk):
    """A short write and ENOSPC: reads continue, nothing half-written stays, offsets are given anew."""
    bench.files = full_disk
    log = bench.open()
    bench.append(log, 2, producer_id=7, producer_epoch=0, base_sequence=0)
    log.sync()
    released = []
    bench.files.room = 150
    for sequence in (2, 3):
        log.append_as_leader(
            bench.batch(1, producer_id=7, producer_epoch=0, base_sequence=sequence),
            leader_epoch=1, now_ms=bench.now_ms, release=lambda: released.append(1),
        )  # fmt: skip
    with pytest.raises(OSError, match="no space"):
        log.write_queued()
    assert released == [1, 1]
    assert [header.base_offset for header in bench.headers(log)] == [0]
    with pytest.raises(KafkaError):
        bench.append(log)
    bench.files.room = 1 << 30
    log.discard_unwritten()
    assert (log.log_end_offset, log.written_offset, log.flushed_offset) == (2, 2, 2)
    info = bench.append(log, 1, producer_id=7, producer_epoch=0, base_sequence=2)
    assert (info.base_offset, info.duplicate) == (2, False)
    log.sync()
    assert [header.base_offset for header in bench.headers(log)] == [0, 2]


def test_a_roll_that_found_no_room_leaves_no_hole(bench, full_disk):
    """Work that failed the first time is tried again before anything is written, however much room there is."""
    bench.files = full_disk
    log = bench.open(LogConfig(segment_bytes=200, index_interval_bytes=0))
    bench.append(log, 1)
    log.sync()
    bench.files.room, count = 0, len(log.segments())
    while len(log.segments()) == count:
        bench.append(log, 1)
    end_offset = log.written_offset
    with pytest.raises(OSError, match="no space"):
        log.write_queued()
    bench.files.names = False
    with pytest.raises(OSError, match="no space"):
        log.discard_unwritten()
    bench.files.room, bench.files.names = 1 << 30, True
    with pytest.raises(OSError, match="no space"):
        log.write_queued()
    assert log.written_offset == end_offset
    log.discard_unwritten()
    assert (log.log_end_offset, log.written_offset) == (end_offset, end_offset)
    assert bench.append(log, 1).base_offset == end_offset
    log.sync()
    assert [header.base_offset for header in bench.headers(log)] == list(range(end_offset + 1))


def test_a_producer_whose_first_batch_found_no_room_begins_with_it_again(bench, full_disk):
    """Its second batch, sent before it knew, is out of order; of a producer in mid-stream any sequence is taken."""
    bench.files = full_disk
    log = bench.open()
    bench.append(log)
    log.sync()
    bench.files.room = 0
    for producer_id, sequence in ((7, 0), (8, 5)):
        bench.append(log, 2, producer_id=producer_id, producer_epoch=0, base_sequence=sequence)
    with pytest.raises(OSError, match="no space"):
        log.write_queued()
    bench.files.room = 1 << 30
    log.discard_unwritten()
    for refused in (2, 1):
        with pytest.raises(KafkaError) as failure:
            bench.append(log, 1, producer_id=7, producer_epoch=0, base_sequence=refused)
        assert failure.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert not bench.append(log, 2, producer_id=7, producer_epoch=0, base_sequence=0).duplicate
    assert not bench.append(log, 2, producer_id=7, producer_epoch=0, base_sequence=2).duplicate
    assert not bench.append(log, 2, producer_id=8, producer_epoch=0, base_sequence=7).duplicate


@pytest.mark.parametrize("damage", [lambda data: b"\xff\xff" + data[2:], lambda data: data[:-1]])
@pytest.mark.parametrize("offset", [3, 6, 8])
def test_a_cut_into_a_segment_whose_transaction_index_is_damaged_is_a_whole_one(bench, offset, damage):
    """The entries are derived from the log before anything goes, and the log goes on, also after a start."""
    log = bench.open()
    expected = [one for one in bench.write_aborted(log, 3) if one.last_offset < offset]
    for _ in range(2):
        log.roll()
        bench.append(log, 5)
    log.close()
    path = Path(f"{log.directory}/{0:020d}.txnindex")
    path.write_bytes(damage(path.read_bytes()))
    log = bench.open()
    log.truncate_to(offset)
    assert (log.log_end_offset, log.written_offset, len(log.segments())) == (offset, offset, 1)
    bench.append(log, 2)
    log.roll()
    assert log.aborted_transactions(0, offset) == expected
    log.close()
    log = bench.open()
    assert log.aborted_transactions(0, offset) == expected
    assert [header.base_offset for header in bench.headers(log)][-1] == offset


# -- in steps -------------------------------------------------------------------------------------------------


def in_steps(log, offset, between=lambda: None):
    """Cut a log as a follower does, a step in each turn of the loop; the offsets of the steps, None where one only read."""
    steps = []
    while not steps or steps[-1] is None or steps[-1] > offset:
        if steps:
            between()
        steps.append(log.next_cut(offset))
        if steps[-1] is not None:
            log.truncate_to(steps[-1])
    return steps


def state_of(bench, log):
    """All that a cut may change."""
    producers = log.producer_state
    bases = [segment.base_offset for segment in log.segments() if segment.size_bytes]
    ends = log.log_start_offset, log.log_end_offset, producers.end_offset, producers.first_unstable_offset
    aborted = log.aborted_transactions(0, 10**6)
    return bench.headers(log), bases, ends, dict(producers.entries), log.leader_epochs.entries, aborted


@pytest.mark.parametrize(
    "meanwhile", ["nothing", "retention", "a roll", "another cut", "a new beginning", "refused batches"]
)
@given(seed=st.integers(0, 999), share=st.floats(0, 1))
@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_cut_in_steps_leaves_what_one_at_once_would(bench, monkeypatch, meanwhile, seed, share):
    """The loop may do anything else to the log between two of them."""
    monkeypatch.setattr(replaying, "BATCHES_PER_STEP", 3)
    made = []
    for stepwise in (False, True):
        bench.begin_anew()
        bench.now_ms = 1_700_000_000_000
        log = bench.open(LogConfig(segment_bytes=1200, index_interval_bytes=200))
        for epoch in (1, 2):
            bench.write_mixed(log, 25, epoch=epoch, seed=seed)
        log.sync()
        first = log.segments()[1].base_offset
        offset = first + int(share * (log.log_end_offset - first))
        pending = [meanwhile]

        def disturb(log=log, pending=pending, first=first):
            if pending:
                disturb_once(bench, log, pending.pop(), first)

        if stepwise:
            in_steps(log, offset, disturb)
        disturb()
        log.truncate_to(offset)
        made.append(state_of(bench, log))
        for segment in log.segments():
            times = [
                one.max_timestamp for one in made[-1][0] if segment.base_offset <= one.base_offset < segment.end_offset
            ]
            assert segment.max_timestamp_ms == max(times, default=-1)
        log.abandon()
    assert made[0] == made[1]


def disturb_once(bench, log, what, first):
    """Something that happens to the log of a follower while it is being cut."""
    if what == "retention":
        log.delete_local_before(first)
    elif what == "a roll":
        log.roll()
    elif what == "another cut":
        log.truncate_to(first)
    elif what == "a new beginning":
        log.truncate_fully_and_start_at(7, [], None, log_start_offset=0)
    elif what == "refused batches":
        bench.append(log, 1, epoch=3)
        log.tail.discard_queued()
        log.discard_unwritten()


def test_a_step_of_a_cut_takes_few_segments_and_reads_few_batches(bench, monkeypatch):
    """All at once they held the event loop for seconds: each segment costs syncs of its directory."""
    log = bench.open()
    for number in range(12):
        bench.append(log, 1, producer_id=7, producer_epoch=0, base_sequence=number)
        log.roll()
    for number in range(12, 12 + 3 * replaying.BATCHES_PER_STEP):
        bench.append(log, 1, producer_id=7, producer_epoch=0, base_sequence=number)
    log.sync()
    syncs, plain = [], type(bench.files).sync_directory
    monkeypatch.setattr(
        type(bench.files), "sync_directory", lambda files, path: (syncs.append(path), plain(files, path))
    )
    most = []

    def count():
        most.append(len(syncs))
        syncs.clear()

    end = log.log_end_offset - 1
    with monkeypatch.context() as context:
        context.setattr(log._parts.snapshots.__class__, "state_at", None)  # the last step reads nothing any more
        assert in_steps(log, end) == [None, None, end]
    assert log.producer_state.entries[7].last_sequence == end - 1
    syncs.clear()
    steps = in_steps(log, 1, count)
    assert steps[-1] == 1
    assert max(most) <= 8


def test_a_cut_reads_few_batches_for_the_largest_timestamp_where_that_is_an_early_one(bench, monkeypatch):
    """The last time entry is of the first batch then: to read on from there took seconds."""
    log = bench.open()
    bench.append(log, 1, timestamp_ms=bench.now_ms)
    for _ in range(500):
        bench.append(log, 1, timestamp_ms=10**12)
    log.sync()
    passed, plain = [], segments.scan_within
    monkeypatch.setattr(segments, "scan_within", lambda *span: (passed.append(1) or one for one in plain(*span)))
    log.truncate_to(499)
    assert len(passed) < 100
    assert log.segments()[0].max_timestamp_ms == bench.now_ms


def test_a_log_without_producers_is_not_read_to_be_cut(log, monkeypatch):
    """There were none before either: the metadata log has none, and cuts of it have no steps."""
    monkeypatch.setattr(snapshots.ProducerSnapshots, "_steps_to", None)
    assert in_steps(log, 15) == [15]
    assert log.producer_state.end_offset == log.log_end_offset == 14


def test_a_segment_that_left_while_it_was_read_ends_the_step_and_the_next_one_begins_anew(bench, monkeypatch):
    """A file that is gone says nothing about the disk."""
    monkeypatch.setattr(replaying, "BATCHES_PER_STEP", 1)
    log = bench.open()
    for number in range(12):
        bench.append(log, 1, producer_id=7, producer_epoch=0, base_sequence=number)
        if number in {3, 7}:
            log.roll()
    log.sync()
    for offset in (4, 8):
        bench.files.unlink(f"{bench.directory}/{offset:020d}.snapshot")
    assert log.next_cut(11) is None
    assert log.next_cut(11) is None
    log.delete_local_before(8)
    while (cut := log.next_cut(11)) is None:
        pass
    log.truncate_to(cut)
    assert (log.log_end_offset, log.producer_state.entries[7].last_sequence) == (11, 10)


def test_producers_that_were_read_before_another_cut_are_read_again(bench, monkeypatch):
    """The batches below the offset are others by then, in the same segment; the producers were forgotten meanwhile."""
    monkeypatch.setattr(replaying, "BATCHES_PER_STEP", 1)
    log = bench.open()
    for number in range(10):
        bench.append(log, 1, producer_id=7, producer_epoch=0, base_sequence=number)
    log.sync()
    while log.next_cut(8) is None:
        pass
    log.producer_state.remove_expired(10**15, 1)
    log.truncate_to(3)
    for number in range(7):
        bench.append(log, 1, producer_id=9, producer_epoch=0, base_sequence=number)
    log.sync()
    assert in_steps(log, 8)[-1] == 8
    assert {one.producer_id: one.last_sequence for one in log.producer_state.entries.values()} == {
        7: 2,
        9: 4,
    }  # as the log has them
