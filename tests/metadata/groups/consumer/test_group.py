"""A consumer group as its shard sees it: deadlines, offsets, deletion, fail-over."""

import pytest

from stratalog.metadata.coordination import Now
from stratalog.metadata.groups.consumer.member import MemberState
from stratalog.metadata.groups.group import GroupType
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.topic import ZERO_UUID

SESSION_MS = 45_000


def _code(call, *arguments, **fields):
    with pytest.raises(KafkaError) as caught:
        call(*arguments, **fields)
    return caught.value.code


@pytest.fixture
def world(group_world):
    """One topic of four partitions."""
    return group_world({"a": 4})


def test_a_consumer_group_describes_itself(world):
    """A group of consumers, which subscribes to what its members do."""
    world.join("x", "a")
    group = world.group
    assert (group.type, group.state, group.protocol_type) == (GroupType.CONSUMER, "Stable", "consumer")
    assert group.subscribes("a")
    assert not group.subscribes("b")
    assert group.empty_since_ms is None
    assert not group.parked()
    world.beat("x", -1)
    assert group.empty_since_ms == -1
    assert not group.subscribes("a")


def test_a_silent_member_is_fenced_at_the_end_of_its_session(world):
    """A member that is not heard of for the session time-out is fenced; heartbeats push that back."""
    world.join("x", "a")
    world.join("y", "a")
    world.advance(SESSION_MS - 1)
    world.beat("x", 1)
    assert set(world.facts.members) == {"x", "y"}
    world.advance(1)
    assert set(world.facts.members) == {"x"}
    assert _code(world.beat, "y", 2) is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.given(world.beat("x", 1, owned={"a": [0, 1]})) == {"a": {0, 1, 2, 3}}


def test_members_with_long_ids_that_are_late_together_go_by_an_append_each(world):
    """All are late at once after a load. An append that is refused costs the coordinator's shard its state, again and again."""
    for number in range(100):
        world.join(f"{number:03}" + "m" * 30_000, "a")
    world.reload()
    before, sizes = len(world.log), []
    world.now = Now(world.now.monotonic_ms + SESSION_MS, world.now.wall_ms + SESSION_MS)
    while world.facts.members:
        (write,) = world.shard.due(world.now)
        sizes.append(sum(len(key) for key, _ in write.records))
        world.take([write])
    assert len(sizes) > 1
    assert max(sizes) < 2 << 20
    assert len(world.log) > before


def test_commit_is_no_heartbeat(world):
    """An offset commit keeps no session alive."""
    world.join("x", "a")
    world.group.offset_committed("x", world.now)
    world.advance(SESSION_MS)
    assert not world.facts.members


def test_partitions_not_given_up_in_time(world):
    """A member that keeps a partition longer than its rebalance time-out is fenced, so that others get it."""
    world.join("x", "a", timeout_ms=20_000)
    world.join("y", "a")
    world.beat("x", 1)
    world.advance(10_000)
    world.beat("x", 1, owned={"a": [0, 1, 2, 3]})
    world.beat("y", 2)
    world.advance(9_999)
    assert "x" in world.facts.members
    world.advance(1)
    assert set(world.facts.members) == {"y"}
    assert world.given(world.beat("y", 2)) == {"a": {0, 1, 2, 3}}


def test_given_up_in_time(world):
    """The time-out is over once the partitions are given up."""
    world.join("x", "a", timeout_ms=20_000)
    world.join("y", "a")
    world.beat("x", 1)
    world.beat("x", 1, owned={"a": [0, 1]})
    world.advance(30_000)
    world.beat("x", 2)
    assert "x" in world.facts.members


def test_time_outs_of_a_group_hold_within_the_bounds_of_the_broker(world):
    """A group's own time-outs hold, within the bounds of the broker."""
    world.set(consumer_min_session_timeout_ms=1_000, consumer_max_session_timeout_ms=50_000)
    world.configure("g", consumer_session_timeout_ms="2000", consumer_heartbeat_interval_ms="7000")
    world.join("x", "a")
    assert world.answer.heartbeat_interval_ms == 7_000
    world.advance(1_999)
    assert world.facts.members
    world.advance(1)
    assert not world.facts.members


def test_a_group_read_from_the_log_is_the_same(world):
    """A group made from the log has the members, epochs and assignments that it had; sessions begin anew."""
    world.join("x", "a", timeout_ms=20_000)
    world.join("y", "a", rack_id="r")
    world.beat("x", 1)
    world.advance(15_000)
    before = world.facts
    world.reload()
    assert world.facts is not before
    assert (world.facts.members, world.facts.targets) == (before.members, before.targets)
    assert world.member("x").state is MemberState.UNREVOKED_PARTITIONS
    assert world.advance(19_999) == 0
    assert world.advance(1) > 0
    assert set(world.facts.members) == {"y"}


def test_a_group_without_members_is_deleted_from_the_log(world):
    """Only a group without members may be deleted; then nothing of it is left in the log."""
    world.join("x", pattern="a")
    with pytest.raises(KafkaError) as caught:
        world.group.check_delete()
    assert caught.value.code is ErrorCode.NON_EMPTY_GROUP
    world.beat("x", -1)
    world.group.check_delete()
    world.log += world.group.tombstones()
    world.reload()
    assert not world.shard.groups


def test_a_commit_needs_the_epoch_of_its_member(world):
    """The member's own epoch commits anything; a newer one nothing; strangers nothing."""
    world.join("x", "a")
    check = world.group.check_offset_commit
    assert check("x", None, 1, transactional=False, api_version=9) is None
    assert _code(check, "x", None, 2, transactional=False, api_version=9) is ErrorCode.STALE_MEMBER_EPOCH
    assert _code(check, "z", None, 1, transactional=False, api_version=9) is ErrorCode.UNKNOWN_MEMBER_ID
    assert _code(check, "", None, -1, transactional=False, api_version=9) is ErrorCode.UNKNOWN_MEMBER_ID
    assert _code(check, "x", None, 1, transactional=False, api_version=8) is ErrorCode.UNSUPPORTED_VERSION
    assert check("x", None, 1, transactional=True, api_version=3) is None
    assert check("", None, -1, transactional=True, api_version=3) is None


def test_commit_of_an_older_epoch(world):
    """An older epoch commits the partitions that the member had then and still has, be it to give them up."""
    world.join("x", "a")
    world.join("y", "a")
    world.beat("x", 1)
    world.beat("x", 1, owned={"a": [0, 1]})
    world.beat("y", 2)
    check = world.group.check_offset_commit("x", None, 1, transactional=False, api_version=9)
    topic = world.id("a")
    check("a", topic, 0)
    check("a", ZERO_UUID, 0)
    assert _code(check, "a", ZERO_UUID, 2) is ErrorCode.STALE_MEMBER_EPOCH
    assert _code(check, "none", ZERO_UUID, 0) is ErrorCode.STALE_MEMBER_EPOCH
    assert _code(check, "a", topic, 2) is ErrorCode.STALE_MEMBER_EPOCH
    assert _code(check, "b", b"b" * 16, 0) is ErrorCode.STALE_MEMBER_EPOCH
    newer = world.group.check_offset_commit("y", None, 1, transactional=False, api_version=9)
    assert _code(newer, "a", topic, 2) is ErrorCode.STALE_MEMBER_EPOCH


def test_commit_while_giving_up(world):
    """A partition that is being given up can still be committed: that is what the time is for."""
    world.join("x", "a")
    world.join("y", "a")
    world.beat("x", 1)
    world.beat("y", 2)
    assert world.group.check_offset_commit("x", None, 1, transactional=False, api_version=9) is None


def test_commit_to_an_empty_group(world):
    """Without members anybody commits without an epoch."""
    world.join("x", "a")
    world.beat("x", -1)
    assert world.group.check_offset_commit("", None, -1, transactional=False, api_version=2) is None


def test_a_member_names_its_epoch_to_read_offsets(world):
    """Members name their epoch to read offsets; others name none."""
    world.join("x", "a")
    check = world.group.check_offset_fetch
    check(None, -1)
    check("x", 1)
    assert _code(check, "x", 0) is ErrorCode.STALE_MEMBER_EPOCH
    assert _code(check, "z", 1) is ErrorCode.UNKNOWN_MEMBER_ID
