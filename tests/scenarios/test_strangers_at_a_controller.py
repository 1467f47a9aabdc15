"""Strangers at the listener of controllers: refused or hung up on, bounded in memory, lines and descriptors; the cluster goes on."""

import contextlib
import random
import socket
import struct
import time
import tracemalloc
from pathlib import Path

import pytest

from stratalog.broker.quorum.wire.messages import request_to_wire
from stratalog.client.link import BrokerLink, BrokerUnavailable
from stratalog.metadata.raft.messages import BeginQuorumEpochRequest, FetchRequest, VoteRequest
from stratalog.metadata.raft.voter_set import Endpoint, ReplicaKey
from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from stratalog.wire.messages.broker_registration import BrokerRegistrationRequest, Feature, Listener
from stratalog.wire.messages.envelope import EnvelopeRequest
from tests.broker.nodes_of_a_cluster import CLUSTER_ID, RunningNodes
from tests.scenarios.test_hostile_frames import HOSTILE

pytestmark = pytest.mark.story

CONNECTIONS = 3000
LINES_MAX = 400
"""Each place in the code may log 20 lines at once: far fewer than the thousands of things that are sent here."""


@pytest.fixture(scope="module")
def nodes(tmp_path_factory):
    """A controller and a broker."""
    made = RunningNodes(tmp_path_factory.mktemp("strangers"), {100: "controller", 1: "broker"})
    made.start()
    yield made
    made.stop()


@pytest.fixture
def link(nodes):
    with BrokerLink("127.0.0.1", nodes.ports[100]) as opened:
        yield opened


@pytest.fixture(autouse=True)
def unharmed(nodes, caplog):
    """After each attack: the same leader and epoch, the broker registered as before, few lines."""
    before = state(nodes)
    yield
    assert state(nodes) == before
    nodes[1].create(f"t{time.monotonic_ns()}")
    assert len(caplog.messages) < LINES_MAX


def state(nodes):
    quorum = nodes[100].node.quorum
    return nodes[100].run(lambda: (quorum.leader.leader_id, quorum.leader.epoch, quorum.image.brokers.brokers[1].epoch))


def descriptors():
    return len(list(Path("/proc/self/fd").iterdir()))


def send(port, data):
    """Send bytes and wait for the end of the connection, or a moment."""
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        connection.settimeout(0.2)
        try:
            connection.sendall(data)
            while connection.recv(1 << 16):
                pass
        except OSError:
            pass


def test_garbage_costs_one_connection(nodes):
    """The hostile frames that brokers get, and random bytes under every key of the quorum."""
    dice = random.Random(5)
    for data in HOSTILE.values():
        send(nodes.ports[100], data)
    for key in (1, 52, 53, 54, 55, 58, 59, 62, 63, 70, 73, 80, 81, 82):
        for _ in range(5):
            payload = struct.pack(">hhih", key, dice.randrange(4), 1, -1) + dice.randbytes(dice.randrange(200))
            send(nodes.ports[100], struct.pack(">i", len(payload)) + payload)


def test_announced_sizes_take_no_memory(nodes):
    """A hundred connections; each says that 100 MB follow."""
    tracemalloc.start()
    try:
        opened = [socket.create_connection(("127.0.0.1", nodes.ports[100])) for _ in range(100)]
        for one in opened:
            one.sendall(struct.pack(">i", 100 << 20) + b"\0\x01" * 50)
        time.sleep(1)
        taken_bytes = tracemalloc.get_traced_memory()[0]
        for one in opened:
            one.close()
    finally:
        tracemalloc.stop()
    assert taken_bytes < 64 << 20


def test_many_connections_are_bounded_and_leave_nothing(nodes):
    """As many as this process may open; afterwards the descriptors are as before, and brokers were served throughout."""
    before = descriptors()
    opened = []
    with contextlib.suppress(OSError):
        while len(opened) < CONNECTIONS:
            opened.append(socket.create_connection(("127.0.0.1", nodes.ports[100]), timeout=5))
    assert len(opened) > 200
    nodes[1].create(f"among{time.monotonic_ns()}")
    for one in opened:
        one.close()
    deadline = time.monotonic() + 20
    while descriptors() > before + 20 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert descriptors() <= before + 20


@pytest.mark.parametrize("cluster_id", [CLUSTER_ID, None, "4L6g3nShT-eMCtK--X86sw"])
@pytest.mark.parametrize("epoch", [0, 2**31 - 1])
def test_fetches_of_unknown_replicas_change_nothing(link, cluster_id, epoch):
    """Another cluster's, of an epoch before or after any; the leader stays."""
    asked = FetchRequest(epoch, ReplicaKey(77, b"s" * 16), 0, 0, 0, 0, cluster_id)
    answer = link.call(request_to_wire(asked, cluster_id=cluster_id or ""), 17)
    code = answer.error_code or answer.responses[0].partitions[0].error_code
    if cluster_id not in (CLUSTER_ID, None):
        assert code == ErrorCode.INCONSISTENT_CLUSTER_ID
    else:
        assert code in (
            ErrorCode.FENCED_LEADER_EPOCH,
            ErrorCode.UNKNOWN_LEADER_EPOCH,
            ErrorCode.INCONSISTENT_CLUSTER_ID,
        )


def test_votes_for_strangers_in_other_clusters_and_for_other_directories_are_refused(nodes, link):
    """A pre-vote changes nothing, and a leader that is heard of gives none."""
    me = ReplicaKey(100, nodes.ids[100])
    wrong = ReplicaKey(100, b"w" * 16)
    for voter, cluster_id, code in (
        (me, "another", ErrorCode.INCONSISTENT_CLUSTER_ID),
        (wrong, CLUSTER_ID, ErrorCode.INVALID_VOTER_KEY),
        (me, CLUSTER_ID, ErrorCode.NONE),
    ):
        epoch = nodes[100].node.quorum.leader.epoch
        asked = VoteRequest(epoch, ReplicaKey(77, b"s" * 16), voter, epoch, 10**9, pre_vote=True, cluster_id=cluster_id)
        answer = link.call(request_to_wire(asked, cluster_id=cluster_id), 2)
        row = answer.topics[0].partitions[0] if answer.topics else None
        assert (answer.error_code or row.error_code) == code
        assert row is None or not row.vote_granted


def test_a_leader_of_another_cluster_is_not_followed(nodes, link):
    """BeginQuorumEpoch of an epoch that would end this leader's."""
    me = ReplicaKey(100, nodes.ids[100])
    asked = BeginQuorumEpochRequest(10**6, 77, me, (Endpoint("CONTROLLER", "h", 1),), "another")
    assert link.call(request_to_wire(asked, cluster_id="another"), 1).error_code == ErrorCode.INCONSISTENT_CLUSTER_ID


def registration(cluster_id, broker_id):
    return BrokerRegistrationRequest(
        broker_id=broker_id,
        cluster_id=cluster_id,
        incarnation_id=b"x" * 16,
        listeners=[Listener(name="PLAINTEXT", host="h", port=1, security_protocol=0)],
        features=[Feature(name="metadata.version", min_supported_version=7, max_supported_version=30)],
        rack=None,
        is_migrating_zk_broker=False,
        log_dirs=[b"y" * 16],
        previous_broker_epoch=-1,
    )


def test_registrations_of_another_cluster_and_of_an_id_in_use_are_refused_with_few_lines(link, caplog):
    """One after the other without a pause; the broker keeps its epoch."""
    for _ in range(100):
        assert link.call(registration("another", 5), 4).error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
        assert link.call(registration(CLUSTER_ID, 1), 4).error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    assert len([one for one in caplog.messages if "is not registered" in one]) == 2


def test_heartbeats_of_another_epoch_are_refused(nodes, link):
    """They count as no contact, and stop no broker."""
    epoch = nodes[100].node.image.brokers.brokers[1].epoch
    for broker_id, stale in ((1, epoch - 1), (1, epoch + 1), (9, 1)):
        asked = BrokerHeartbeatRequest(
            broker_id=broker_id,
            broker_epoch=stale,
            current_metadata_offset=0,
            want_fence=True,
            want_shut_down=True,
            offline_log_dirs=[],
            cordoned_log_dirs=None,
        )
        code = link.call(asked, 1).error_code
        assert code in (ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED)


def test_requests_of_controllers_have_no_place_on_the_listener_of_clients(nodes):
    """Neither the quorum's own nor a forged envelope: the connection is closed."""
    vote = VoteRequest(9, ReplicaKey(77), ReplicaKey(100), 1, 1, pre_vote=True, cluster_id=CLUSTER_ID)
    asked = [
        (request_to_wire(vote, cluster_id=CLUSTER_ID), 2),
        (registration(CLUSTER_ID, 5), 4),
        (EnvelopeRequest(request_data=b"\0" * 20, request_principal=b"", client_host_address=b"\x7f\0\0\x01"), 0),
    ]
    for request, version in asked:
        with BrokerLink("127.0.0.1", nodes[1].port) as link, pytest.raises(BrokerUnavailable):
            link.call(request, version)
