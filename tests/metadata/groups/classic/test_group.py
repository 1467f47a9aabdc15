"""A classic group as its shard and its offsets see it."""

import time

import pytest

from stratalog.metadata.coordination import Now
from stratalog.metadata.groups.classic.group import ClassicGroup
from stratalog.metadata.groups.classic.members import ClassicMember
from stratalog.metadata.groups.group import Group, GroupSettings, GroupType
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.records.group import GroupMetadataValue, MemberMetadata

SETTINGS = GroupSettings()


def code_of(call, *args, **fields):
    """The error that a check raises, or NONE."""
    try:
        call(*args, **fields)
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE


def commit(group, member_id="", epoch=-1, instance_id=None, *, transactional=False):
    """Whether a commit is taken."""
    return code_of(group.check_offset_commit, member_id, instance_id, epoch, transactional=transactional, api_version=8)


def test_it_is_a_group():
    """The shard knows it by the common protocol."""
    group: Group = ClassicGroup("g", SETTINGS)
    assert (group.type, group.state, group.protocol_type, group.successor) == (GroupType.CLASSIC, "Empty", "", None)
    assert (group.empty_since_ms, group.deadline(), group.tombstones()) == (-1, None, [])


def test_heartbeats_are_answered_by_state_member_and_generation(classic_world):
    """Fine in a stable group and while assignments are computed; the news of a rebalance; strangers and generations."""
    world = classic_world()
    world.join("a")
    world.join("b")
    world.advance(0)
    assert world.beat("client-a", 1) == 0
    world.synced()
    assert world.beat("client-a", 1) == 0
    assert world.beat("client-a", 0) == ErrorCode.ILLEGAL_GENERATION
    assert world.beat("client-x", 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert world.beat("client-a", 1, "i") == ErrorCode.UNKNOWN_MEMBER_ID
    world.join("c")
    assert world.beat("client-a", 1) == ErrorCode.REBALANCE_IN_PROGRESS


def test_commits_of_members(classic_world):
    """In the present generation only; not while assignments are computed, but while a rebalance is prepared."""
    world = classic_world()
    world.join("a")
    world.advance(0)
    group = world.group
    assert commit(group, "client-a", 1) == ErrorCode.REBALANCE_IN_PROGRESS
    world.synced()
    assert commit(group, "client-a", 1) == ErrorCode.NONE
    assert commit(group, "client-a", 0) == ErrorCode.ILLEGAL_GENERATION
    assert commit(group, "client-x", 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(group) == ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(group, "client-a", -1) == ErrorCode.ILLEGAL_GENERATION
    world.join("b")
    assert commit(group, "client-a", 1) == ErrorCode.NONE


def test_commits_in_transactions(classic_world):
    """Old clients do not say who they are; the group's state does not matter."""
    world = classic_world()
    world.join("a")
    world.advance(0)
    group = world.group
    assert commit(group, transactional=True) == ErrorCode.NONE
    assert commit(group, "client-a", 1, transactional=True) == ErrorCode.NONE
    assert commit(group, "client-a", 2, transactional=True) == ErrorCode.ILLEGAL_GENERATION
    assert commit(group, "client-x", 1, transactional=True) == ErrorCode.UNKNOWN_MEMBER_ID


def test_commits_without_members(classic_world):
    """Anybody may, without a generation; a member of old may not."""
    world = classic_world()
    world.stable("a")
    world.leave(("client-a", None))
    assert commit(world.group) == ErrorCode.NONE
    assert commit(world.group, "client-a", 1) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_that_was_replaced_commits_nothing(classic_world):
    """It is fenced."""
    world = classic_world()
    world.stable("a", group_instance_id="i")
    world.join("b", group_instance_id="i", version=9)
    assert commit(world.group, "i-a", 1, "i") == ErrorCode.FENCED_INSTANCE_ID
    assert commit(world.group, "i-b", 1, "i") == ErrorCode.NONE


def test_a_commit_is_a_sign_of_life(classic_world):
    """As good as a heartbeat."""
    world = classic_world()
    world.stable("a")
    world.advance(9_000)
    world.group.offset_committed("client-a", world.now)
    world.advance(9_000)
    assert world.ids == ["client-a"]


def test_only_a_group_without_members_may_be_deleted(classic_world):
    """Only a group without members."""
    world = classic_world()
    world.join("a")
    assert code_of(world.group.check_delete) == ErrorCode.NON_EMPTY_GROUP
    world.advance(0)
    world.synced()
    assert code_of(world.group.check_delete) == ErrorCode.NON_EMPTY_GROUP
    world.leave(("client-a", None))
    assert code_of(world.group.check_delete) == ErrorCode.NONE
    assert len(world.group.tombstones()) == 1


def test_topics_that_are_read(classic_world, consumer_subscription):
    """Those that members subscribe to; all of them if a consumer's subscription cannot be read; none of other types."""
    world = classic_world()
    world.join("a", protocols={"range": consumer_subscription("t", "u")})
    world.stable("b", protocols={"range": consumer_subscription("v")})
    assert [world.group.subscribes(topic) for topic in "tuvw"] == [True, True, True, False]
    world = classic_world()
    world.stable("a", protocols={"range": b"?"})
    assert world.group.subscribes("w")
    world = classic_world()
    world.stable("a", protocol_type="connect")
    assert not world.group.subscribes("t")
    world.leave(("client-a", None))
    assert not world.group.subscribes("t")


def test_a_restart_of_the_broker(classic_world):
    """Members go on in the same generation, with new sessions; what had not been committed never was."""
    world = classic_world()
    world.join("s", group_instance_id="i")
    world.stable("a", "b")
    world.held = True
    world.leave(("client-a", None))
    world.held = False
    world.restart()
    assert (world.state, world.group.members.leader_id) == ("Stable", "i-s")
    assert world.ids == ["i-s", "client-a", "client-b"]
    assert world.beat("client-a", 1) == 0
    assert world.sync("b", "client-b", 1).assignment == b"client-b"
    assert world.join("t", group_instance_id="i", version=9).generation_id == 1
    world.advance(9_999)
    assert len(world.ids) == 3
    world.advance(1)
    assert world.ids == ["i-t"] or "client-a" not in world.ids


def test_a_restart_before_the_first_sync(classic_world):
    """There is no group then; its members join again."""
    world = classic_world()
    world.join("a")
    world.advance(0)
    world.restart()
    assert world.shard.groups == {}
    assert world.beat("client-a", 1) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_record_with_more_names_than_are_read_in_one_turn():
    """It is in the log of an earlier release: a broker that loads it would be held up, and the next one after it."""
    member = MemberMetadata(
        member_id="m",
        group_instance_id=None,
        client_id="c",
        client_host="/h",
        rebalance_timeout=1,
        session_timeout=1,
        subscription=bytes(2) + (2_000_000).to_bytes(4) + bytes(4_000_000),
        assignment=b"",
    )
    value = GroupMetadataValue(
        protocol_type="consumer",
        generation=1,
        protocol="range",
        leader="m",
        current_state_timestamp=1,
        members=[member],
    )
    began = time.process_time()
    group = ClassicGroup.restored_from("g", SETTINGS, value)
    assert time.process_time() - began < 0.2
    assert group.subscribes("any")


def test_a_group_that_had_another_kind():
    """It is stable, and its sessions begin."""
    members = [
        ClassicMember(
            member_id=name, rebalance_timeout_ms=1, session_timeout_ms=9, protocols={"range": b"\0\0\0\0\0\0"}
        )
        for name in "ab"
    ]
    group = ClassicGroup.converted(
        "g", SETTINGS, generation=5, protocol_name="range", leader="b", members=members, now=Now(1, 2)
    )
    assert (group.state, group.generation, group.members.leader_id, group.deadline()) == ("Stable", 5, "b", 10)
    assert group.protocol_type == "consumer"
    assert group.metadata_record().value is not None
    actions = group.prepare_rebalance(Now(1, 2))
    assert (group.state, actions) == ("PreparingRebalance", [])


@pytest.mark.parametrize("phase", ["join", "sync"])
def test_those_that_wait_are_answered(classic_world, phase):
    """Before a group turns into one of the other kind, or goes."""
    world = classic_world()
    world.join("a")
    world.join("b")
    token = "join-a"
    if phase == "sync":
        world.advance(0)
        world.sync("b", "client-b", 1)
        token = "sync-b"
    assert token in world.group.parked()
    world.take(world.group.parked_replies(ErrorCode.REBALANCE_IN_PROGRESS))
    assert world.answers[token].error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert world.group.parked() == []
