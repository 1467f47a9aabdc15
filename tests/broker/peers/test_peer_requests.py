"""Requests to another node as bytes, and answers read."""

import asyncio

import pytest

from stratalog.broker.peers.peer_errors import Peer, PeerTimeout, PeerUnsupported
from stratalog.broker.peers.peer_requests import PeerRequest, read_versions, versions_frame
from stratalog.wire.errors import ErrorCode
from stratalog.wire.frame import decode_request_header, encode_response
from stratalog.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from stratalog.wire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from stratalog.wire.messages.vote import VotePartition, VoteRequest, VoteTopic
from stratalog.wire.parts import FileSlice
from stratalog.wire.schema import DecodeError, EncodeError, decode, encode_bytes

PEER = Peer(2, "node-2", 9093)


@pytest.fixture
async def new_request():
    """Builds a request with a future of its own."""

    def build(message, version=None, version_min=0):
        return PeerRequest(PEER, message, version, asyncio.get_running_loop().create_future(), version_min)

    return build


def vote(**fields):
    partition = VotePartition(
        partition_index=0, replica_epoch=1, replica_id=1, last_offset_epoch=1, last_offset=5, **fields
    )
    return VoteRequest(topics=[VoteTopic(topic_name="t", partitions=[partition])])


def sent(frame):
    """Version, header and message of a request frame."""
    view = memoryview(frame)[4:]
    version = int.from_bytes(view[2:4], "big")
    header = decode_request_header(view, flexible=True)
    return version, header, decode(VoteRequest, version, view, header.body_position)


@pytest.mark.parametrize(("ranges", "version"), [((0, 2), 2), ((0, 1), 1), ((0, 9), 2), ((2, 2), 2)])
async def test_the_highest_common_version_is_used(new_request, ranges, version):
    """Also if it is known only after the request was handed in."""
    for known in (None, {52: ranges}):
        request = new_request(vote(pre_vote=True))
        size = request.prepare(known)
        frame = request.frame({52: ranges}, 77, "me")
        found, header, message = sent(frame)
        assert (found, header.correlation_id, header.client_id) == (version, 77, "me")
        assert message.topics[0].partitions[0].pre_vote is (version == 2)
        assert len(frame) <= size
        assert len(frame) == 4 + int.from_bytes(frame[:4], "big")


@pytest.mark.parametrize("known_first", [True, False])
async def test_a_version_below_the_callers_minimum_is_not_used(new_request, known_first):
    """A pre-vote in version 1 would be a vote: nothing is sent."""
    request = new_request(vote(pre_vote=True), version_min=2)
    ranges = {52: (0, 1)}
    assert (request.prepare(ranges if known_first else None) == 0) is known_first
    assert request.frame(ranges, 1, "me") is None
    with pytest.raises(PeerUnsupported, match="Vote: it serves versions 0 to 1, this node speaks 2 to 2"):
        await request.future
    request = new_request(vote(pre_vote=True), version_min=2)
    request.prepare(None)
    assert sent(request.frame({52: (0, 2)}, 1, "me"))[0] == 2


async def test_a_version_of_the_callers_own_needs_no_ranges(new_request):
    """It is used whatever the node serves."""
    for known in (None, {}, {52: (2, 2)}):
        request = new_request(vote(), 1)
        request.prepare(known)
        assert sent(request.frame(known, 1, "me"))[0] == 1


@pytest.mark.parametrize(
    ("ranges", "served"), [({}, "no version"), ({52: (3, 4)}, "versions 3 to 4"), ({1: (0, 1)}, "no version")]
)
async def test_a_request_without_a_common_version_fails(new_request, ranges, served):
    """The error names node, API and versions."""
    for known in (None, ranges):
        request = new_request(vote())
        request.prepare(known)
        assert request.frame(ranges, 1, "me") is None
        with pytest.raises(PeerUnsupported, match=rf"node 2 \(node-2:9093\): Vote: it serves {served}"):
            request.future.result()


async def test_a_value_that_the_older_version_cannot_carry_fails(new_request):
    """It shows when the version is known, and ends the request alone."""
    request = new_request(VoteRequest(topics=[VoteTopic(topic_name="t", partitions=[])], voter_id=2**40))
    with pytest.raises(EncodeError):
        request.prepare(None)
    request = new_request(vote())
    request.prepare({52: (0, 2)})
    request._message.topics[0].topic_name = None
    assert request.frame({52: (0, 0)}, 1, "me") is None
    with pytest.raises(PeerUnsupported, match="version 0 cannot carry it"):
        request.future.result()


async def test_a_file_slice_is_refused(new_request, tmp_path):
    """Requests to other nodes are bytes in memory."""
    from stratalog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

    with (tmp_path / "log").open("wb+") as file:
        data = [PartitionProduceData(index=0, records=FileSlice(file, 0, 3))]
        topics = [TopicProduceData(topic_id=bytes(16), partition_data=data)]
        request = new_request(ProduceRequest(acks=-1, timeout_ms=1, topic_data=topics), 13)
        with pytest.raises(EncodeError, match="file slice"):
            request.prepare(None)


def answer_frame(message, version, *, flexible=True):
    parts = encode_response(5, [encode_bytes(message, version)], flexible=flexible)
    return b"".join(parts)[4:]


async def test_an_answer_is_read_in_the_version_of_its_request(new_request):
    """Records are views of the frame."""
    request = new_request(FetchRequest(max_wait_ms=0, min_bytes=0, topics=[]), 18)
    request.prepare(None)
    request.frame(None, 5, "me")
    partition = PartitionData(partition_index=0, high_watermark=3, records=b"batches")
    topic = FetchableTopicResponse(topic_id=bytes(16), partitions=[partition])
    frame = bytearray(answer_frame(FetchResponse(responses=[topic]), 18))
    records = request.answer(frame).responses[0].partitions[0].records
    frame[frame.index(b"batches")] = ord("l")
    assert records == b"latches"


async def test_an_answer_of_too_many_elements_is_refused(new_request):
    """The caller says how many it wants to read at once."""
    request = new_request(FetchRequest(max_wait_ms=0, min_bytes=0, topics=[]), 18)
    request.prepare(None)
    topics = [FetchableTopicResponse(topic_id=bytes(16), partitions=[])] * 100
    frame = answer_frame(FetchResponse(responses=topics), 18)
    assert len(request.answer(frame, 100).responses) == 100
    with pytest.raises(DecodeError):
        request.answer(frame, 99)


async def test_versions_may_be_asked_for_like_anything_else(new_request):
    """Their answer has a header without tags, and with an error the body of version 0."""
    request = new_request(ApiVersionsRequest(client_software_name="a", client_software_version="1"))
    request.prepare({18: (0, 4)})
    request.frame({18: (0, 4)}, 5, "me")
    for answer in (ApiVersionsResponse(api_keys=[]), ApiVersionsResponse(error_code=35, api_keys=[])):
        version = 0 if answer.error_code else 4
        assert request.answer(answer_frame(answer, version, flexible=False)) == answer


@pytest.mark.parametrize("version", range(5))
def test_versions_are_read_from_any_version(version):
    """Ranges by key; an error leaves the body of version 0 (KIP-511)."""
    rows = [ApiVersion(api_key=18, min_version=0, max_version=4), ApiVersion(api_key=1, min_version=4, max_version=18)]
    frame = answer_frame(ApiVersionsResponse(api_keys=rows), version, flexible=False)
    assert read_versions(frame, version) == (0, {18: (0, 4), 1: (4, 18)})
    refused = answer_frame(ApiVersionsResponse(error_code=35, api_keys=rows[:1]), 0, flexible=False)
    assert read_versions(refused, version) == (ErrorCode.UNSUPPORTED_VERSION, {18: (0, 4)})
    with pytest.raises(DecodeError):
        read_versions(frame[:6], version)


def test_the_first_request_of_a_connection():
    """It names the client and, from version 3 on, its software."""
    frame = versions_frame(4, 9, "me")
    header = decode_request_header(memoryview(frame)[4:], flexible=True)
    assert header[:4] == (18, 4, 9, "me")
    message = decode(ApiVersionsRequest, 4, frame, 4 + header.body_position)
    assert message.client_software_name == "stratalog"


async def test_a_request_ends_once(new_request):
    """A failure after the answer, or after the caller has gone, changes nothing."""
    request = new_request(vote())
    request.fail(PeerTimeout, "late")
    request.fail(PeerUnsupported, "no")
    with pytest.raises(PeerTimeout, match=r"^node 2 \(node-2:9093\): Vote: late$") as failed:
        request.future.result()
    assert failed.value.peer is PEER
    gone = new_request(vote())
    gone.future.cancel()
    gone.fail(PeerTimeout, "late")
    assert gone.future.cancelled()
