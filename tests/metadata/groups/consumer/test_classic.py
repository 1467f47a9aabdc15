"""Members of the classic protocol inside a consumer group."""

import pytest

from stratalog.metadata.groups.classic.subscription import NAMES_MAX
from stratalog.metadata.groups.consumer import classic
from stratalog.metadata.groups.consumer.core import Timer
from stratalog.metadata.groups.consumer.member import MemberState
from stratalog.wire.errors import ErrorCode, KafkaError


def _code(call, *arguments, **fields):
    with pytest.raises(KafkaError) as caught:
        call(*arguments, **fields)
    return caught.value.code


@pytest.fixture
def world(group_world):
    """A consumer group with one member of its own protocol; it does not go back to a classic one."""
    world = group_world({"a": 4, "b": 2}, consumer_migration_policy="upgrade")
    world.join("x", "a")
    return world


@pytest.fixture
def mixed(world):
    """A classic member that shares ``a`` with the other one; both are stable."""
    member_id = world.classic_join("", "a").member_id
    world.classic_join(member_id, "a")
    world.beat("x", 1)
    world.beat("x", 1, owned={"a": [0, 1]})
    answer = world.classic_join(member_id, "a")
    world.classic_sync(member_id, answer.generation_id)
    world.name = member_id
    assert world.facts.state.value == "Stable"
    return world


def test_member_id_is_required(world):
    """A new dynamic member is given an id first, and is no member yet; before version 4 it joins at once."""
    answer = world.classic_join("", "a")
    assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert answer.member_id.startswith("client-")
    assert set(world.facts.members) == {"x"}
    old = world.classic_join("", "a", version=3)
    assert old.error_code == 0
    assert old.member_id in world.facts.members


def test_join_and_sync(world):
    """JoinGroup answers the epoch as generation, and no leader; SyncGroup answers the partitions free by now."""
    member_id = world.classic_join("", "a").member_id
    answer = world.classic_join(member_id, "a")
    assert (answer.generation_id, answer.protocol_type, answer.protocol_name) == (2, "consumer", "range")
    assert (answer.leader, answer.members) == ("", [])
    synced = world.classic_sync(member_id, 2)
    assert world.read_assignment(synced.assignment) == {}
    assert world.classic_beat(member_id, 2) == 0
    world.beat("x", 1)
    world.beat("x", 1, owned={"a": [0, 1]})
    assert world.classic_beat(member_id, 2) == ErrorCode.REBALANCE_IN_PROGRESS
    again = world.classic_join(member_id, "a")
    assert again.generation_id == 2
    assert world.read_assignment(world.classic_sync(member_id, 2).assignment) == {"a": {2, 3}}
    assert world.classic_beat(member_id, 2) == 0


def test_classic_member_gives_up(mixed):
    """A third member: the classic one has to join again, says what it still owns, and gives up by joining without."""
    world, name = mixed, mixed.name
    world.join("y", "a")
    assert world.classic_beat(name, 2) == ErrorCode.REBALANCE_IN_PROGRESS
    assert _code(world.classic_sync, name, 2) is ErrorCode.REBALANCE_IN_PROGRESS
    kept = world.classic_join(name, "a", owned={"a": [2, 3]})
    assert kept.generation_id == 2
    assert world.member(name).state is MemberState.UNREVOKED_PARTITIONS
    assert world.read_assignment(world.classic_sync(name, 2).assignment) == {"a": {2}}
    assert world.classic_beat(name, 2) == ErrorCode.REBALANCE_IN_PROGRESS
    done = world.classic_join(name, "a", owned={"a": [2]})
    assert done.generation_id == 3
    assert world.read_assignment(world.classic_sync(name, 3).assignment) == {"a": {2}}
    assert world.given(world.beat("y", 3)) == {"a": {3}}


def test_eager_member_has_given_up_when_it_joins(mixed):
    """A member that owns nothing when it joins again is at once in the new epoch."""
    world, name = mixed, mixed.name
    world.join("y", "a")
    assert world.classic_join(name, "a").generation_id == 3


def test_joins_that_do_not_fit_the_group_are_refused(mixed):
    """A protocol that not all classic members support, no consumer, a wrong session time-out."""
    world = mixed
    assert _code(world.classic_join, "", "a", protocols=("other",)) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert _code(world.classic_join, "", "a", protocol_type="connect") is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    long = ("range", "q" * 32_768)
    assert _code(world.classic_join, "", "a", protocols=long) is ErrorCode.INVALID_REQUEST
    assert _code(world.classic_join, "", "a", session_timeout_ms=1) is ErrorCode.INVALID_SESSION_TIMEOUT


def test_wrong_generations_and_strangers_are_refused(mixed):
    """Wrong generations and strangers; a member of the other protocol is unknown here."""
    world, name = mixed, mixed.name
    assert _code(world.classic_beat, name, 1) is ErrorCode.ILLEGAL_GENERATION
    assert _code(world.classic_sync, name, 1) is ErrorCode.ILLEGAL_GENERATION
    assert _code(world.classic_beat, "z", 2) is ErrorCode.UNKNOWN_MEMBER_ID
    assert _code(world.classic_beat, "x", 2) is ErrorCode.UNKNOWN_MEMBER_ID
    assert _code(world.classic_sync, name, 2, protocol_name="sticky") is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_offsets_of_a_classic_member(mixed):
    """Another generation than its own is ILLEGAL_GENERATION for it, and any version of OffsetCommit will do."""
    group = mixed.group
    assert group.check_offset_commit(mixed.name, None, 2, transactional=False, api_version=2) is None
    with pytest.raises(KafkaError) as caught:
        group.check_offset_commit(mixed.name, None, 3, transactional=False, api_version=2)
    assert caught.value.code is ErrorCode.ILLEGAL_GENERATION


def test_session_of_its_own(mixed):
    """A classic member has the session time-out that it joined with."""
    world, name = mixed, mixed.name
    world.classic_join(name, "a", owned={"a": [2, 3]}, session_timeout_ms=100_000)
    world.classic_sync(name, 2)
    world.advance(40_000)
    world.beat("x", 2)
    world.advance(40_000)
    world.beat("x", 2)
    assert name in world.facts.members
    world.advance(20_000)
    assert set(world.facts.members) == {"x"}


def test_no_sync_in_time(mixed):
    """A member that joins and does not fetch its assignment within its rebalance time-out is fenced."""
    world, name = mixed, mixed.name
    world.classic_join(name, "a", owned={"a": [2, 3]}, rebalance_timeout_ms=10_000)
    world.advance(10_000)
    assert set(world.facts.members) == {"x"}


def test_no_join_in_time(mixed):
    """A member that has to join again has its rebalance time-out for it, counted from the first answer that says so."""
    world, name = mixed, mixed.name
    world.classic_join(name, "a", owned={"a": [2, 3]}, rebalance_timeout_ms=10_000)
    world.classic_sync(name, 2)
    world.join("y", "a")
    world.classic_beat(name, 2)
    world.advance(9_000)
    world.classic_beat(name, 2)
    world.advance(1_000)
    assert set(world.facts.members) == {"x", "y"}


def test_a_leave_answers_for_each_member(mixed):
    """LeaveGroup removes many, and tells what became of each; in old versions of the one."""
    world, name = mixed, mixed.name
    answer = world.classic_leave((name, None), ("z", None))
    assert [one.error_code for one in answer.members] == [0, ErrorCode.UNKNOWN_MEMBER_ID]
    assert set(world.facts.members) == {"x"}
    assert world.classic_leave(("z", None), version=1).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_static_classic_member(world):
    """A static classic member that restarts keeps its partitions under its new id; an administrator can remove it."""
    first = world.classic_join("", "b", instance_id="i")
    assert world.read_assignment(world.classic_sync(first.member_id, 2, instance_id="i").assignment) == {"b": {0, 1}}
    again = world.classic_join("", "b", instance_id="i")
    assert again.member_id != first.member_id
    assert again.generation_id == 2
    synced = world.classic_sync(again.member_id, 2, instance_id="i")
    assert world.read_assignment(synced.assignment) == {"b": {0, 1}}
    assert _code(world.classic_beat, first.member_id, 2, instance_id="i") is ErrorCode.FENCED_INSTANCE_ID
    assert _code(world.classic_join, first.member_id, "b", instance_id="i") is ErrorCode.FENCED_INSTANCE_ID
    assert world.classic_leave(("", "i")).members[0].error_code == 0
    assert set(world.facts.members) == {"x"}


def test_member_changes_its_protocol(mixed):
    """A classic member that restarts as one of the consumer protocol under the same instance id takes its place."""
    world = mixed
    first = world.classic_join("", "b", instance_id="i")
    world.classic_sync(first.member_id, first.generation_id, instance_id="i")
    assert world.join("n", "b", instance_id="i") == {"b": {0, 1}}
    assert first.member_id not in world.facts.members
    assert world.member("n").classic is None


def test_no_news_before_there_is_a_new_assignment(group_world):
    """Between two assignments classic members are left alone."""
    world = group_world({"a": 4}, consumer_migration_policy="upgrade", consumer_assignment_interval_ms=1_000)
    world.join("x", "a")
    world.advance(1_000)
    name = world.classic_join("", "a", version=3).member_id
    world.classic_sync(name, 2)
    world.join("y", "a")
    assert world.facts.epoch == 3
    assert world.classic_beat(name, 2) == 0
    world.advance(1_000)
    assert world.classic_beat(name, 2) == ErrorCode.REBALANCE_IN_PROGRESS


def test_more_names_than_are_read_in_one_turn(world):
    """They are no elements of the request, and cost as much."""
    names = [f"{number}" for number in range(NAMES_MAX + 1)]
    assert _code(world.classic_join, "", *names, version=3) == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert set(world.facts.members) == {"x"}
    assert world.classic_join("", *names[1:], version=3).error_code == 0


def test_a_member_that_no_append_can_take(world, monkeypatch):
    """Its record would hold all its protocols, and its topics besides; the shard would be lost with the append."""
    monkeypatch.setattr(classic, "WRITE_BYTES_MAX", 100)
    written = len(world.log)
    assert _code(world.classic_join, "", "a" * 45, version=3) == ErrorCode.UNKNOWN_SERVER_ERROR
    many = ("range", "b", "c", "d", "e")
    assert _code(world.classic_join, "", "a", protocols=many, version=3) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert (set(world.facts.members), len(world.log)) == ({"x"}, written)
    assert world.classic_join("", "a", version=3).error_code == 0


def test_a_member_that_changes_its_protocol_under_its_id_keeps_no_deadline(group_world):
    """Those of the classic protocol were for a SyncGroup that it sends no more; it was fenced, whatever it did."""
    world = group_world({"t": 3})
    world.join("new", "t")
    member_id = world.classic_join("", "t", version=3, rebalance_timeout_ms=60_000).member_id
    world.join(member_id, "t")
    epoch = world.answer.member_epoch
    for _ in range(7):
        world.advance(10_000)
        epoch = world.beat(member_id, epoch).member_epoch
    assert member_id in world.facts.members


def test_a_member_that_goes_back_to_the_classic_protocol_keeps_no_deadline(group_world):
    """It gives partitions up by joining again, for which it has a deadline of its own."""
    world = group_world({"t": 4})
    world.join("x", "t")
    world.join("y", "t")
    world.beat("x", world.member("x").epoch)
    assert (Timer.REVOCATION, "x") in world.group.timers
    world.classic_join("x", "t", version=3)
    assert (Timer.REVOCATION, "x") not in world.group.timers


def test_a_member_that_changes_its_protocol_has_to_give_up_what_it_was_asked_for(group_world):
    """The deadline of the classic protocol is none of its own any more; without another one, others would wait for ever."""
    world = group_world({"t": 4})
    world.join("x", "t")
    epoch = world.classic_join("x", "t", owned={"t": range(4)}, version=3).generation_id
    world.classic_sync("x", epoch)
    world.join("y", "t")
    world.classic_join("x", "t", owned={"t": range(4)}, version=3)
    assert world.member("x").state is MemberState.UNREVOKED_PARTITIONS
    for _ in range(6):
        world.beat("x", epoch, owned={"t": range(4)})
        world.beat("y", world.member("y").epoch)
        assert "x" in world.facts.members
        world.advance(10_000)
    assert "x" not in world.facts.members
