"""Sessions and time-outs of classic groups."""

from stratalog.wire.errors import ErrorCode


def test_a_member_that_is_silent(classic_world):
    """Is removed when its session has ended, and the others rebalance."""
    world = classic_world()
    world.stable("a", "b")
    world.advance(5_000)
    assert world.beat("client-a", 1) == 0
    world.advance(4_999)
    assert world.ids == ["client-a", "client-b"]
    world.advance(1)
    assert world.ids == ["client-a"]
    assert world.beat("client-a", 1) == ErrorCode.REBALANCE_IN_PROGRESS
    assert world.beat("client-b", 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert world.group.sessions_expired == 1


def test_everybody_is_silent(classic_world):
    """The group is empty then, and that is recorded."""
    world = classic_world()
    world.stable("a", "b", "c")
    records = len(world.log)
    world.advance(10_000)
    assert (world.state, world.ids) == ("Empty", [])
    assert len(world.log) == records + 1


def test_heartbeats_schedule_nothing(classic_world):
    """The group is looked at once a session while its members heartbeat ten times a second."""
    world = classic_world()
    world.stable("a", "b")
    looks = 0
    original = world.shard.due

    def due(now):
        nonlocal looks
        looks += 1
        return original(now)

    world.shard.due = due
    for _ in range(600):
        world.advance(100)
        assert world.beat("client-a", 1) == world.beat("client-b", 1) == 0
    assert looks <= 7
    assert world.state == "Stable"


def test_a_waiting_member_has_no_session(classic_world):
    """A member that has joined is not expected to send heartbeats until the generation begins."""
    world = classic_world()
    world.stable("a", "b")
    world.join("c")
    world.rejoin("a", "client-a")
    for _ in range(5):
        world.advance(9_000)
        assert world.beat("client-b", 1) == ErrorCode.REBALANCE_IN_PROGRESS
    world.rejoin("b", "client-b")
    assert len(world.answers["join-a"].members) == 3


def test_a_newcomer_does_not_wait_for_ever(classic_world):
    """Its client may be gone: after five minutes it is let go, with an answer."""
    world = classic_world()
    world.stable("a", rebalance_timeout_ms=1_000_000)
    world.join("b", rebalance_timeout_ms=1_000_000)
    for _ in range(60):
        world.advance(5_000)
        world.beat("client-a", 1)
    assert world.answers["join-b"].error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert world.ids == ["client-a"]


def test_a_clock_that_stood_still(classic_world):
    """After a long sleep everything that was due is done, once."""
    world = classic_world(initial_rebalance_delay_ms=3_000)
    world.stable("a", "b")
    world.join("c", version=4)
    world.join("d")
    world.rejoin("a", "client-a")
    world.now = type(world.now)(world.now.monotonic_ms + 10**9, world.now.wall_ms)
    world.advance(0)
    answers = {name: world.answers[f"join-{name}"].error_code for name in "ad"}
    assert set(answers.values()) <= {0, ErrorCode.UNKNOWN_MEMBER_ID}
    world.advance(400_000)
    assert world.state == "Empty"
    assert world.group.parked() == []
    world.advance(10**6)
    assert world.shard.groups == {}, "without offsets nothing is kept of it"
    assert world.log[-1].value is None


def test_a_session_that_becomes_shorter(classic_world):
    """A member that joins again with a shorter session is missed earlier."""
    world = classic_world()
    world.stable("a", session_timeout_ms=100_000)
    world.rejoin("a", "client-a", session_timeout_ms=6_000)
    world.synced()
    world.advance(6_000)
    assert world.ids == []
