"""A consumer that stalls beyond its time-outs: others get its partitions, and what it says afterwards is refused."""

import time

import pytest

from stratalog.broker.runtime.clock import SystemClock

SETTINGS = {
    "offsets_topic_num_partitions": 1,
    "group_initial_rebalance_delay_ms": 0,
    "group_min_session_timeout_ms": 1_000,
    "group_consumer_session_timeout_ms": 10_000,
    "group_consumer_min_session_timeout_ms": 1_000,
    "group_consumer_min_heartbeat_interval_ms": 100,
    "group_consumer_assignment_interval_ms": 0,
}


class Hourglass(SystemClock):
    """Time that passes when the test says so, beside what passes of itself."""

    def __init__(self):
        self.passed_seconds = 0.0

    def monotonic(self):
        return time.monotonic() + self.passed_seconds

    def wall_ms(self):
        return super().wall_ms() + int(self.passed_seconds * 1000)


@pytest.fixture
def clock():
    return Hourglass()


@pytest.fixture
def node(start_node, clock):
    node = start_node(clock=clock, **SETTINGS)
    node.create("t", 4)
    return node


@pytest.fixture
def wire(node, wire_to):
    return wire_to(node.port).ready()


@pytest.fixture
def pass_time(node, clock):
    """So many seconds go by: the coordinators' timers are looked at with the new time."""

    def go_by(seconds):
        clock.passed_seconds += seconds

        def look():
            for driver in node.node.groups.drivers():
                driver._fire()

        node.run(look)

    return go_by


def test_a_classic_member_that_is_silent_for_its_session(wire, pass_time):
    """It is thrown out, the other one gets all; heartbeat, sync and commit of the late one are UNKNOWN_MEMBER_ID."""
    stalled, other = wire.stable("g", None, None, session_ms=30_000)
    pass_time(20)
    assert wire.beat(other) == "NONE"
    pass_time(20)
    assert wire.beat(other) == "REBALANCE_IN_PROGRESS"
    again = wire.join("g", other.member_id, session_ms=30_000)
    assert (again.error_code, again.generation_id, again.leader) == (0, other.generation + 1, other.member_id)
    assert [one.member_id for one in again.members] == [other.member_id]
    other = other._replace(generation=again.generation_id)
    assert wire.sync(other, {other.member_id: b"all"}).assignment == b"all"
    assert wire.beat(stalled) == "UNKNOWN_MEMBER_ID"
    assert wire.sync(stalled).error_code == 25
    assert wire.call(wire.join_request("g", stalled.member_id), 9).error_code == 25
    assert wire.commit("g", 5, member=stalled.member_id, epoch=stalled.generation) == "UNKNOWN_MEMBER_ID"
    assert wire.commit("g", 5, member=other.member_id, epoch=stalled.generation) == "ILLEGAL_GENERATION"
    assert wire.commit("g", 6, member=other.member_id, epoch=other.generation) == "NONE"
    assert wire.offsets("g") == [("t", 0, 6, "", "NONE")]


def test_a_classic_member_that_does_not_join_in_time(wire, pass_time):
    """It heartbeats, but does not come to the rebalance (max.poll.interval.ms): the rebalance ends without it."""
    (stalled,) = wire.stable("g", None, session_ms=60_000, rebalance_ms=20_000)
    late = wire.another()
    member_id = late.id_for("g")
    late.send(late.join_request("g", member_id, rebalance_ms=20_000), 9)
    while wire.beat(stalled) == "NONE":
        time.sleep(0.002)
    pass_time(15)
    assert wire.beat(stalled) == "REBALANCE_IN_PROGRESS"
    pass_time(10)
    answer = late.answer()
    assert (answer.error_code, answer.leader, len(answer.members)) == (0, member_id, 1)
    assert wire.beat(stalled) == "UNKNOWN_MEMBER_ID"
    assert wire.commit("g", 5, member=stalled.member_id, epoch=stalled.generation) == "UNKNOWN_MEMBER_ID"


def test_a_classic_leader_that_does_not_sync_in_time(wire, pass_time, member_of):
    """A member that has not synced within the rebalance time-out is thrown out; the others join again."""
    leader = wire.join("g", rebalance_ms=20_000)
    assert leader.error_code == 0
    pass_time(25)
    gone = member_of("g", leader.member_id, leader.generation_id)
    assert wire.beat(gone) == "UNKNOWN_MEMBER_ID"
    assert wire.described("g").group_state == "Empty"
    (fresh,) = wire.stable("g", None)
    assert fresh.generation > leader.generation_id


def test_a_static_member_that_comes_back_after_its_session(wire, pass_time):
    """The instance is free again: it joins as a new member, its old id is fenced or unknown."""
    (stalled,) = wire.stable("g", "instance", session_ms=30_000)
    pass_time(40)
    assert wire.described("g").group_state == "Empty"
    assert wire.beat(stalled) == "UNKNOWN_MEMBER_ID"
    (fresh,) = wire.stable("g", "instance", session_ms=30_000)
    assert fresh.member_id != stalled.member_id
    assert wire.beat(stalled) == "FENCED_INSTANCE_ID"


def owned_by(answer):
    return [(one.topic_id, one.partitions) for one in answer.assignment.topic_partitions]


def test_a_consumer_member_that_is_silent_for_its_session(wire, pass_time):
    """KIP-848: the other one gets all partitions; the late one is UNKNOWN_MEMBER_ID and begins anew with epoch 0."""
    stalled = wire.consume("g", "stalled", 0, topics=["t"])
    pass_time(8)
    other = wire.consume("g", "other", 0, topics=["t"])
    assert other.assignment.topic_partitions == []
    pass_time(8)
    answer = wire.consume("g", "other", other.member_epoch, owned=[])
    assert (answer.error_code, owned_by(answer)[0][1]) == (0, [0, 1, 2, 3])
    assert answer.member_epoch > other.member_epoch
    late = wire.consume("g", "stalled", stalled.member_epoch)
    assert late.error_code == 25
    assert wire.commit("g", 5, member="stalled", epoch=stalled.member_epoch) == "UNKNOWN_MEMBER_ID"
    fresh = wire.consume("g", "stalled", 0, topics=["t"])
    assert (fresh.error_code, fresh.member_epoch > answer.member_epoch) == (0, True)


@pytest.mark.story
def test_a_consumer_member_that_does_not_give_away_in_time(wire, pass_time):
    """It heartbeats and keeps partitions that it must give away for longer than its rebalance time-out: it is fenced, the others
    get its partitions, and it comes back with nothing.
    """
    stalled = wire.consume("g", "stalled", 0, topics=["t"], rebalance_timeout_ms=20_000)
    own = owned_by(stalled)
    other = wire.consume("g", "other", 0, topics=["t"])
    asked = wire.consume("g", "stalled", stalled.member_epoch, owned=own)
    kept = owned_by(asked)
    assert len(kept[0][1]) == 2
    for _ in range(3):
        pass_time(6)
        for member, epoch in (("stalled", asked.member_epoch), ("other", other.member_epoch)):
            assert wire.consume("g", member, epoch).error_code == 0
    pass_time(6)
    assert wire.consume("g", "stalled", asked.member_epoch).error_code == 25
    answer = wire.consume("g", "other", other.member_epoch, owned=[])
    assert owned_by(answer)[0][1] == [0, 1, 2, 3]
    assert wire.commit("g", 5, member="stalled", epoch=asked.member_epoch) == "UNKNOWN_MEMBER_ID"
    assert wire.commit("g", 6, member="other", epoch=answer.member_epoch) == "NONE"


def test_a_consumer_member_with_a_wrong_epoch_is_fenced(wire):
    """FENCED_MEMBER_EPOCH for one that was never given, STALE_MEMBER_EPOCH for its commits."""
    member = wire.consume("g", "m", 0, topics=["t"])
    assert wire.consume("g", "m", member.member_epoch + 5).error_code == 110
    assert wire.commit("g", 5, member="m", epoch=member.member_epoch + 5) == "STALE_MEMBER_EPOCH"
