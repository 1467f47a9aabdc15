"""One connection: versions, order, and every way in which it can fail."""

from __future__ import annotations

import selectors
import socket
import struct

import pytest

from stratalog.client.link import BrokerLink, BrokerTimeout, BrokerUnavailable, code_words
from stratalog.wire.errors import ErrorCode, Invalid, KafkaError
from stratalog.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from stratalog.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from stratalog.wire.parts import FileSlice

METADATA = 3


@pytest.fixture
def link(scripted):
    """A link to a broker that serves ApiVersions and Metadata."""
    scripted.ranges = {18: (0, 4), METADATA: (0, 13)}
    scripted.answers[METADATA] = lambda request: MetadataResponse(
        brokers=[], topics=[], cluster_id=str(request.allow_auto_topic_creation)
    )
    with BrokerLink("127.0.0.1", scripted.port, timeout_seconds=5) as link:
        yield link


def test_the_highest_common_version_is_used(scripted, link) -> None:
    """The broker's limit counts, or ours where the broker goes further."""
    scripted.ranges[METADATA] = (4, 9)
    assert link.version_of(MetadataRequest) == 9
    assert link.call(MetadataRequest(allow_auto_topic_creation=False)).cluster_id == "False"
    assert scripted.requests[-1][1] == 9


def test_a_request_may_name_its_version(scripted, link) -> None:
    """For tests of old versions; the answer is decoded in the same one."""
    assert link.call(MetadataRequest(), version=4).cluster_id == "True"
    assert scripted.requests[-1][1] == 4


def test_versions_are_asked_for_once(scripted, link) -> None:
    """Two requests over one link ask for the broker's versions once."""
    link.call(MetadataRequest())
    link.call(MetadataRequest())
    assert [type(request) for request, _ in scripted.requests].count(ApiVersionsRequest) == 1


def test_an_old_broker_is_asked_again_in_version_0(scripted, link) -> None:
    """KIP-511: the answer to an unknown version is an error in the form of version 0."""

    def answer(_request):
        if scripted.requests[-1][1] > 0:
            body = struct.pack(">hihhh", ErrorCode.UNSUPPORTED_VERSION, 1, 18, 0, 2)
            return struct.pack(">ii", 4 + len(body), 1) + body
        return ApiVersionsResponse(api_keys=[ApiVersion(api_key=METADATA, min_version=0, max_version=1)])

    scripted.answers[18] = answer
    assert link.version_of(MetadataRequest) == 1


@pytest.mark.parametrize("ranges", [{}, {METADATA: (90, 91)}])
def test_without_a_common_version_the_error_names_the_served_ones(scripted, link, ranges) -> None:
    """The API is missing, or too new."""
    scripted.ranges = ranges
    with pytest.raises(KafkaError, match=r"of Metadata; this client cannot use it") as caught:
        link.call(MetadataRequest())
    assert caught.value.code == ErrorCode.UNSUPPORTED_VERSION


def test_requests_may_be_sent_ahead(link) -> None:
    """Answers come in the order of the requests; a plain call in between is refused."""
    link.send(MetadataRequest(allow_auto_topic_creation=True), 13)
    link.send(MetadataRequest(allow_auto_topic_creation=False), 13)
    with pytest.raises(Invalid, match="2 answers are still to be received"):
        link.call(MetadataRequest(), version=13)
    assert [link.receive().cluster_id, link.receive().cluster_id] == ["True", "False"]


def test_an_answer_to_something_else_ends_the_connection(scripted, link) -> None:
    """A correlation id that was not asked for."""
    scripted.answers[METADATA] = struct.pack(">iib", 5, 999, 0)
    with pytest.raises(BrokerUnavailable, match="answer 999 came where 1 was due"):
        link.call(MetadataRequest(), version=13)


def test_a_broker_that_hangs_up_is_unavailable(scripted, link) -> None:
    """Before the answer, and in the middle of it."""
    scripted.answers[METADATA] = None
    with pytest.raises(BrokerUnavailable, match=r"^broker 127\.0\.0\.1:\d+: "):
        link.call(MetadataRequest(), version=13)


def test_a_silent_broker_is_a_timeout(scripted) -> None:
    """Connecting worked, answering did not."""
    scripted.answers[METADATA] = b""
    with BrokerLink("127.0.0.1", scripted.port, timeout_seconds=0.05) as link, pytest.raises(BrokerTimeout):
        link.call(MetadataRequest(), version=13)


def test_no_broker_is_unavailable() -> None:
    """With the question that helps."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(BrokerUnavailable, match="is a broker running there"):
        BrokerLink("127.0.0.1", port)


def test_another_protocol_is_recognised(scripted, link) -> None:
    """An HTTP server's answer is no frame of any size."""
    scripted.answers[METADATA] = b"HTTP/1.1 400 Bad Request\r\n\r\n"
    with pytest.raises(BrokerUnavailable, match="is this a Kafka port"):
        link.call(MetadataRequest(), version=13)


def test_raw_bytes_go_out_as_they_are(scripted, link) -> None:
    """A frame made by hand is answered like any other."""
    link.send_raw(struct.pack(">ihhih", 10, 18, 0, 77, -1))
    assert link.receive_frame()[:4] == struct.pack(">i", 77)


def test_a_client_does_not_send_ranges_of_files(link) -> None:
    """Those are for brokers."""
    from stratalog.client.link import _in_memory

    with pytest.raises(Invalid):
        _in_memory(FileSlice(None, 0, 1))


def test_codes_read_as_words() -> None:
    """As in messages to people."""
    assert code_words(3) == "unknown topic or partition"


def test_a_selector_tells_of_an_answer(scripted, link) -> None:
    """The link itself may be registered: it is readable when an answer has come."""
    with selectors.DefaultSelector() as selector:
        selector.register(link, selectors.EVENT_READ)
        assert selector.select(0) == []
        link.send(MetadataRequest(), 4)
        [(key, _)] = selector.select(5)
        assert key.fileobj is link
        assert link.receive().cluster_id == "True"


def test_an_answer_may_have_more_elements_than_a_request(scripted, link) -> None:
    """A cluster of 100,000 partitions could not be listed: its answer was taken for a damaged one."""
    partition = MetadataResponsePartition(
        partition_index=0, leader_id=1, replica_nodes=list(range(100_001)), isr_nodes=[], offline_replicas=[]
    )
    topic = MetadataResponseTopic(name="t", partitions=[partition])
    scripted.answers[METADATA] = lambda _request: MetadataResponse(brokers=[], topics=[topic])
    assert len(link.call(MetadataRequest()).topics[0].partitions[0].replica_nodes) == 100_001
