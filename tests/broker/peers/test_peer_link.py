"""Links to a broker of ours."""

import asyncio
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from stratalog.broker.peers.dialer import TcpDialer
from stratalog.broker.peers.peer_errors import Peer, PeerClosed, PeerRefused, PeerUnavailable, PeerUnsupported
from stratalog.broker.peers.peer_link import PeerLink
from stratalog.broker.runtime.event_loop import run
from stratalog.wire.errors import Invalid
from stratalog.wire.messages.api_versions import ApiVersionsRequest
from stratalog.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from stratalog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from stratalog.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from stratalog.wire.messages.metadata import MetadataRequest
from stratalog.wire.messages.vote import VoteRequest


def fetch(topic_id, **options):
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 22)
    topic = FetchTopic(topic_id=topic_id, partitions=[partition])
    return FetchRequest(max_wait_ms=0, min_bytes=1, topics=[topic], **options)


async def test_requests_are_answered_in_the_version_that_both_speak(shared_broker, new_link):
    """The connection is made for the first of them, and stays."""
    link = new_link(shared_broker.port)
    assert not link.connected
    for _ in range(3):
        answer = await link.ask(MetadataRequest(topics=[]), timeout_ms=5000)
        assert answer.brokers[0].port == shared_broker.port
    assert (link.connected, link.connections, link.requests) == (True, 1, 0)
    link.close()


async def test_many_requests_are_in_flight_and_answered_in_order(shared_broker, new_link):
    """Each future has the answer to its own request."""
    if "many" not in shared_broker.node.image.topics.by_name:
        shared_broker.create("many", 40)
    link = new_link(shared_broker.port)
    done = []
    futures = []
    for number in range(100):
        partitions = [ListOffsetsPartition(partition_index=number % 40, timestamp=-1)]
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="many", partitions=partitions)])
        future = link.ask(request, timeout_ms=10_000)
        future.add_done_callback(lambda _, number=number: done.append(number))
        futures.append(future)
    answers = await asyncio.gather(*futures)
    assert [answer.topics[0].partitions[0].partition_index for answer in answers] == [n % 40 for n in range(100)]
    assert done == list(range(100))
    link.close()


async def test_a_fixed_version_needs_no_negotiation(shared_broker, new_link):
    """The first bytes of the connection are the request, as those of Kafka's replica fetchers."""
    link = new_link(shared_broker.port, negotiates=False)
    with pytest.raises(Invalid, match="version of each request"):
        link.ask(MetadataRequest(topics=[]), timeout_ms=5000)
    answer = await link.ask(MetadataRequest(topics=[]), timeout_ms=5000, version=9)
    assert answer.brokers
    link.close()


async def test_an_api_that_the_node_does_not_serve(shared_broker, new_link):
    """The request is not sent, and the connection stays for the others."""
    link = new_link(shared_broker.port)
    for _ in range(2):
        with pytest.raises(PeerUnsupported, match=rf"node 2 \(127.0.0.1:{shared_broker.port}\): Vote: it serves no"):
            await link.ask(VoteRequest(topics=[]), timeout_ms=5000)
    assert await link.ask(ApiVersionsRequest(client_software_name="a", client_software_version="1"), timeout_ms=5000)
    assert link.connections == 1
    link.close()


async def test_a_node_that_closes_at_a_request_is_asked_again_later(shared_broker, new_link):
    """Each request fails with the connection that it cost; the link goes on."""
    link = new_link(shared_broker.port, negotiates=False)
    heartbeat = BrokerHeartbeatRequest(broker_id=1, current_metadata_offset=0, want_fence=False, want_shut_down=False)
    for _ in range(2):
        with pytest.raises(PeerUnavailable, match=r"BrokerHeartbeat: (it closed the connection|the connection broke)"):
            await link.ask(heartbeat, timeout_ms=5000, version=2)
    assert (await link.ask(MetadataRequest(topics=[]), timeout_ms=5000, version=9)).brokers
    assert link.connections == 3
    link.close()


async def test_large_answers_are_not_copied(shared_broker, new_link):
    """The records are a view of the memory in which the answer was received."""
    if "large" not in shared_broker.node.image.topics.by_name:
        shared_broker.create("large", max_message_bytes=1 << 22)
        shared_broker.produce("large", bytes(1 << 20), b"end")
    topic_id = shared_broker.node.image.topics.by_name["large"].topic_id
    link = new_link(shared_broker.port, negotiates=False)
    answers = [await link.ask(fetch(topic_id), timeout_ms=5000, version=18) for _ in range(3)]
    for answer in answers:
        records = answer.responses[0].partitions[0].records
        assert isinstance(records, memoryview)
        assert len(memoryview(records.obj)) > len(records) > 1 << 20
        assert b"end" in bytes(records[-20:])
    link.close()


async def test_closing_fails_what_is_open(shared_broker, new_link):
    """So does a request after it; a second closing does nothing."""
    link = new_link(shared_broker.port)
    await link.ask(MetadataRequest(topics=[]), timeout_ms=5000)
    future = link.ask(MetadataRequest(topics=[]), timeout_ms=5000)
    link.close()
    link.close()
    for each in (future, link.ask(MetadataRequest(topics=[]), timeout_ms=5000)):
        with pytest.raises(PeerClosed, match="Metadata: the link is closed"):
            await each
    assert link.requests == 0
    await link.wait_closed()


async def test_a_link_that_closes_as_it_passes_over_a_request_fails_all_others(shared_broker, new_link):
    """Its caller had withdrawn it before there was a connection: the link has forgotten it, its machine not yet."""
    link = new_link(shared_broker.port, negotiates=False)
    withdrawn, other = (link.ask(MetadataRequest(topics=[]), timeout_ms=5000, version=9) for _ in range(2))
    withdrawn.cancel()
    connected = link.connection_made

    def closes_in_the_same_turn(connection):
        connected(connection)
        link.close()

    link.connection_made = closes_in_the_same_turn
    with pytest.raises(PeerClosed, match="Metadata: the link is closed"):
        await asyncio.wait_for(other, 10)
    assert link.requests == 0


def test_a_link_works_on_the_brokers_own_loop(shared_broker):
    """By name, with a look-up in a thread."""

    async def main():
        with ThreadPoolExecutor(1) as executor:
            link = PeerLink(
                Peer(1, "localhost", shared_broker.port),
                dialer=TcpDialer(executor),
                executor=executor,
                monotonic=time.monotonic,
                draw=lambda: 0.0,
                client_id="tester",
            )
            answers = [await link.ask(MetadataRequest(topics=[]), timeout_ms=5000) for _ in range(50)]
            link.close()
            await link.wait_closed()
            return answers, link.connections

    answers, connections = run(main())
    assert len(answers) == 50
    assert connections == 1


async def test_a_node_that_is_not_there(new_link):
    """The error says which node and why; a node that comes is found."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    link = new_link(port, node_id=7)
    for _ in range(3):
        with pytest.raises(PeerRefused, match=rf"^node 7 \(127.0.0.1:{port}\): Vote: cannot connect: .*refused"):
            await link.ask(VoteRequest(topics=[]), timeout_ms=5000)
    assert link.connections == 0
    link.close()


async def test_a_request_waits_for_the_end_of_the_back_off(shared_broker, new_link, executor):
    """It is not refused while no attempt is under way, and goes out with the next."""
    away = [True]

    class Sometimes(TcpDialer):
        async def dial(self, *args):
            if away[0]:
                raise OSError("away")
            return await super().dial(*args)

    link = new_link(shared_broker.port, dialer=Sometimes(executor))
    with pytest.raises(PeerUnavailable, match="away"):
        await link.ask(MetadataRequest(topics=[]), timeout_ms=5000)
    away[0] = False
    assert (await link.ask(MetadataRequest(topics=[]), timeout_ms=5000)).brokers
    link.close()
