"""Links to nodes that are silent, slow, or send nonsense: a clear error, bounded memory, and no other link suffers."""

import asyncio
import logging
import struct
import time

import pytest

from stratalog.broker.peers import peer_link
from stratalog.broker.peers.backoff import Backoff
from stratalog.broker.peers.peer_errors import PeerBusy, PeerClosed, PeerTimeout, PeerUnavailable, PeerUnsupported
from stratalog.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from stratalog.wire.messages.envelope import EnvelopeRequest
from stratalog.wire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from stratalog.wire.messages.vote import VoteRequest, VoteResponse
from stratalog.wire.schema import encode_bytes

VOTE = VoteRequest(topics=[])
GRANTED = VoteResponse(topics=[])


async def silent(node, reader, _writer):
    """Takes requests, answers none."""
    while True:
        await node.receive(reader)


async def deaf(node, _reader, _writer):
    """Does not even take them."""
    await asyncio.sleep(60)


async def good(node, reader, writer):
    """Answers each request."""
    await node.agree(reader, writer, 52)
    while True:
        request = await node.receive(reader)
        writer.write(request.answered(GRANTED))


async def ask(link, request=VOTE, timeout_ms=5000, version=None):
    return await link.ask(request, timeout_ms=timeout_ms, version=version)


async def test_a_silent_node_times_out(bad_node, new_link):
    """The oldest request with a time-out, those behind it with the connection; then there is a new one."""
    node = await bad_node(silent)
    link = new_link(node.port, negotiates=False)
    first = link.ask(VOTE, timeout_ms=60, version=2)
    second = link.ask(VOTE, timeout_ms=5000, version=2)
    with pytest.raises(PeerTimeout, match=rf"node 2 \(127.0.0.1:{node.port}\): Vote: no answer within 60 ms"):
        await first
    with pytest.raises(PeerUnavailable, match="no answer within 60 ms to a request"):
        await second
    with pytest.raises(PeerTimeout):
        await ask(link, timeout_ms=60, version=2)
    assert node.connections == 2
    link.close()


async def test_a_node_that_is_silent_about_its_versions_times_out(bad_node, new_link):
    """Requests by their own time, the attempt by that of connections."""
    node = await bad_node(silent)
    link = new_link(node.port, limits={"connect": Backoff(80, 80)})
    with pytest.raises(PeerTimeout, match=r"could not be sent within 30 ms \(asking for API versions\)"):
        await ask(link, timeout_ms=30)
    with pytest.raises(PeerUnavailable, match=r"no connection in time \(asking for API versions\)"):
        await ask(link)
    link.close()


async def test_a_dial_that_never_ends_is_given_up(new_link):
    """The attempt is cancelled, and the link can be closed cleanly while one is under way."""
    ends = []

    class Never:
        async def dial(self, *_args):
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                ends.append("cancelled")
                raise

    link = new_link(1, dialer=Never(), limits={"connect": Backoff(50, 50)})
    with pytest.raises(PeerUnavailable, match=r"no connection in time \(connecting\)"):
        await ask(link)
    open_request = link.ask(VOTE, timeout_ms=5000)
    await asyncio.sleep(0.02)
    link.close()
    await link.wait_closed()
    assert ends == ["cancelled"] * 2
    with pytest.raises(PeerClosed):
        await open_request


async def test_a_silent_node_costs_no_other_link_anything(bad_node, new_link):
    """Requests to a good node are answered while a hundred to a deaf one wait; one beyond the bound fails at once."""
    bad, fine = await bad_node(deaf), await bad_node(good)
    stuck = new_link(bad.port, negotiates=False, limits={"requests_max": 100})
    futures = [stuck.ask(VOTE, timeout_ms=60_000, version=2) for _ in range(100)]
    began = time.monotonic()
    with pytest.raises(PeerBusy, match=r"Vote: 100 requests of .* bytes wait for it already"):
        await ask(stuck, version=2)
    link = new_link(fine.port)
    for _ in range(50):
        assert await ask(link) == GRANTED
    assert time.monotonic() - began < 5
    assert not any(future.done() for future in futures)
    link.close()
    stuck.close()
    assert {type(future.exception()) for future in futures} == {PeerClosed}


async def test_a_node_that_reads_nothing_holds_bounded_memory(bad_node, new_link):
    """Bytes that the kernel does not take count as well."""
    node = await bad_node(deaf)
    link = new_link(node.port, negotiates=False, limits={"request_bytes_max": 10 << 20})
    request = EnvelopeRequest(request_data=bytes(1 << 20), request_principal=None, client_host_address=b"")
    futures = [link.ask(request, timeout_ms=60_000, version=0) for _ in range(9)]
    await asyncio.sleep(0.05)
    futures += [link.ask(request, timeout_ms=60_000, version=0) for _ in range(5)]
    refused = [future for future in futures if future.done()]
    assert len(refused) == 5
    assert {type(future.exception()) for future in refused} == {PeerBusy}
    assert link.requests == 9
    link.close()
    assert all(isinstance(future.exception(), PeerBusy | PeerClosed) for future in futures)


def raw(payload):
    return struct.pack(">i", len(payload)) + payload


NONSENSE = {
    "a wrong correlation id": (lambda request: request.answered(GRANTED, correlation_id=99), "answer 99 came where"),
    "the largest length": (lambda _: struct.pack(">i", 2**31 - 1), "declares an answer of 2147483647 bytes"),
    "a negative length": (lambda _: struct.pack(">i", -5), "declares an answer of -5 bytes"),
    "an empty frame": (lambda _: raw(b""), "declares an answer of 0 bytes"),
    "plain HTTP": (lambda _: b"HTTP/1.1 400 Bad Request\r\n\r\n", "declares an answer of 1213486160 bytes"),
    "a body that is cut off": (lambda request: raw(request.answered(GRANTED)[4:-2]), "an answer cannot be read"),
    "a body of other bytes": (
        lambda request: raw(struct.pack(">i", request.correlation_id) + b"\0" + b"\xff" * 30),
        "an answer cannot be read",
    ),
    "tags without an end": (
        lambda request: raw(struct.pack(">i", request.correlation_id) + b"\xff" * 30),
        "an answer cannot be read",
    ),
    "half a frame": (lambda request: request.answered(GRANTED)[:-3], "it closed the connection"),
    "one answer too many": (
        lambda request: request.answered(GRANTED, correlation_id=request.correlation_id + 1),
        "came where",
    ),
}


@pytest.mark.parametrize("what", NONSENSE)
async def test_nonsense_ends_the_connection(bad_node, new_link, what):
    """All requests in flight fail with the reason; the next one goes over a new connection and is answered."""
    nonsense, reason = NONSENSE[what]

    async def behave(node, reader, writer):
        await node.agree(reader, writer, 52)
        if node.connections == 1:
            request = await node.receive(reader)
            await node.receive(reader)
            writer.write(nonsense(request))
            return
        while True:
            writer.write((await node.receive(reader)).answered(GRANTED))

    node = await bad_node(behave)
    link = new_link(node.port)
    for future in [link.ask(VOTE, timeout_ms=5000) for _ in range(2)]:
        with pytest.raises(PeerUnavailable, match=reason):
            await future
    assert await ask(link) == GRANTED
    assert link.connections == 2
    link.close()


async def test_a_reset_in_the_middle_of_a_large_answer(bad_node, new_link):
    """Its bytes are gone with the connection, and the next one begins clean."""

    async def behave(node, reader, writer):
        request = await node.receive(reader)
        topic = FetchableTopicResponse(
            topic_id=bytes(16), partitions=[PartitionData(partition_index=0, high_watermark=1, records=bytes(3 << 20))]
        )
        answer = request.answered(FetchResponse(responses=[topic]))
        if node.connections == 1:
            writer.write(answer[: 2 << 20])
            await writer.drain()
            await asyncio.sleep(0.02)
            writer.transport.abort()
            return
        writer.write(answer)
        await node.receive(reader)

    node = await bad_node(behave)
    link = new_link(node.port, negotiates=False)
    fetch = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[])
    with pytest.raises(PeerUnavailable, match=r"Fetch: the connection broke|Fetch: it closed"):
        await ask(link, fetch, version=18)
    answer = await ask(link, fetch, version=18)
    assert answer.responses[0].partitions[0].records == bytes(3 << 20)
    link.close()


async def test_a_slow_node_has_as_long_as_the_request(bad_node, new_link):
    """An answer that comes byte by byte is taken; one that is not complete in time is none, however much has come."""

    async def behave(node, reader, writer):
        for pause in (0.0005, 0.02):
            for byte in (await node.receive(reader)).answered(GRANTED):
                writer.write(bytes([byte]))
                await asyncio.sleep(pause)

    node = await bad_node(behave)
    link = new_link(node.port, negotiates=False)
    assert await ask(link, version=2) == GRANTED
    with pytest.raises(PeerTimeout, match="no answer within 60 ms"):
        await ask(link, timeout_ms=60, version=2)
    link.close()


async def test_a_node_that_comes_back_may_speak_otherwise(bad_node, new_link):
    """Versions hold for one connection: a request between two of them waits for the next."""

    async def behave(node, reader, writer):
        if node.connections == 1:
            await node.agree(reader, writer)
            await node.receive(reader)
        else:
            await good(node, reader, writer)

    node = await bad_node(behave)
    link = new_link(node.port)
    with pytest.raises(PeerUnsupported, match="it serves no version"):
        await ask(link)
    with pytest.raises(PeerUnavailable):
        await ask(link, version=2)
    assert await ask(link) == GRANTED
    link.close()


async def test_versions_that_cannot_be_read(bad_node, new_link):
    """An answer that is none, an error, and a node that does not know any version."""
    answers = [
        lambda request: raw(struct.pack(">i", request.correlation_id) + b"\0"),
        lambda request: request.answered(ApiVersionsResponse(error_code=42, api_keys=[]), version=0),
        lambda request: request.answered(ApiVersionsResponse(error_code=35, api_keys=[]), version=0),
    ]

    async def behave(node, reader, writer):
        answer = answers[min(node.connections, len(answers)) - 1]
        while True:
            writer.write(answer(await node.receive(reader)))

    node = await bad_node(behave)
    link = new_link(node.port)
    for reason in ("its API versions cannot be read", "error 42", "error 35"):
        with pytest.raises(PeerUnavailable, match=reason):
            await ask(link)
    link.close()
    assert [request.version for request in node.received] == [4, 4, 4, 0]


async def test_an_old_node_is_asked_for_its_versions_again(bad_node, new_link):
    """In the newest version that it says to know (KIP-511)."""

    async def behave(node, reader, writer):
        row = ApiVersion(api_key=18, min_version=0, max_version=2)
        refusal = ApiVersionsResponse(error_code=35, api_keys=[row])
        writer.write((await node.receive(reader)).answered(refusal, version=0))
        await good(node, reader, writer)

    node = await bad_node(behave)
    link = new_link(node.port)
    assert await ask(link) == GRANTED
    assert [(request.key, request.version) for request in node.received] == [(18, 4), (18, 2), (52, 2)]
    link.close()


async def test_a_request_that_is_cancelled_before_it_is_sent_is_not_sent(bad_node, new_link):
    """One that is in flight is answered to no one, and the next gets its own answer."""
    node = await bad_node(good)
    link = new_link(node.port)
    link.ask(VoteRequest(cluster_id="gone", topics=[]), timeout_ms=5000).cancel()
    assert await ask(link, VoteRequest(cluster_id="first", topics=[])) == GRANTED
    link.ask(VoteRequest(cluster_id="second", topics=[]), timeout_ms=5000).cancel()
    assert await ask(link, VoteRequest(cluster_id="third", topics=[])) == GRANTED
    assert [request.message.cluster_id for request in node.received[1:]] == ["first", "second", "third"]
    link.close()


async def longest_turn(work):
    """The longest turn of the loop, in seconds of its thread's CPU, while ``work`` is awaited; and what that returned."""
    turns = []

    async def watch():
        while True:
            began = time.thread_time()
            await asyncio.sleep(0)
            turns.append(time.thread_time() - began)

    watching = asyncio.create_task(watch())
    found = await work
    watching.cancel()
    return max(turns), found


async def test_an_answer_of_many_elements_holds_no_turn_of_the_loop(bad_node, new_link):
    """It is read in a thread; the loop's own turns stay below 50 ms of CPU. One that cannot be read is an error."""
    partitions = [PartitionData(partition_index=number, high_watermark=1, records=b"") for number in range(12_000)]
    topic = FetchableTopicResponse(topic_id=bytes(16), partitions=partitions)
    body = encode_bytes(FetchResponse(responses=[topic]), 18)
    del partitions, topic

    async def behave(node, reader, writer):
        for end in (b"", b"", b"", b"\xff"):
            request = await node.receive(reader)
            head = struct.pack(">ib", request.correlation_id, 0)
            writer.write(raw(head + body[: len(body) - len(end)] + end))

    node = await bad_node(behave)
    link = new_link(node.port, negotiates=False)
    fetch = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[])
    turns = []
    for _ in range(3):  # the collector's turns are no part of the link's work, and do not come each time
        turn, answer = await longest_turn(ask(link, fetch, version=18))
        turns.append(turn)
        assert len(answer.responses[0].partitions) == 12_000
        del answer
    assert min(turns) < 0.05
    with pytest.raises(PeerUnavailable, match="an answer cannot be read"):
        await ask(link, fetch, version=18)
    link.close()


async def test_the_log_has_one_line_for_failures_in_a_row(new_link, caplog):
    """The others are for those who look closely."""

    class Refuses:
        async def dial(self, *_args):
            raise ConnectionRefusedError(111, "Connection refused")

    link = new_link(9, dialer=Refuses())
    with caplog.at_level(logging.DEBUG, peer_link.__name__):
        for _ in range(4):
            with pytest.raises(PeerUnavailable):
                await ask(link)
    lines = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert lines[0] == ("WARNING", "node 2 (127.0.0.1:9): cannot connect: Connection refused")
    assert [level for level, _ in lines[1:]] == ["DEBUG"] * 3
    link.close()


async def test_closing_lets_the_node_see_an_end(bad_node, new_link):
    """The connection is closed, not left to the collector; so is one that comes too late."""
    node = await bad_node(good)
    link = new_link(node.port)
    await ask(link)
    link.close()
    for _ in range(100):
        if node.ended:
            break
        await asyncio.sleep(0.01)
    assert node.ended == 1
