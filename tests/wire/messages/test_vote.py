"""Vote: what each version of the messages carries."""

from stratalog.wire.messages.vote import (
    NodeEndpoint,
    VotePartition,
    VotePartitionResult,
    VoteRequest,
    VoteResponse,
    VoteTopic,
    VoteTopicResult,
)
from stratalog.wire.schema import decode, encode_bytes

MINE = bytes(range(16))
YOURS = bytes(range(16, 32))


def test_request_versions():
    """Directories and the voter that is meant come with 1, the vote in advance with 2."""
    partition = VotePartition(
        partition_index=0,
        replica_epoch=5,
        replica_id=2,
        replica_directory_id=MINE,
        voter_directory_id=YOURS,
        last_offset_epoch=4,
        last_offset=9,
        pre_vote=True,
    )
    request = VoteRequest(cluster_id="c", voter_id=3, topics=[VoteTopic(topic_name="t", partitions=[partition])])
    topic, who, log = "02 0274 02 00000000", "00000005 00000002", "00000004 0000000000000009"
    assert encode_bytes(request, 0) == bytes.fromhex("0263" + topic + who + log + "00 00 00")
    directories = MINE.hex() + YOURS.hex()
    assert encode_bytes(request, 1) == bytes.fromhex("0263 00000003" + topic + who + directories + log + "00 00 00")
    assert encode_bytes(request, 2) == bytes.fromhex("0263 00000003" + topic + who + directories + log + "01 00 00 00")


def test_request_defaults():
    """An old request asks no voter in particular, and not in advance."""
    partition = VotePartition(partition_index=0, replica_epoch=5, replica_id=2, last_offset_epoch=4, last_offset=9)
    request = VoteRequest(topics=[VoteTopic(topic_name="t", partitions=[partition])])
    old = decode(VoteRequest, 0, encode_bytes(request, 0))
    assert (old.cluster_id, old.voter_id, old.topics[0].partitions[0].pre_vote) == (None, -1, False)
    assert old.topics[0].partitions[0].voter_directory_id == bytes(16)


def test_response_versions():
    """Addresses of leaders are a tag since 1."""
    result = VotePartitionResult(partition_index=0, error_code=74, leader_id=-1, leader_epoch=6, vote_granted=False)
    response = VoteResponse(
        topics=[VoteTopicResult(topic_name="t", partitions=[result])],
        node_endpoints=[NodeEndpoint(node_id=1, host="h", port=65535)],
    )
    body = "0000 02 0274 02 00000000 004a ffffffff 00000006 00 00 00"
    assert encode_bytes(response, 0) == bytes.fromhex(body + "00")
    for version in (1, 2):
        assert encode_bytes(response, version) == bytes.fromhex(body + "01 00 0a 02 00000001 0268 ffff 00")
