"""Tests of hot/replica_state.py."""

import pytest

from stratalog.hot.replica_state import IsrChange, ReplicaState
from stratalog.wire.errors import ErrorCode, KafkaError


def leader(*, replicas=(1, 2), in_sync=(1, 2), end=0, **options) -> ReplicaState:
    options = {"leader_epoch": 3, "epoch_start_offset": 0, **options}
    return ReplicaState(1, replicas=replicas, in_sync=in_sync, leader_end_offset=end, **options)


def test_the_high_watermark_waits_for_the_next_fetch_of_the_follower():
    """After m1: 1/0; a fetch at 0 leaves 0; the fetch at 1 proves the follower has m1, so 1."""
    state = leader()
    assert not state.leader_advanced(1)
    assert (state.leader_end_offset, state.high_watermark) == (1, 0)
    assert not state.follower_fetched(2, 0, leader_log_end_offset=1, now_ms=1)
    assert state.high_watermark == 0
    assert state.follower_fetched(2, 1, leader_log_end_offset=1, now_ms=2)
    assert state.high_watermark == 1


def test_a_single_replica_is_its_own_quorum():
    """The high watermark is what the leader has flushed."""
    state = leader(replicas=(1,), in_sync=(1,))
    assert state.leader_advanced(7)
    assert state.high_watermark == 7


def test_the_high_watermark_is_the_smallest_log_end_of_the_in_sync_set_and_never_falls():
    """A member that comes back with less does not pull it down."""
    state = leader(replicas=(1, 2, 3), in_sync=(1, 2, 3), end=10)
    state.follower_fetched(2, 8, leader_log_end_offset=10, now_ms=1)
    assert state.high_watermark == 0
    state.follower_fetched(3, 6, leader_log_end_offset=10, now_ms=1)
    assert state.high_watermark == 6
    state.follower_fetched(3, 2, leader_log_end_offset=10, now_ms=2)
    assert state.high_watermark == 6


def test_too_few_in_sync_replicas_refuse_before_the_append():
    """NOT_ENOUGH_REPLICAS; after the append the other code."""
    state = leader(in_sync=(1,), end=5)
    state.check_enough_replicas(1)
    with pytest.raises(KafkaError) as caught:
        state.check_enough_replicas(2)
    assert caught.value.code is ErrorCode.NOT_ENOUGH_REPLICAS
    assert state.is_acknowledged(5, 1)
    assert not state.is_acknowledged(6, 1)
    with pytest.raises(KafkaError) as caught:
        state.is_acknowledged(5, 2)
    assert caught.value.code is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


def test_a_follower_joins_when_it_has_the_high_watermark_and_the_epoch_start():
    """And counts from the moment it is proposed."""
    state = leader(in_sync=(1,), end=10, epoch_start_offset=9)
    assert state.high_watermark == 10
    state.follower_fetched(2, 9, leader_log_end_offset=10, now_ms=1)
    assert state.expansion(2) is None
    state.follower_fetched(2, 10, leader_log_end_offset=10, now_ms=1)
    assert state.expansion(2) == IsrChange((1, 2), grows=True)
    assert state.expansion(2) is None
    assert not state.leader_advanced(12)
    assert state.maximal_in_sync == (1, 2)
    state.isr_changed((1, 2), 1)
    assert state.in_sync == (1, 2)
    assert not state.isr_changed((1,), 0)


def test_a_refused_change_leaves_the_old_set():
    """The proposed member stops counting."""
    state = leader(in_sync=(1,), end=0)
    state.follower_fetched(2, 0, leader_log_end_offset=0, now_ms=1)
    assert state.expansion(2) is not None
    state.isr_change_failed()
    assert state.maximal_in_sync == (1,)
    assert state.leader_advanced(5)


def test_a_slow_follower_leaves_after_replica_lag_time_max_ms():
    """While the change is under way it still counts."""
    state = leader(end=10, now_ms=0)
    state.follower_fetched(2, 4, leader_log_end_offset=10, now_ms=100)
    assert state.shrinking(30_000, 30_000) is None
    assert state.shrinking(30_001, 30_000) == IsrChange((1,), grows=False)
    assert not state.leader_advanced(11)
    assert state.isr_changed((1,), 1)
    assert state.high_watermark == 11


def test_a_follower_is_caught_up_if_it_asks_for_what_the_leader_had_at_its_previous_fetch():
    """A steady writer does not push out a follower that always trails by one fetch."""
    state = leader(end=10, now_ms=0)
    state.follower_fetched(2, 5, leader_log_end_offset=10, now_ms=20_000)
    state.leader_advanced(20)
    state.follower_fetched(2, 10, leader_log_end_offset=20, now_ms=40_000)
    assert state.follower(2).last_caught_up_ms == 20_000
    assert state.shrinking(50_000, 30_000) is None


def test_an_idle_follower_at_the_end_stays_in_sync():
    """Having everything is what counts, not when it last asked."""
    state = leader(end=10, now_ms=0)
    state.follower_fetched(2, 10, leader_log_end_offset=10, now_ms=1)
    assert state.shrinking(10**9, 30_000) is None


def test_a_new_leader_is_established_when_its_high_watermark_reaches_its_epoch():
    """Before that ListOffsets answers OFFSET_NOT_AVAILABLE."""
    state = leader(end=10, epoch_start_offset=10, high_watermark=6)
    assert not state.epoch_established
    state.follower_fetched(2, 10, leader_log_end_offset=10, now_ms=1)
    assert state.epoch_established


def test_a_broker_outside_of_the_assignment_is_refused():
    """A broker outside of the assignment cannot move anything."""
    with pytest.raises(KafkaError) as caught:
        leader().follower_fetched(9, 0, leader_log_end_offset=0, now_ms=0)
    assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_min_insync_replicas_counts_at_most_the_replicas():
    """min.insync.replicas=2 on a partition of one replica, as in Kafka 4: it counts as 1."""
    state = leader(replicas=(1,), in_sync=(1,), end=5)
    state.check_enough_replicas(2)
    assert state.is_acknowledged(5, 2)
    state = leader(replicas=(1, 2), in_sync=(1,), end=5)
    with pytest.raises(KafkaError):
        state.check_enough_replicas(3)
