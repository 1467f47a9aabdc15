"""Tests of hot/log_truncate.py."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stratalog.hot.config import LogConfig
from stratalog.hot.leader_epochs import EpochEntry
from stratalog.wire.batch import Record, build_batch

COMPACTED = LogConfig(cleanup_policy=frozenset({"compact"}))


@pytest.fixture
def log(bench):
    """Segments [0,10) [10,20) [20,30) and an empty active one."""
    log = bench.open()
    bench.fill(log, 3)
    log.sync()
    return log


def names(log) -> list[str]:
    return sorted(entry.name for entry in Path(log.directory).iterdir())


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


def test_truncation_takes_epochs_producers_and_aborted_transactions_back(bench):
    """What the removed batches had implied is void."""
    log = bench.open()
    bench.append(log, 1, epoch=1, producer_id=7, producer_epoch=0, base_sequence=0)
    bench.append(log, 1, epoch=2, producer_id=7, producer_epoch=0, base_sequence=1)
    log.truncate_to(1)
    assert log.leader_epochs.entries == (EpochEntry(1, 0),)
    assert bench.append(log, 1, epoch=3, producer_id=7, producer_epoch=0, base_sequence=1).base_offset == 1


def test_truncation_into_a_gap_ends_the_log_at_the_offset(bench, make_batch):
    """As in Kafka, and after a restart, too: a follower would be sent what it believes to have."""
    for clean in (True, False):
        bench.directory += "x"
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
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_truncation_of_a_log_with_gaps_leaves_what_a_shorter_log_would_be(bench_type, tmp_path_factory, batches, data):
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
            assert log.offset_for_timestamp(bench.now_ms + base, max_offset=expected).offset == base
    assert bench.append(log, 2, epoch=99).base_offset == expected
    log.sync()
    assert [one.base_offset for one in bench.headers(log)] == [one[0] for one in kept] + [expected]


def test_truncation_to_the_end_or_beyond_does_nothing(log):
    """There is nothing to remove."""
    log.truncate_to(30)
    log.truncate_to(99)
    assert log.log_end_offset == 30


def test_a_recovery_point_above_a_truncation_is_void_until_a_new_one_is_stored(bench, log):
    """A crash right after a follower's truncation does not read as lost data."""
    log.truncate_to(12)
    log.abandon()
    log = bench.open(clean=False, recovery_point=30)
    assert (log.log_end_offset, log.recovery.damaged_offset) == (12, None)
    log.recovery_point_stored()
    assert "truncation-checkpoint" not in names(log)
