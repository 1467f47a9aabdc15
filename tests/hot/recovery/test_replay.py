"""Tests of hot/recovery/replay.py."""

from stratalog.hot.log.log import AppendOrigin
from stratalog.hot.recovery.replay import replay_segment, replay_steps
from stratalog.hot.state.producer_state import ProducerStateManager


def test_replaying_the_log_gives_the_state_that_appending_gave(bench):
    """Over several segments, from the start and from any batch border."""
    log = bench.open()
    sequence = 0
    for number in range(12):
        bench.append(log, 2, producer_id=7, producer_epoch=0, base_sequence=sequence, transactional=True)
        sequence += 2
        if number % 3 == 2:
            marker = bench.marker(commit=number % 2 == 0)
            log.append_as_leader(marker, leader_epoch=1, now_ms=0, origin=AppendOrigin.COORDINATOR)
        if number % 4 == 3:
            log.roll()
    log.write_queued()
    state = ProducerStateManager()
    list(replay_steps(state, log._segments, 9))
    list(replay_steps(state, log._segments, log.log_end_offset))
    assert state.entries == log.producer_state.entries
    assert state.end_offset == log.log_end_offset
    fresh = ProducerStateManager()
    aborted = [found for segment in log._segments for found in replay_segment(fresh, segment, 10**9)]
    assert aborted == log.aborted_transactions(0, log.log_end_offset)
    assert len(aborted) == 2


def test_replay_stops_at_the_offset_asked_for(bench):
    """The state of an earlier moment."""
    log = bench.open()
    for sequence in range(4):
        bench.append(log, producer_id=7, producer_epoch=0, base_sequence=sequence)
    log.write_queued()
    state = ProducerStateManager()
    list(replay_steps(state, log._segments, 2))
    assert (state.entries[7].last_sequence, state.end_offset) == (1, 2)
