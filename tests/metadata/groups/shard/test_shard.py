"""All groups of a partition."""

import pytest

from stratalog.metadata.coordination import CoordinatorShard, Now, Producer
from stratalog.metadata.groups.classic.group import ClassicGroup
from stratalog.metadata.groups.group import GroupRequest, GroupSettings
from stratalog.metadata.groups.group_events import DeleteGroup, SettingsChanged, TopicsChanged
from stratalog.metadata.groups.shard.shard import GroupShard
from stratalog.metadata.image.image import EMPTY_IMAGE
from stratalog.wire.errors import Corrupt, ErrorCode
from stratalog.wire.messages.heartbeat import HeartbeatRequest
from stratalog.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from stratalog.wire.records.group import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    encode_key,
    encode_value,
)

DAY_MS = 86_400_000


def test_it_is_a_coordinator_shard():
    """Its driver knows it by the common protocol."""
    shard: CoordinatorShard = GroupShard(0, GroupSettings(), EMPTY_IMAGE)
    assert (shard.deadline(), shard.parked()) == (None, [])


def test_offsets_make_a_group(classic_world):
    """One without members, that is also there after a restart."""
    world = classic_world()
    assert world.commit_offset() == 0
    assert (world.state, world.group.protocol_type) == ("Empty", "")
    world.restart()
    assert world.state == "Empty"
    assert world.shard.offsets.has_offsets("g")


def test_a_group_of_offsets_that_was_deleted_is_not_there_after_a_restart(classic_world):
    """The log may still have its offsets; behind them stand their tombstones, and no record of the group itself."""
    world = classic_world()
    world.commit_offset()
    world.commit_offset("other")
    world.ask("delete", DeleteGroup())
    assert "g" not in world.shard.groups
    world.restart()
    assert list(world.shard.groups) == ["other"]


def test_groups_of_offsets_that_are_left_are_not_made_anew_at_a_load(classic_world):
    """100,000 of them took a second, in one turn of the loop."""
    world = classic_world()
    world.commit_offset()
    group = world.shard.groups["g"]
    world.shard.loaded(Now(0, 0))
    assert world.shard.groups["g"] is group


def test_members_take_over_a_group_of_offsets(classic_world):
    """And their commits are theirs."""
    world = classic_world()
    world.commit_offset()
    generation = world.stable("a")
    assert world.commit_offset() == ErrorCode.UNKNOWN_MEMBER_ID
    assert world.commit_offset(member_id="client-a", generation=generation) == 0


def test_the_log_is_applied(classic_world):
    """Groups, tombstones; a group whose record is deleted but whose offsets are not goes on without members."""
    world = classic_world()
    world.stable("a")
    world.commit_offset(member_id="client-a", generation=1)
    world.log.append(type(world.log[0])(encode_key(GroupMetadataKey(group="g")), None))
    world.restart()
    assert (world.state, world.ids, world.group.protocol_type) == ("Empty", [], "")


def test_records_of_unknown_types_are_skipped():
    """Share and streams groups, and what later releases write; they are counted."""
    shard = GroupShard(0, GroupSettings(), EMPTY_IMAGE)
    shard.replay(b"\0\x11\0\x01g", b"\0\0", offset=0, producer=None)
    shard.replay(b"\x7f\xff", None, offset=1, producer=None)
    assert (shard.records_skipped, shard.groups) == (2, {})


@pytest.mark.parametrize(
    ("key", "value"),
    [("0002 0005", "0003"), ("0002 000167", "0009"), ("0002 000167", "00"), ("0001 0005", "0000")],
)
def test_a_damaged_record(key, value):
    """The error names the offset."""
    shard = GroupShard(0, GroupSettings(), EMPTY_IMAGE)
    with pytest.raises(Corrupt):
        shard.replay(bytes.fromhex(key), bytes.fromhex(value), offset=77, producer=None)


def test_old_versions_of_records():
    """Without time of the last state and rebalance time-out: the session's is taken, the time is not known."""
    shard = GroupShard(0, GroupSettings(), EMPTY_IMAGE)
    member = {
        "member_id": "m",
        "client_id": "c",
        "client_host": "/h",
        "session_timeout": 7_000,
        "subscription": b"",
        "assignment": b"a",
    }
    value = GroupMetadataValue(
        protocol_type="consumer", generation=3, protocol="range", leader="m", members=[MemberMetadata(**member)]
    )
    shard.replay(encode_key(GroupMetadataKey(group="g")), encode_value(value, 0), offset=0, producer=None)
    shard.loaded(Now(0, 0))
    group = shard.groups["g"]
    assert (group.state, group.generation, group.members.rebalance_timeout_ms) == ("Stable", 3, 7_000)
    assert shard.deadline() == 7_000


def test_offsets_expire_and_so_does_the_group(classic_world):
    """Its offsets when it has been empty for the retention, itself when nothing is left."""
    world = classic_world(offsets_retention_ms=7 * DAY_MS)
    world.stable("a")
    world.commit_offset(member_id="client-a", generation=1)
    world.leave(("client-a", None))
    world.advance(7 * DAY_MS - 600_000)
    assert world.state == "Empty"
    world.advance(2 * 600_000)
    assert world.shard.groups == {}
    assert [value for _, value in world.log[-2:]] == [None, None]
    world.restart()
    assert world.shard.groups == {}


def test_a_group_with_members_is_kept(classic_world):
    """Its offsets stay for 45 s under a retention of 1 s, because it has a member."""
    world = classic_world(offsets_retention_ms=1_000, offsets_retention_check_interval_ms=1_000)
    world.stable("a")
    world.commit_offset(member_id="client-a", generation=1)
    for _ in range(5):
        world.advance(9_000)
        world.beat("client-a", 1)
    assert world.state == "Stable"
    assert world.shard.offsets.has_offsets("g")


def test_a_newcomer_keeps_its_group(classic_world):
    """A group that was only asked for an id is not forgotten while that is good."""
    world = classic_world(offsets_retention_check_interval_ms=1_000)
    world.join("a", version=9)
    world.advance(5_000)
    assert world.rejoin("a", "client-a", version=9) is None
    world = classic_world(offsets_retention_check_interval_ms=1_000)
    world.join("a", version=9)
    world.advance(12_000)
    assert world.shard.groups == {}
    assert world.log == [], "it never was in the log"


def test_deleted_topics_take_their_offsets_along(classic_world):
    """By the id that they had."""
    world = classic_world()
    world.commit_offset()
    world.take(world.shard.step(TopicsChanged(EMPTY_IMAGE, {bytes(15) + b"t": "t"}), world.now))
    assert world.shard.deadline() == 0
    world.take(world.shard.due(world.now))
    assert world.shard.deadline() != 0
    assert not world.shard.offsets.has_offsets("g")
    assert world.log[-1].value is None


def test_changed_settings_hold_for_existing_groups(classic_world):
    """For groups that are there, too."""
    world = classic_world()
    world.stable("a")
    world.take(world.shard.step(SettingsChanged(GroupSettings(max_size=1)), world.now))
    assert world.join("b").error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_events_are_counted(classic_world):
    """Groups by type and state; rebalances and lost sessions, also of groups that are gone."""
    world = classic_world()
    world.stable("a")
    world.commit_offset("x")
    world.commit_offset("y")
    assert world.shard.figures().states == {("classic", "Stable"): 1, ("classic", "Empty"): 2}
    world.advance(1_000_000)
    world.stable("b")
    figures = world.shard.figures()
    assert (figures.rebalances_completed, figures.sessions_expired, figures.records_skipped) == (2, 1, 0)


def _join(group_id):
    return JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        member_id="",
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"\0\0\0\0\0\0")],
    )


def test_heartbeats_may_go_a_shorter_way(classic_world):
    """As long as they concern only the member; then they say the same."""
    world = classic_world()
    assert world.shard.heartbeat(_beat("a", 1), world.now) is None, "no group"
    world.stable("a", "b")
    world.advance(5_000)
    for member_id, generation in (("client-a", 1), ("client-a", 0)):
        assert world.shard.heartbeat(_beat(member_id, generation), world.now) == world.beat(member_id, generation)
    assert world.shard.heartbeat(_beat("client-x", 1), world.now) is None, "a stranger"
    world.advance(5_000)
    assert world.ids == ["client-a"]
    world.group.wake_ms = 1 << 40
    assert world.shard.heartbeat(_beat("client-a", 1), world.now) is None, "a deadline comes nearer"


def _beat(member_id, generation):
    return HeartbeatRequest(group_id="g", generation_id=generation, member_id=member_id)


def test_ten_thousand_groups():
    """Time passes over those that have nothing to do: one look at each a session, some at a time."""
    shard = GroupShard(0, GroupSettings(initial_rebalance_delay_ms=0), EMPTY_IMAGE)
    for number in range(10_000):
        group_id = str(number)
        shard.step(GroupRequest(number, group_id, 3, _join(group_id), fresh_id=group_id), Now(0, 0))
    looks, now = 0, Now(0, 0)
    while shard.deadline() == 0:
        assert len(shard.due(now)) <= 500
        looks += 1
    assert looks == 20
    for moment in range(1, 10_000, 500):
        for number in range(0, 10_000, 97):
            request = HeartbeatRequest(group_id=str(number), generation_id=1, member_id=f"-{number}")
            (reply,) = shard.step(GroupRequest(0, str(number), 4, request), Now(moment, 0))
            assert reply.response.error_code == 0
        assert shard.due(Now(moment, 0)) == []
    assert isinstance(shard.groups["0"], ClassicGroup)


def test_transactional_offsets_alone_keep_a_group(classic_world):
    """Also while the log is read."""
    shard = GroupShard(0, GroupSettings(), EMPTY_IMAGE)
    key = encode_key(OffsetCommitKey(group="g", topic="t", partition=0))
    value = encode_value(OffsetCommitValue(offset=1, metadata="", commit_timestamp=1))
    shard.replay(key, value, offset=0, producer=Producer(7, 0))
    assert shard.groups["g"].state == "Empty"
    assert not shard.offsets.has_offsets("g")
    shard.replay_marker(Producer(7, 0), commit=True, offset=1)
    assert shard.offsets.has_offsets("g")
