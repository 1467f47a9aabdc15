"""How generations turn."""

from stratalog.wire.errors import ErrorCode
from stratalog.wire.records.group import decode_key, decode_value


def test_the_first_rebalance_is_put_off(classic_world):
    """Members that come within the delay meet in one generation (KIP-134)."""
    world = classic_world(initial_rebalance_delay_ms=3_000)
    world.join("a")
    world.advance(2_999)
    assert world.answers == {}
    world.join("b")
    world.advance(1)
    assert world.answers == {}, "a newcomer puts it off again"
    world.advance(2_999)
    assert world.answers == {}
    world.advance(1)
    assert {answer.generation_id for answer in world.answers.values()} == {1}
    assert len(world.answers["join-a"].members) == 2


def test_newcomers_cannot_put_it_off_for_ever(classic_world):
    """The longest rebalance time-out is the end of it, with the last part as long as what is left."""
    world = classic_world(initial_rebalance_delay_ms=3_000)
    fields = {"rebalance_timeout_ms": 7_000, "session_timeout_ms": 6_000}
    world.join("a", **fields)
    for name in "bcdefgh":
        world.advance(1_000)
        if "join-a" in world.answers:
            break
        world.join(name, **fields)
    assert world.now.monotonic_ms == 7_000
    assert world.answers["join-a"].generation_id == 1


def test_a_later_rebalance_waits_for_all(classic_world):
    """And begins the moment the last has joined."""
    world = classic_world(initial_rebalance_delay_ms=3_000)
    world.stable("a", "b")
    assert world.join("c") is None
    assert world.rejoin("a", "client-a") is None
    world.rejoin("b", "client-b")
    assert {world.answers[f"join-{name}"].generation_id for name in "abc"} == {2}
    assert world.answers["join-c"].leader == "client-a", "the leader stays the leader"


def test_a_rebalance_waits_no_longer_than_the_timeout(classic_world):
    """A member that has not joined by then is removed; another leads if the leader is late."""
    world = classic_world()
    world.stable("a", "b", rebalance_timeout_ms=8_000)
    world.join("c", rebalance_timeout_ms=7_000)
    world.rejoin("b", "client-b", rebalance_timeout_ms=6_000)
    world.beat("client-a", 1)
    world.advance(7_999)
    assert "join-c" not in world.answers
    world.advance(1)
    assert world.answers["join-c"].generation_id == 2
    assert world.ids == ["client-b", "client-c"]
    assert world.answers["join-c"].leader == "client-b"
    assert world.beat("client-a", 1) == ErrorCode.UNKNOWN_MEMBER_ID


def test_static_members_are_kept_while_their_session_lasts(classic_world):
    """One that is away when the others rebalance is part of the next generation."""
    world = classic_world()
    world.join("s", group_instance_id="i", session_timeout_ms=100_000)
    world.stable("a", rebalance_timeout_ms=8_000, session_timeout_ms=100_000)
    world.rejoin("a", "client-a", rebalance_timeout_ms=8_000, session_timeout_ms=100_000, protocols={"range": b"new"})
    world.advance(60_000)
    answer = world.answers["join-a"]
    assert answer.generation_id == 2
    assert [one.group_instance_id for one in answer.members] == ["i", None]
    assert answer.leader == "client-a", "the static one has not joined"


def test_an_initial_rebalance_without_members(classic_world):
    """Without anybody to lead the generation does not begin; static members that stay away end by their sessions."""
    world = classic_world()
    world.join("s", group_instance_id="i")
    world.join("t", group_instance_id="j", session_timeout_ms=200_000)
    world.advance(0)
    world.synced()
    world.leave(("", "i"))
    assert world.state == "PreparingRebalance"
    world.advance(60_000)
    assert world.state == "PreparingRebalance"
    assert world.ids == ["j-t"]
    world.advance(200_000)
    assert (world.state, world.ids) == ("Empty", [])


def test_a_member_that_never_asks_for_its_assignment(classic_world):
    """Is removed when the rebalance time-out has passed, and the others begin anew."""
    world = classic_world()
    world.join("a", rebalance_timeout_ms=8_000, session_timeout_ms=1_000_000)
    world.join("b", rebalance_timeout_ms=8_000, session_timeout_ms=1_000_000)
    world.advance(0)
    world.sync("a", "client-a", 1, given={"client-a": b"1"})
    assert world.state == "Stable"
    world.advance(7_999)
    assert world.ids == ["client-a", "client-b"]
    world.advance(1)
    assert world.ids == ["client-a"]
    assert world.state == "PreparingRebalance"
    assert world.beat("client-a", 1) == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_rebalance_while_assignments_are_computed(classic_world):
    """A member that waits for its assignment has to join again; none has an old one."""
    world = classic_world()
    world.join("a")
    world.join("b")
    world.advance(0)
    world.sync("b", "client-b", 1)
    world.join("c")
    assert world.answers["sync-b"].error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert world.sync("a", "client-a", 1, given={}).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    world.rejoin("a", "client-a")
    world.rejoin("b", "client-b")
    assert world.synced() == 2
    assert world.answers["sync-client-b"].assignment == b"client-b"


def test_bytes_of_assignments_that_are_taken_back(classic_world):
    """No member keeps them, so they do not count: a group would take more and more places."""
    world = classic_world()
    world.join("a")
    world.advance(0)
    world.sync("a", "client-a", 1, given={"client-a": bytes(1_000)})
    world.join("b")
    world.rejoin("a", "client-a")
    assert world.state == "CompletingRebalance"
    world.join("c")
    members = world.group.members
    assert members.by_id["client-a"].assignment == b""
    assert members.held_bytes == sum(one.held_bytes for one in members.by_id.values())


def test_an_empty_generation_is_recorded(classic_world):
    """With the type that the members had, so that offsets begin to age."""
    world = classic_world()
    world.stable("a")
    world.leave(("client-a", None))
    record = decode_value(decode_key(world.log[-1].key), world.log[-1].value)
    assert (record.generation, record.protocol_type, record.protocol, record.leader, record.members) == (
        2,
        "consumer",
        None,
        None,
        [],
    )
    assert world.group.empty_since_ms == record.current_state_timestamp == world.now.wall_ms


def test_an_initial_rebalance_that_everybody_leaves(classic_world):
    """Ends in an empty group at its time, and the next one is put off again."""
    world = classic_world(initial_rebalance_delay_ms=3_000)
    world.join("a")
    world.leave(("client-a", None))
    assert world.answers["join-a"].error_code == ErrorCode.UNKNOWN_MEMBER_ID
    world.advance(3_000)
    assert world.state == "Empty"
    world.join("b")
    world.advance(2_999)
    assert "join-b" not in world.answers
    world.advance(1)
    assert world.answers["join-b"].generation_id == 2
