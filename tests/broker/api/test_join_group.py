"""The requests of classic members over the wire, in every version, to a broker that coordinates."""

from types import SimpleNamespace

import pytest

from stratalog.broker.api import heartbeat, join_group, leave_group, sync_group
from stratalog.broker.requests.authorizer import Operation, ResourceType
from stratalog.broker.requests.dispatch_row import failed_response
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.find_coordinator import FindCoordinatorRequest
from stratalog.wire.messages.heartbeat import HeartbeatRequest
from stratalog.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from stratalog.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from stratalog.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment


@pytest.fixture(scope="module")
def node(start_shared_node):
    """A broker that has its coordinators, and does not put rebalances off."""
    node = start_shared_node(group_initial_rebalance_delay_ms="0")
    node.link().call(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 6)
    node.wait_until(lambda: not node.node.groups.loading)
    return node


def join(group, member_id="", **fields):
    return JoinGroupRequest(
        **{
            "group_id": group,
            "session_timeout_ms": 6_000,
            "rebalance_timeout_ms": 6_000,
            "member_id": member_id,
            "protocol_type": "consumer",
            "protocols": [JoinGroupRequestProtocol(name="range", metadata=b"\xff\x00raw")],
            **fields,
        }
    )


def joined(link, group, version):
    """The member id of a member that has joined alone."""
    answer = link.call(join(group), version)
    if version >= 4:
        assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
        answer = link.call(join(group, answer.member_id), version)
    assert (answer.error_code, answer.generation_id, answer.protocol_name) == (0, 1, "range")
    assert answer.leader == answer.member_id
    assert [(one.member_id, one.metadata) for one in answer.members] == [(answer.member_id, b"\xff\x00raw")]
    return answer.member_id


@pytest.mark.parametrize("version", range(10))
def test_a_life_of_one_member(node, version):
    """Join, sync, heartbeat, leave: in the version of each that belongs to the time of JoinGroup's."""
    link, group = node.link(), f"life-{version}"
    member_id = joined(link, group, version)
    sync_version, beat_version, leave_version = min(version, 5), min(version, 4), min(version, 5)
    request = SyncGroupRequest(
        group_id=group,
        generation_id=1,
        member_id=member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[SyncGroupRequestAssignment(member_id=member_id, assignment=b"\x01\xfe")],
    )
    answer = link.call(request, sync_version)
    assert (answer.error_code, answer.assignment) == (0, b"\x01\xfe")
    beat = HeartbeatRequest(group_id=group, generation_id=1, member_id=member_id)
    assert link.call(beat, beat_version).error_code == 0
    leave = LeaveGroupRequest(group_id=group, member_id=member_id, members=[MemberIdentity(member_id=member_id)])
    assert link.call(leave, leave_version).error_code == 0
    assert link.call(beat, beat_version).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_the_record_is_kafkas(node):
    """The client's identity and host, as Kafka writes them."""
    link = node.link(client_id="me")
    member_id = joined(link, "recorded", 9)
    assert member_id.startswith("me-")
    member = node.run(lambda: _group(node, "recorded").members.by_id[member_id])
    assert (member.client_id, member.client_host) == ("me", "/127.0.0.1")


def _group(node, group_id):
    return node.node.groups.host.of(group_id).shard.groups[group_id]


REQUESTS = [
    (join_group, lambda group: join(group, "m"), 9),
    (sync_group, lambda group: SyncGroupRequest(group_id=group, generation_id=1, member_id="m"), 5),
    (heartbeat, lambda group: HeartbeatRequest(group_id=group, generation_id=1, member_id="m"), 4),
    (leave_group, lambda group: LeaveGroupRequest(group_id=group, members=[MemberIdentity(member_id="m")]), 5),
]
each_request = pytest.mark.parametrize(
    ("module", "request_of", "version"), REQUESTS, ids=lambda one: getattr(one, "__name__", str(one)).rpartition(".")[2]
)


@each_request
def test_a_group_needs_a_name(node, module, request_of, version):
    """INVALID_GROUP_ID for the empty one."""
    assert node.link().call(request_of(""), version).error_code == ErrorCode.INVALID_GROUP_ID
    assert (module.API.operation, module.API.resource) == (Operation.READ, ResourceType.GROUP)


@each_request
def test_a_failure_has_its_answer_in_every_version(module, request_of, version):
    """Also where the whole request fails."""
    for one in range(version + 1):
        error = KafkaError(ErrorCode.NOT_COORDINATOR)
        failure = module.API.failure
        answer = (
            failed_response(module.API.response, one, error)
            if failure is None
            else failure(request_of("g"), one, error)
        )
        assert answer.error_code == ErrorCode.NOT_COORDINATOR


def test_reasons_are_logged(node, caplog):
    """Members that join and leave, and why (KIP-800); a long text is cut, and cannot break the line."""
    caplog.set_level("INFO")
    link = node.link(client_id="me")
    link.call(join("reasons", reason="new\ntopic " + "x" * 1_000), 9)
    link.call(
        LeaveGroupRequest(group_id="reasons", members=[MemberIdentity(member_id="m", reason="closed")]),
        5,
    )
    told = [record.getMessage() for record in caplog.records if "reasons" in record.getMessage()]
    assert told[0].startswith("group 'reasons': 'me' joins: 'new\\ntopic xxx")
    assert len(told[0]) < 400
    assert told[1] == "group 'reasons': 'm' leaves: 'closed'"


def test_heartbeats_while_groups_are_loaded():
    """Heartbeats are answered without an error, so that no member leaves because the broker is slow."""

    def loading(*_):
        raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    context = SimpleNamespace(broker=SimpleNamespace(groups=SimpleNamespace(heartbeat=loading)), allows=lambda _: True)
    beat = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    assert heartbeat.API.handle(context, beat).error_code == 0


def test_a_broker_without_the_topic_is_not_the_coordinator(start_node):
    """Clients find the coordinator first, which makes the topic."""
    link = start_node().link()
    assert link.call(join("g"), 9).error_code == ErrorCode.NOT_COORDINATOR
    assert link.call(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 4).error_code == 16
