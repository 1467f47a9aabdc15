"""JoinGroup."""

import pytest

from stratalog.metadata.groups.classic import join as classic_join
from stratalog.wire.errors import ErrorCode
from stratalog.wire.records.consumer_protocol import ConsumerProtocolSubscription, encode_protocol
from stratalog.wire.records.group import decode_key, decode_value


def test_a_group_of_one_leads_itself(classic_world):
    """A group of one: it leads, and gets itself as the list of members."""
    world = classic_world()
    world.join("a")
    world.advance(0)
    answer = world.answers["join-a"]
    assert (answer.error_code, answer.generation_id, answer.protocol_type, answer.protocol_name) == (
        0,
        1,
        "consumer",
        "range",
    )
    assert answer.leader == answer.member_id == "client-a"
    assert [one.member_id for one in answer.members] == ["client-a"]
    assert world.state == "CompletingRebalance"


@pytest.mark.parametrize("version", [4, 9])
def test_a_member_id_is_required(classic_world, version):
    """A newcomer is given an id and comes again with it (KIP-394)."""
    world = classic_world()
    answer = world.join("a", version=version)
    assert (answer.error_code, answer.member_id) == (ErrorCode.MEMBER_ID_REQUIRED, "client-a")
    assert (world.state, world.group.pending.keys()) == ("Empty", {"client-a"})
    assert world.rejoin("a", "client-a", version=version) is None
    world.advance(0)
    assert world.answers["join-a"].leader == "client-a"


def test_an_id_that_is_not_used_expires(classic_world):
    """With the session time-out its member asked for; a rebalance does not wait for it longer."""
    world = classic_world(initial_rebalance_delay_ms=0)
    world.stable("a")
    world.join("b", version=4)
    world.rejoin("a", "client-a")
    assert world.answers.get("join-a") is None, "b is expected"
    world.advance(9_999)
    assert world.answers.get("join-a") is None
    world.advance(1)
    assert world.answers["join-a"].generation_id == 2
    assert world.rejoin("b", "client-b", version=4).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_needs_no_id(classic_world):
    """It has one of its own; its member id begins with it (KIP-345)."""
    world = classic_world()
    assert world.join("a", version=9, group_instance_id="i") is None
    world.advance(0)
    assert world.answers["join-a"].member_id == "i-a"


@pytest.mark.parametrize(("timeout", "fits"), [(5_999, False), (6_000, True), (1_800_000, True), (1_800_001, False)])
def test_session_timeouts_have_bounds(classic_world, timeout, fits):
    """group.min.session.timeout.ms and group.max.session.timeout.ms."""
    world = classic_world()
    answer = world.join("a", session_timeout_ms=timeout)
    assert (answer is None) == fits
    assert fits or (answer.error_code, answer.member_id) == (ErrorCode.INVALID_SESSION_TIMEOUT, "")


def test_a_group_that_is_refused_is_not_made(classic_world):
    """Neither by a time-out out of bounds nor by an empty protocol type."""
    world = classic_world()
    assert world.join("a", session_timeout_ms=1).error_code == ErrorCode.INVALID_SESSION_TIMEOUT
    assert world.join("b", protocol_type="").error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert world.join("c", protocols=()).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert world.shard.groups == {}
    assert world.shard.deadline() == world.settings.offsets_retention_check_interval_ms


@pytest.mark.parametrize(
    "fields",
    [{"group_instance_id": "i" * 32_767}, {"protocol_type": "p" * 32_768}, {"protocols": ("range", "q" * 32_768)}],
)
def test_a_request_too_large_for_a_record_is_refused(classic_world, fields):
    """When the group is stable it would be too late: its members would wait for a record that cannot be written."""
    world = classic_world()
    assert world.join("a", version=9, **fields).error_code == ErrorCode.INVALID_REQUEST
    assert world.shard.groups == {}


def test_protocols_must_fit(classic_world):
    """One that all members support, of the same type."""
    world = classic_world()
    world.stable("a", protocols=("range", "sticky"))
    assert world.join("b", protocols=("roundrobin",)).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert world.join("c", protocol_type="connect").error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert world.state == "Stable"
    assert world.join("d", protocols=("sticky",)) is None
    world.rejoin("a", "client-a", protocols=("range", "sticky"))
    assert world.answers["join-a"].protocol_name == "sticky"


def test_a_member_of_a_group_that_is_gone(classic_world):
    """It does not make the group anew; the member must forget its id first."""
    world = classic_world()
    answer = world.join("a", "client-a", version=5)
    assert (answer.error_code, answer.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "client-a")
    assert world.shard.groups == {}


def test_the_version_without_a_rebalance_timeout(classic_world):
    """Version 0: it is the session time-out."""
    world = classic_world()
    world.join("a", version=0, rebalance_timeout_ms=-1)
    assert world.group.members.rebalance_timeout_ms == 10_000


# -- members that come again --


def test_a_follower_rejoins_a_stable_group(classic_world):
    """With the same metadata it gets the present generation: no other member notices."""
    world = classic_world()
    world.stable("a", "b")
    answer = world.rejoin("b", "client-b")
    assert (answer.generation_id, answer.leader, answer.members) == (1, "client-a", [])
    assert world.state == "Stable"


def test_a_follower_with_other_metadata_rebalances(classic_world):
    """Its subscription has changed."""
    world = classic_world()
    world.stable("a", "b")
    assert world.rejoin("b", "client-b", protocols={"range": b"new"}) is None
    assert world.state == "PreparingRebalance"
    assert world.beat("client-a", 1) == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_leader_that_rejoins_rebalances(classic_world):
    """It has seen something that the metadata of members do not tell, new partitions say."""
    world = classic_world()
    world.stable("a", "b")
    assert world.rejoin("a", "client-a") is None
    assert world.state == "PreparingRebalance"


def test_an_answer_that_was_lost(classic_world):
    """While the assignments are computed the answer can be had again, by the leader with its members."""
    world = classic_world()
    world.join("a")
    world.join("b")
    world.advance(0)
    again = world.rejoin("a", "client-a")
    assert (again.generation_id, len(again.members)) == (1, 2)
    assert world.rejoin("b", "client-b").members == []
    assert world.state == "CompletingRebalance"
    assert world.rejoin("b", "client-b", protocols={"range": b"new"}) is None
    assert world.state == "PreparingRebalance"


def test_a_join_that_is_sent_twice(classic_world):
    """The later one takes the place of the earlier, which is not left without an answer."""
    world = classic_world()
    world.stable("a", "b")
    world.rejoin("a", "client-a")
    world.join("again", "client-a")
    assert world.answers["join-a"].error_code == ErrorCode.REBALANCE_IN_PROGRESS
    world.rejoin("b", "client-b")
    assert world.answers["join-again"].generation_id == 2


# -- the size limit --


def test_no_more_members_than_allowed(classic_world):
    """group.max.size: of newcomers and of those that rejoin last (KIP-389)."""
    world = classic_world(max_size=2)
    world.stable("a", "b")
    assert world.join("c").error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert world.state == "Stable"
    assert world.join("d", version=9).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_a_group_that_is_too_large_after_a_restart(classic_world):
    """It rebalances, and the last to come stay out."""
    world = classic_world()
    world.stable("a", "b", "c")
    world.settings = type(world.settings)(initial_rebalance_delay_ms=0, max_size=2)
    world.restart()
    assert world.state == "PreparingRebalance"
    assert world.rejoin("a", "client-a") is None
    assert world.rejoin("b", "client-b") is None
    assert world.rejoin("c", "client-c").error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert world.answers["join-a"].generation_id == 2
    assert world.ids == ["client-a", "client-b"]


# -- static members --


def test_a_static_member_is_restarted(classic_world):
    """It goes on in the same generation; others notice nothing; its new id is in the log before it hears of it."""
    world = classic_world()
    world.stable("a")
    world.join("s", group_instance_id="i")
    world.rejoin("a", "client-a")
    generation = world.synced()
    world.held = True
    assert world.join("t", group_instance_id="i", version=9) is None
    world.commit()
    answer = world.answers["join-t"]
    assert (answer.error_code, answer.generation_id, answer.member_id) == (0, generation, "i-t")
    assert (answer.leader, answer.skip_assignment, answer.members) == ("client-a", False, [])
    assert world.beat("client-a", generation) == 0
    record = decode_value(decode_key(world.log[-1].key), world.log[-1].value)
    assert [one.member_id for one in record.members] == ["client-a", "i-t"]
    world.held = False
    assert world.sync("t", "i-t", generation, group_instance_id="i").assignment == b"i-s"


def test_a_restarted_static_member_that_no_append_can_take(classic_world, monkeypatch):
    """It may say more than the one before: the record of its group would cost the shard its state. The old one stays."""
    world = classic_world()
    world.stable("a", group_instance_id="i")
    written, held_bytes = len(world.log), world.group.held_bytes
    monkeypatch.setattr(classic_join, "WRITE_BYTES_MAX", 500)
    large = {"range": encode_protocol(ConsumerProtocolSubscription(topics=["t"], user_data=bytes(500)), 1)}
    refused = world.join("b", group_instance_id="i", protocols=large, version=9)
    assert refused.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert (len(world.log), world.group.held_bytes, world.state) == (written, held_bytes, "Stable")
    assert world.beat("i-a", 1, "i") == 0
    assert world.join("c", group_instance_id="i", version=9).member_id == "i-c"


def test_an_older_process_is_fenced(classic_world):
    """Its heartbeat, sync, join and leave are all refused with FENCED_INSTANCE_ID."""
    world = classic_world()
    world.stable("a", group_instance_id="i")
    world.join("b", group_instance_id="i", version=9)
    assert world.beat("i-a", 1, "i") == ErrorCode.FENCED_INSTANCE_ID
    assert world.sync("x", "i-a", 1, group_instance_id="i").error_code == ErrorCode.FENCED_INSTANCE_ID
    assert world.rejoin("a", "i-a", group_instance_id="i").error_code == ErrorCode.FENCED_INSTANCE_ID
    left = world.leave(("i-a", "i"))
    assert left.members[0].error_code == ErrorCode.FENCED_INSTANCE_ID


def test_a_waiting_older_process_is_fenced(classic_world):
    """Its JoinGroup is answered, the new process waits in its place."""
    world = classic_world()
    world.stable("a")
    world.join("s", group_instance_id="i")
    assert world.join("t", group_instance_id="i") is None
    fenced = world.answers["join-s"]
    assert (fenced.error_code, fenced.member_id) == (ErrorCode.FENCED_INSTANCE_ID, "i-s")
    world.rejoin("a", "client-a")
    assert world.answers["join-t"].member_id == "i-t"


def test_a_restarted_leader(classic_world):
    """From version 9 on it leads again and skips the assignment (KIP-814); before, it must not lead."""
    world = classic_world()
    world.stable("a", group_instance_id="i")
    answer = world.join("b", group_instance_id="i", version=9)
    assert (answer.leader, answer.skip_assignment, len(answer.members)) == ("i-b", True, 1)
    answer = world.join("c", group_instance_id="i", version=8)
    assert (answer.leader, answer.skip_assignment, answer.members) == ("i-b", False, [])


def test_a_restart_with_other_topics_rebalances(classic_world, consumer_subscription):
    """But not one whose subscription differs only in what the member owned."""
    world = classic_world()
    world.stable("a", group_instance_id="i", protocols={"sticky": consumer_subscription("t", user_data=b"owned")})
    same = world.join("b", group_instance_id="i", version=9, protocols={"sticky": consumer_subscription("t")})
    assert same.generation_id == 1
    other = world.join("c", group_instance_id="i", version=9, protocols={"sticky": consumer_subscription("t", "u")})
    assert other.generation_id == 2


def test_a_restart_with_another_protocol_rebalances(classic_world):
    """The group's protocol would be another one now."""
    world = classic_world()
    world.stable("a", group_instance_id="i", protocols=("range", "sticky"))
    answer = world.join("b", group_instance_id="i", version=9, protocols=("sticky", "range"))
    assert (answer.generation_id, answer.protocol_name) == (2, "sticky")


def test_a_restart_while_assignments_are_computed(classic_world):
    """The leader may already assign to the old id: a new generation begins."""
    world = classic_world()
    world.join("a")
    world.join("s", group_instance_id="i")
    world.advance(0)
    world.sync("s", "i-s", 1, group_instance_id="i")
    assert world.join("t", group_instance_id="i") is None
    assert world.answers["sync-s"].error_code == ErrorCode.FENCED_INSTANCE_ID
    assert world.state == "PreparingRebalance"
    world.rejoin("a", "client-a")
    assert world.answers["join-t"].generation_id == 2
