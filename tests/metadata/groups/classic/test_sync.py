"""SyncGroup."""

import pytest

from stratalog.metadata.groups.classic import sync as classic_sync
from stratalog.wire.errors import ErrorCode


def joined(world):
    world.join("a")
    world.join("b")
    world.advance(0)
    return world


def test_everybody_gets_what_the_leader_gave(classic_world):
    """In whichever order they ask; a member that the leader left out has nothing to do."""
    world = joined(classic_world())
    assert world.sync("b", "client-b", 1) is None
    leader = world.sync("a", "client-a", 1, given={"client-a": b"\x00\xff", "stranger": b"x"})
    assert (leader.error_code, leader.assignment) == (0, b"\x00\xff")
    assert (leader.protocol_type, leader.protocol_name) == ("consumer", "range")
    follower = world.answers["sync-b"]
    assert (follower.error_code, follower.assignment) == (0, b"")
    assert world.state == "Stable"
    assert world.group.rebalances_completed == 1


def test_no_member_is_answered_before_the_commit(classic_world):
    """Neither those that wait nor those that ask meanwhile."""
    world = joined(classic_world(held=True))
    assert world.sync("a", "client-a", 1, given={"client-b": b"1"}) is None
    assert world.sync("b", "client-b", 1) is None
    world.commit()
    assert world.answers["sync-a"].error_code == 0
    assert world.answers["sync-b"].assignment == b"1"


def test_assignments_that_no_append_can_take(classic_world, monkeypatch):
    """They are refused before anything has changed; the leader may come with less."""
    monkeypatch.setattr(classic_sync, "WRITE_BYTES_MAX", 150)
    world = joined(classic_world())
    assert world.sync("a", "client-a", 1, given={"client-a": b"x" * 150}).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert (world.state, world.log) == ("CompletingRebalance", [])
    world.answers.clear()
    assert world.sync("a", "client-a", 1, given={"client-a": b"x"}).assignment == b"x"


def test_ids_that_no_append_can_take(classic_world, monkeypatch):
    """They stand in the record beside subscriptions and assignments, and have up to 32 kB each."""
    world = joined(classic_world())
    subscriptions = sum(len(one.protocols["range"]) for one in world.group.members.by_id.values())
    monkeypatch.setattr(classic_sync, "WRITE_BYTES_MAX", subscriptions + 1 + len("client-a"))
    refused = world.sync("a", "client-a", 1, given={"client-a": b"x"})
    assert refused.error_code == ErrorCode.UNKNOWN_SERVER_ERROR


def test_an_answer_that_was_lost(classic_world):
    """A member of a stable group gets its assignment again."""
    world = classic_world()
    world.stable("a", "b")
    assert world.sync("b", "client-b", 1).assignment == b"client-b"
    assert world.sync("a", "client-a", 1, given={"client-b": b"other"}).assignment == b"client-a"


def test_a_sync_that_is_sent_twice(classic_world):
    """The later one takes the place of the earlier."""
    world = joined(classic_world())
    world.sync("b", "client-b", 1)
    world.sync("again", "client-b", 1)
    assert world.answers["sync-b"].error_code == ErrorCode.REBALANCE_IN_PROGRESS
    world.sync("a", "client-a", 1, given={"client-b": b"1"})
    assert world.answers["sync-again"].assignment == b"1"


@pytest.mark.parametrize(
    ("member_id", "generation", "fields", "code"),
    [
        ("stranger", 1, {}, "UNKNOWN_MEMBER_ID"),
        ("stranger", 1, {"version": 5}, "INCONSISTENT_GROUP_PROTOCOL"),
        ("client-b", 0, {}, "ILLEGAL_GENERATION"),
        ("client-b", 2, {}, "ILLEGAL_GENERATION"),
        ("client-b", 1, {"version": 5}, "INCONSISTENT_GROUP_PROTOCOL"),
        (
            "client-b",
            1,
            {"version": 5, "protocol_type": "connect", "protocol_name": "range"},
            "INCONSISTENT_GROUP_PROTOCOL",
        ),
        (
            "client-b",
            1,
            {"version": 5, "protocol_type": "consumer", "protocol_name": "x"},
            "INCONSISTENT_GROUP_PROTOCOL",
        ),
    ],
)
def test_syncs_of_strangers_and_other_generations_are_refused(classic_world, member_id, generation, fields, code):
    """A stranger, another generation, another protocol than the one agreed on (KIP-559)."""
    world = joined(classic_world())
    assert world.sync("x", member_id, generation, **fields).error_code == ErrorCode[code]


def test_the_agreed_protocol_is_named(classic_world):
    """As version 5 does."""
    world = joined(classic_world())
    assert world.sync("b", "client-b", 1, version=5, protocol_type="consumer", protocol_name="range") is None


def test_a_group_that_is_gone(classic_world):
    """It has no members."""
    assert classic_world().sync("a", "client-a", 1).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_the_session_begins_with_the_answer(classic_world):
    """A member whose leader took 45 s gets a whole session of 10 s from the answer on."""
    world = joined(classic_world())
    world.sync("b", "client-b", 1)
    for _ in range(5):
        world.advance(9_000)
        world.beat("client-a", 1)
    world.sync("a", "client-a", 1, given={})
    world.advance(9_999)
    assert "client-b" in world.ids
    world.advance(1)
    assert "client-b" not in world.ids
