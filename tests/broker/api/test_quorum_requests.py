"""The APIs of the metadata quorum over real connections, with a quorum that answers when the test says so."""

import asyncio
from types import SimpleNamespace

import pytest

from stratalog.broker.api import (
    add_raft_voter,
    begin_quorum_epoch,
    describe_quorum,
    end_quorum_epoch,
    fetch_snapshot,
    raft_fetch,
    remove_raft_voter,
    update_raft_voter,
    vote,
)
from stratalog.broker.quorum.leadership import LeaderAndEpoch, QuorumStatus, QuorumView, ReplicaStatus
from stratalog.broker.quorum.wire.messages import answer_from_wire, request_to_wire
from stratalog.broker.requests.authorizer import Operation, ResourceType
from stratalog.metadata.raft import messages as raft
from stratalog.metadata.raft.voter_set import Endpoint, ReplicaKey, Voter, VoterSet
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.describe_quorum import DescribeQuorumRequest, RequestedPartition, RequestedTopic
from stratalog.wire.messages.fetch import FetchRequest

ME = ReplicaKey(2, b"me" * 8)
OTHER = ReplicaKey(1, b"he" * 8)
AT = (Endpoint("TEST", "node1", 9093),)
VOTER = Voter(OTHER, AT)
NONE = ErrorCode.NONE

RAFT = [
    (vote.API, raft.VoteRequest(3, OTHER, ME, 2, 7), raft.VoteAnswer(NONE, 3, 1, AT, granted=True)),
    (begin_quorum_epoch.API, raft.BeginQuorumEpochRequest(3, 1, ME, AT), raft.EpochAnswer(NONE, 3, 1, AT)),
    (end_quorum_epoch.API, raft.EndQuorumEpochRequest(3, 1, (ME,)), raft.EpochAnswer(NONE, 3, 1, AT)),
    (raft_fetch.API, raft.FetchRequest(3, OTHER, 7, 2, 5, 500), raft.FetchAnswer(NONE, 3, 2, AT, 7)),
    (
        fetch_snapshot.API,
        raft.FetchSnapshotRequest(3, OTHER, raft.OffsetAndEpoch(9, 2), 4),
        raft.FetchSnapshotAnswer(NONE, 3, 2, AT, raft.OffsetAndEpoch(9, 2), 1000, 4, b"data"),
    ),
    (add_raft_voter.API, raft.AddVoterRequest(VOTER), raft.VoterChangeAnswer(NONE)),
    (remove_raft_voter.API, raft.RemoveVoterRequest(OTHER), raft.VoterChangeAnswer(NONE)),
    (update_raft_voter.API, raft.UpdateVoterRequest(3, VOTER), raft.VoterChangeAnswer(NONE, "", 3, 2, AT)),
]
KEYS = {row.key: row for row, _, _ in RAFT}
APIS = [*KEYS.values(), describe_quorum.API]


def api_name(value):
    return value.name if hasattr(value, "handle") else ""


class FakeQuorum:
    """A replica that keeps what it is asked; the answers are the test's."""

    node_id = ME.id
    directory_id = ME.directory_id
    cluster_id = "cluster"
    leader = LeaderAndEpoch(2, 3, AT)
    is_active = True
    high_watermark = 7
    kraft_version = 1
    voters = VoterSet()
    log_end_offset = 9

    def __init__(self):
        self.asked = []
        self.status = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "node 1 leads")

    def receive(self, request):
        future = asyncio.get_running_loop().create_future()
        self.asked.append((request, future))
        return future

    def propose(self, records, *, epoch):
        raise NotImplementedError

    def upgrade(self, level, *, validate_only=False):
        raise NotImplementedError

    def describe(self):
        if isinstance(self.status, KafkaError):
            raise self.status
        return self.status

    def on_leader_change(self, listener):
        raise NotImplementedError


@pytest.fixture
def quorum():
    return FakeQuorum()


@pytest.fixture
async def edge(serve, quorum):
    """A listener of controllers called TEST."""
    return await serve(*APIS, broker=broker_with(quorum))


def broker_with(quorum):
    return SimpleNamespace(
        quorum=quorum,
        config=SimpleNamespace(roles=SimpleNamespace(controller_listeners=("TEST", "OTHER"))),
        image=SimpleNamespace(brokers=SimpleNamespace(brokers={})),
    )


def test_the_quorum_of_these_tests_is_one():
    """It has all that a `QuorumView` has."""
    for name in vars(QuorumView):
        if name[0] != "_":
            assert hasattr(FakeQuorum, name), name


@pytest.mark.parametrize(("row", "request_", "answer"), RAFT, ids=api_name)
async def test_the_answer_is_that_of_the_quorum_when_it_comes(row, request_, answer, edge, quorum, until):
    """In every version; the request reaches the quorum as a value, and the address is that of the asked listener."""
    client = await edge.client()
    for version in range(max(row.versions[0], 13 if row.key == 1 else 0), row.versions[1] + 1):
        await client.send(client.frame(request_to_wire(request_), version))
        await until(lambda: quorum.asked)
        ((asked, future),) = quorum.asked
        quorum.asked.clear()
        assert type(asked) is type(request_)
        if version == row.versions[1]:
            assert asked == request_
        future.set_result(answer)
        _, message = await client.answer(row.response, version)
        arrived = answer_from_wire(request_, message, "TEST")
        if version == row.versions[1]:
            assert arrived == answer
        else:
            assert arrived.error is NONE


@pytest.mark.parametrize("row", KEYS.values(), ids=api_name)
async def test_a_request_for_another_cluster_is_refused_at_once(row, edge, quorum):
    """As a whole, and the connection goes on."""
    request = next(request for known, request, _ in RAFT if known is row)
    message = request_to_wire(request)
    message.cluster_id = "another"
    client = await edge.client()
    for _ in range(2):
        answer = await client.ask(message, row.response, row.versions[1])
        assert answer.error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
    assert quorum.asked == []


@pytest.mark.parametrize("version", range(4, 19))
async def test_a_consumer_does_not_fetch_from_a_controller(version, edge, quorum):
    """It names topics, or those of clients, and is refused; up to version 6 there is no room for the code."""
    answer = await (await edge.client()).ask(
        FetchRequest(max_wait_ms=500, min_bytes=1, topics=[]), raft_fetch.API.response, version
    )
    assert answer.error_code == (ErrorCode.INVALID_REQUEST if version >= 7 else NONE)
    assert answer.responses == []
    assert quorum.asked == []


@pytest.mark.parametrize("row", [add_raft_voter.API, update_raft_voter.API], ids=api_name)
async def test_a_voter_that_cannot_be_reached_by_the_others_has_no_endpoints(row, edge, quorum, until):
    """They use the first of ``controller.listener.names``; for such a voter a leader has INVALID_REQUEST."""
    request = next(request for known, request, _ in RAFT if known is row)
    message = request_to_wire(request)
    message.listeners[0].name = "OTHER"
    client = await edge.client()
    await client.send(client.frame(message))
    await until(lambda: quorum.asked)
    assert quorum.asked[0][0].voter.endpoints == ()


async def test_a_client_that_goes_away_takes_its_request_along(edge, quorum, until):
    """The quorum hears that no one waits for the answer."""
    client = await edge.client()
    await client.send(client.frame(request_to_wire(RAFT[3][1]), 18))
    await until(lambda: quorum.asked)
    client.close()
    await until(quorum.asked[0][1].cancelled)


async def test_a_quorum_that_ends_leaves_no_client_waiting(edge, quorum, until):
    """The connection is closed: the request may be repeated elsewhere."""
    client = await edge.client()
    await client.send(client.frame(request_to_wire(RAFT[0][1]), 2))
    await until(lambda: quorum.asked)
    quorum.asked[0][1].cancel()
    assert await client.closed_by_server()


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "the disk is gone"), ErrorCode.KAFKA_STORAGE_ERROR),
        (ZeroDivisionError("a bug"), ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
async def test_an_answer_that_fails_is_an_error_of_the_whole(error, code, edge, quorum, until):
    """As with every other API."""
    client = await edge.client()
    await client.send(client.frame(request_to_wire(RAFT[0][1]), 2))
    await until(lambda: quorum.asked)
    quorum.asked[0][1].set_exception(error)
    _, answer = await client.answer(vote.API.response, 2)
    assert (answer.error_code, answer.topics) == (code, [])


async def test_an_answer_of_the_wrong_kind_is_a_fault_of_this_node(edge, quorum, until, caplog):
    """It is logged, and the client is answered."""
    client = await edge.client()
    await client.send(client.frame(request_to_wire(RAFT[0][1]), 2))
    await until(lambda: quorum.asked)
    quorum.asked[0][1].set_result(raft.EpochAnswer(NONE, 3))
    _, answer = await client.answer(vote.API.response, 2)
    assert answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert "EpochAnswer is no answer to VoteRequest" in caplog.text


async def test_answers_leave_in_the_order_of_the_requests(edge, quorum, until):
    """One that waits holds up those behind it."""
    client = await edge.client()
    for _, request, _ in RAFT[:2]:
        message = request_to_wire(request)
        await client.send(client.frame(message, type(message).versions[1]))
    await until(lambda: len(quorum.asked) == 2)
    for (_, future), (_, _, answer) in reversed(list(zip(quorum.asked, RAFT[:2], strict=True))):
        future.set_result(answer)
    assert (await client.answer(vote.API.response, 2))[1].topics[0].partitions[0].vote_granted
    assert (await client.answer(begin_quorum_epoch.API.response, 1))[1].error_code == NONE


class Refusing:
    """An authorizer that permits one operation on the cluster."""

    def __init__(self, operation):
        self.operation = operation

    def permitted(self, _principal, _host, resource, _name):
        return 1 << self.operation if resource is ResourceType.CLUSTER else 0


@pytest.mark.parametrize("row", APIS, ids=api_name)
@pytest.mark.parametrize("allowed", [Operation.CLUSTER_ACTION, Operation.ALTER, Operation.DESCRIBE])
async def test_each_request_needs_its_operation_on_the_cluster(row, allowed, serve, quorum, until):
    """Replicas act for the cluster, an administrator alters it, and a client may look at the quorum."""
    needed = {80: Operation.ALTER, 81: Operation.ALTER, 55: Operation.DESCRIBE}.get(row.key, Operation.CLUSTER_ACTION)
    edge = await serve(*APIS, broker=broker_with(quorum), authorizer=Refusing(allowed))
    client = await edge.client()
    message = next((request_to_wire(request) for known, request, _ in RAFT if known is row), None)
    message = DescribeQuorumRequest(topics=[]) if message is None else message
    await client.send(client.frame(message, row.versions[1]))
    if allowed is needed and row.key != 55:
        await until(lambda: quorum.asked)
        return
    _, answer = await client.answer(row.response, row.versions[1])
    assert answer.error_code == (NONE if allowed is needed else ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    assert quorum.asked == []


def describe(*names):
    return DescribeQuorumRequest(
        topics=[
            RequestedTopic(topic_name=name, partitions=[RequestedPartition(partition_index=number)])
            for name, number in names
        ]
    )


async def test_the_leader_describes_all_replicas(edge, quorum):
    """In every version what it has: times from 1 on, directories and addresses of voters from 2 on."""
    quorum.status = QuorumStatus(
        LeaderAndEpoch(2, 3, AT),
        7,
        (ReplicaStatus(OTHER, 8, 1000, 900, AT), ReplicaStatus(ME, 9, 1100, 1100)),
        (ReplicaStatus(ReplicaKey(5, b"ob" * 8), 6, 1050, -1),),
    )
    client = await edge.client()
    for version in range(3):
        answer = await client.ask(describe(("__cluster_metadata", 0)), describe_quorum.API.response, version)
        ((found,),) = [topic.partitions for topic in answer.topics]
        assert (found.error_code, found.leader_id, found.leader_epoch, found.high_watermark) == (0, 2, 3, 7)
        times = version >= 1
        assert [(one.replica_id, one.log_end_offset) for one in found.current_voters] == [(1, 8), (2, 9)]
        assert [one.last_fetch_timestamp for one in found.current_voters] == ([1000, 1100] if times else [-1, -1])
        assert [one.last_caught_up_timestamp for one in found.current_voters] == ([900, 1100] if times else [-1, -1])
        assert [(one.replica_id, one.log_end_offset) for one in found.observers] == [(5, 6)]
        if version < 2:
            assert answer.nodes == []
    assert [one.replica_directory_id for one in found.current_voters] == [OTHER.directory_id, ME.directory_id]
    assert [(node.node_id, [(at.name, at.host, at.port) for at in node.listeners]) for node in answer.nodes] == [
        (1, [("TEST", "node1", 9093)]),
        (2, []),
    ]


async def test_another_controller_does_not_describe_the_quorum(edge):
    """It says so beside the partition."""
    answer = await (await edge.client()).ask(describe(("__cluster_metadata", 0)), describe_quorum.API.response, 2)
    ((found,),) = [topic.partitions for topic in answer.topics]
    assert (answer.error_code, found.error_code) == (0, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert (found.error_message, found.current_voters, answer.nodes) == ("node 1 leads", [], [])


async def test_a_controller_knows_the_quorum_of_no_other_log(edge, quorum):
    """Each unknown partition has its error, the known one beside them its answer."""
    quorum.status = QuorumStatus(LeaderAndEpoch(2, 3), 7, (ReplicaStatus(ME, 9),))
    answer = await (await edge.client()).ask(
        describe(("t", 0), ("__cluster_metadata", 0), ("__cluster_metadata", 1)),
        describe_quorum.API.response,
        2,
    )
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [topic.partitions[0].error_code for topic in answer.topics] == [unknown, NONE, unknown]
