"""Hostile bytes against the whole broker: a clear error or a closed connection, little memory, and everybody else served."""

import random
import socket
import struct
import time
import tracemalloc

import pytest

from stratalog.wire.frame import encode_request
from stratalog.wire.messages.metadata import MetadataRequest
from stratalog.wire.messages.registry import APIS
from stratalog.wire.schema import encode_bytes

MIB = 1 << 20


def frame(key: int, version: int, body: bytes, *, flexible: bool) -> bytes:
    return b"".join(map(bytes, encode_request(key, version, 7, "x", [body], flexible=flexible)))


def raw(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


HOSTILE = {
    "a negative length": struct.pack(">i", -1),
    "the largest length": struct.pack(">i", 2**31 - 1),
    "an empty frame": raw(b""),
    "less than a header": raw(b"\x00\x03\x00\x0c"),
    "an unknown key": raw(struct.pack(">hhih", 999, 0, 1, -1)),
    "a negative key": raw(struct.pack(">hhih", -5, 0, 1, -1)),
    "an unknown version": raw(struct.pack(">hhih", 3, 99, 1, -1)),
    "a client name beyond the frame": raw(struct.pack(">hhih", 3, 0, 1, 30_000) + b"abc"),
    "a client name that is not text": raw(struct.pack(">hhih", 3, 0, 1, 2) + b"\xff\xfe" + b"\0\0\0\0"),
    "2^31-1 topics": frame(3, 0, struct.pack(">i", 2**31 - 1), flexible=False),
    "-7 topics": frame(3, 0, struct.pack(">i", -7), flexible=False),
    "a compact count of 2^31": frame(3, 12, b"\xff\xff\xff\xff\x0f", flexible=True),
    "a varint without an end": frame(3, 12, b"\xff" * 20, flexible=True),
    "a truncated varint": frame(3, 12, b"\xff", flexible=True),
    "bad UTF-8 in a name": frame(3, 1, struct.pack(">ih", 1, 2) + b"\xc3\x28", flexible=False),
    "a million tagged fields": frame(
        3, 12, b"\x01\x00\x00" + b"\xc0\x84\x3d" + b"".join(b"%c\x00" % n for n in range(125)) * 8_000, flexible=True
    ),
    "a tag that reaches beyond the frame": frame(3, 12, b"\x01\x00\x00\x01\x05\xff\xff\xff\x7f", flexible=True),
    "a produce that claims 2 GiB": frame(
        0, 3, struct.pack(">hhii", -1, -1, 1000, 1) + b"\x00\x01t" + struct.pack(">iii", 1, 0, 2**31 - 1), flexible=False
    ),
    "a million empty topics": frame(3, 1, struct.pack(">i", 1_000_000) + b"\0\0" * 1_000_000, flexible=False),
    "plain HTTP": b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n",
    "TLS": bytes.fromhex("16030100c8010000c40303") + bytes(200),
}  # fmt: skip


def send(node, data: bytes) -> bytes:
    """Bytes that come back until the broker closes the connection or has nothing more to say."""
    answer = b""
    with socket.create_connection(("127.0.0.1", node.port), timeout=10) as connection:
        try:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            while chunk := connection.recv(1 << 16):
                answer += chunk
        except ConnectionError:
            pass
    return answer


@pytest.fixture
def node(shared_broker):
    """One broker for all of this: whatever comes, it must serve the next."""
    if not shared_broker.node.image.topics.by_name:
        shared_broker.create("t")
        shared_broker.produce("t", b"v")
    return shared_broker


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_bytes_cost_one_connection(node, what):
    """Memory stays below twice the frame and 32 MiB, and other connections are served as before."""
    data = HOSTILE[what]
    other = node.link()
    before = node.node.server.buffers.used_bytes
    tracemalloc.start()
    try:
        send(node, data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2 * len(data) + 32 * MIB
    assert other.call(MetadataRequest(topics=None), 12).topics[0].name == "t"
    node.wait_until(lambda: node.node.server.buffers.used_bytes <= before)
    assert node.values("t") == [b"v"]


def test_random_bytes_in_every_api_never_break_the_broker(node):
    """Real requests with bytes changed, cut and repeated: answered or closed, and the loop lives."""
    dice = random.Random(11)
    for key in (0, 1, 2, 3, 10, 18, 22, 23, 32, 60):
        request = APIS[key].request
        for version in range(request.versions[0], request.versions[1] + 1):
            flexible = version >= request.flexible_since
            for _ in range(6):
                body = bytearray(dice.randbytes(dice.randrange(0, 60)))
                data = bytearray(frame(key, version, bytes(body), flexible=flexible))
                if len(data) > 20 and dice.random() < 0.5:
                    data[dice.randrange(14, len(data))] ^= 1 << dice.randrange(8)
                send(node, bytes(data))
    assert node.link().call(MetadataRequest(topics=None), 12).topics[0].name == "t"
    assert len(node.node.image.topics.by_name) >= 1


def test_a_frame_that_comes_byte_by_byte_is_served(node):
    """Slowness alone is no crime."""
    whole = frame(3, 12, encode_bytes(MetadataRequest(topics=[]), 12), flexible=True)
    with socket.create_connection(("127.0.0.1", node.port), timeout=10) as connection:
        for at in range(len(whole)):
            connection.sendall(whole[at : at + 1])
            time.sleep(0.0005)
        assert len(connection.recv(4)) == 4


def test_five_pipelined_requests_keep_their_order_also_when_the_second_fails(start_node, new_batch):
    """Log order and answer order are send order on one connection."""
    from stratalog.wire.errors import ErrorCode
    from stratalog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

    node = start_node()
    topic_id = node.create("t").topic_id
    link = node.link()
    for number in range(5):
        batch = new_batch(b"%d" % number)
        if number == 1:
            batch[-1] ^= 1
        data = [PartitionProduceData(index=0, records=batch)]
        link.send(
            ProduceRequest(
                acks=-1,
                timeout_ms=5000,
                topic_data=[TopicProduceData(name="t", topic_id=topic_id, partition_data=data)],
            ),
            13,
        )
    answers = [link.receive().responses[0].partition_responses[0] for _ in range(5)]
    assert [(one.error_code, one.base_offset) for one in answers] == [
        (0, 0),
        (ErrorCode.CORRUPT_MESSAGE, -1),
        (0, 1),
        (0, 2),
        (0, 3),
    ]
    assert node.values("t") == [b"0", b"2", b"3", b"4"]
