"""The record of a classic group, and its clock."""

from hypothesis import given
from hypothesis import strategies as st

from stratalog.metadata.coordination import Now
from stratalog.metadata.groups.classic.core import NEVER_MS, ClassicCore
from stratalog.metadata.groups.classic.group import ClassicGroup
from stratalog.metadata.groups.group import GroupSettings
from stratalog.wire.records.group import decode_key, decode_value

SETTINGS = GroupSettings()


def test_the_record_of_a_generation(classic_world):
    """Kafka's fields: subscription to the chosen protocol, assignment, time-outs, who it is and where it came from."""
    world = classic_world()
    world.stable("a", "b", protocols={"range": b"\xffraw"}, group_instance_id=None)
    key, value = world.log[-1]
    record = decode_value(decode_key(key), value)
    assert decode_key(key).group == "g"
    assert (record.protocol_type, record.generation, record.protocol, record.leader) == (
        "consumer",
        1,
        "range",
        "client-a",
    )
    assert record.current_state_timestamp == world.now.wall_ms
    first = record.members[0]
    assert (first.member_id, first.client_id, first.client_host) == ("client-a", "client", "/10.0.0.1")
    assert (first.rebalance_timeout, first.session_timeout) == (60_000, 10_000)
    assert (first.subscription, first.assignment) == (b"\xffraw", b"client-a")


def test_the_record_is_read_back(classic_world):
    """A group of the log is the group that wrote it."""
    world = classic_world()
    world.stable("a", "b")
    key, value = world.log[-1]
    again = ClassicGroup.restored_from("g", SETTINGS, decode_value(decode_key(key), value))
    assert again.record() == world.group.record()
    assert (again.state, again.topics) == ("Stable", {"t"})


@given(st.lists(st.integers(0, 1_000), max_size=5))
def test_it_wakes_at_the_earliest_session_end(timeouts):
    """The earliest of the times given in any order counts; without one it never wakes."""
    core = ClassicCore("g", SETTINGS)
    for timeout in timeouts:
        core.wake_at(timeout)
    assert core.wake_ms == min(timeouts, default=NEVER_MS)


def test_syncs_that_are_missing():
    """The time for syncs ends when the last member has asked."""
    core = ClassicCore("g", SETTINGS)
    core.pending_sync |= {"a", "b"}
    core.wait_for_syncs(Now(5, 0))
    core.heard_sync("a")
    assert core.sync_ends_ms == 5
    core.heard_sync("b")
    assert core.sync_ends_ms == NEVER_MS
