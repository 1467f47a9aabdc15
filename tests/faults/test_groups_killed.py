"""kill -9 while members rebalance: a member's knowledge of its generation holds after the start that follows."""

import signal
import time

import pytest

from stratalog.client.link import BrokerLink
from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.describe_groups import DescribeGroupsRequest
from stratalog.wire.messages.find_coordinator import FindCoordinatorRequest
from stratalog.wire.messages.heartbeat import HeartbeatRequest
from stratalog.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from stratalog.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

NOT_YET = {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE}


def connect(port, group="g"):
    """A connection to a broker whose coordinator of the group is loaded."""
    link = BrokerLink("127.0.0.1", port)
    deadline = time.monotonic() + 30
    while True:
        found = link.call(FindCoordinatorRequest(key_type=0, coordinator_keys=[group]), 6).coordinators[0]
        described = link.call(DescribeGroupsRequest(groups=[group]), 5).groups[0]
        if not found.error_code and described.error_code not in NOT_YET:
            return link
        assert time.monotonic() < deadline, (found, described)
        time.sleep(0.02)


def join(link, member_id="", instance_id=None):
    """Join as the only member; the answer."""
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=60_000,
        rebalance_timeout_ms=60_000,
        member_id=member_id,
        group_instance_id=instance_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"\0\0\0\0\0\0")],
    )
    return link.call(request, 5 if instance_id else 3)


def sync(link, joined, given=None):
    """Sync in the generation of a join's answer."""
    request = SyncGroupRequest(
        group_id="g",
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        assignments=[SyncGroupRequestAssignment(member_id=one, assignment=two) for one, two in (given or {}).items()],
    )
    return link.call(request, 2)


def beat(link, joined):
    """The error code of a heartbeat."""
    request = HeartbeatRequest(group_id="g", generation_id=joined.generation_id, member_id=joined.member_id)
    return link.call(request, 2).error_code


def described(link):
    """State, protocol and members with what they have."""
    one = link.call(DescribeGroupsRequest(groups=["g"]), 5).groups[0]
    return (
        one.group_state,
        one.protocol_data,
        {(member.member_id, member.group_instance_id, member.member_assignment) for member in one.members},
    )


@pytest.fixture
def broker(serve_process):
    """A broker in a process of its own, whose groups begin at once."""
    return serve_process(group_initial_rebalance_delay_ms=0, offsets_topic_num_partitions=2)


def kill(broker):
    """Kill it and start it again."""
    broker.end(signal.SIGKILL)
    broker.start()


def test_a_stable_group_goes_on(broker):
    """The moment a member has its assignment the generation survives, with the members and what each was given."""
    link = connect(broker.port)
    first = join(link)
    assert sync(link, first, {first.member_id: b"\x00\xffall"}).assignment == b"\x00\xffall"
    before = described(link)
    assert before[0] == "Stable"
    kill(broker)
    link.close()
    with connect(broker.port) as again:
        assert described(again) == before
        assert beat(again, first) == 0
        assert sync(again, first).assignment == b"\x00\xffall"


@pytest.mark.story
def test_a_generation_that_was_never_synced_is_forgotten(broker):
    """Its members join again: the generation before holds until they have."""
    link = connect(broker.port)
    first = join(link)
    sync(link, first, {first.member_id: b"1"})
    second = join(link, first.member_id)
    assert second.generation_id == first.generation_id + 1
    kill(broker)
    link.close()
    with connect(broker.port) as again:
        assert beat(again, second) == ErrorCode.ILLEGAL_GENERATION
        assert beat(again, first) == 0


@pytest.mark.story
def test_a_static_member_that_was_restarted_keeps_its_new_id(broker):
    """It got this answer, so the older process stays fenced."""
    link = connect(broker.port)
    old = join(link, instance_id="i")
    request = SyncGroupRequest(
        group_id="g",
        generation_id=1,
        member_id=old.member_id,
        group_instance_id="i",
        assignments=[SyncGroupRequestAssignment(member_id=old.member_id, assignment=b"1")],
    )
    assert link.call(request, 3).assignment == b"1"
    new = join(link, instance_id="i")
    assert new.member_id != old.member_id
    kill(broker)
    link.close()
    with connect(broker.port) as again:
        codes = [
            again.call(
                HeartbeatRequest(group_id="g", generation_id=1, member_id=one.member_id, group_instance_id="i"), 4
            ).error_code
            for one in (old, new)
        ]
    assert codes == [ErrorCode.FENCED_INSTANCE_ID, 0]
