"""CreateTopics: what each version of the messages carries."""

from stratalog.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from stratalog.wire.schema import decode, encode_bytes

UUID = bytes(range(16))


def test_request_versions():
    """Old lengths up to 4, compact ones from 5 on; nothing else has changed."""
    topic = CreatableTopic(
        name="t",
        num_partitions=-1,
        replication_factor=-1,
        assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=[1, 2])],
        configs=[CreatableTopicConfig(name="k", value=None)],
    )
    request = CreateTopicsRequest(topics=[topic], validate_only=True)
    assert request.timeout_ms == 60000
    old = (
        "00000001 0001 74 ffffffff ffff 00000001 00000000 00000002 00000001 00000002 00000001 0001 6b ffff 0000ea60 01"
    )
    assert encode_bytes(request, 2) == encode_bytes(request, 4) == bytes.fromhex(old)
    compact = "02 0274 ffffffff ffff 02 00000000 03 00000001 00000002 00 02 026b 00 00 00 0000ea60 01 00"
    assert encode_bytes(request, 5) == encode_bytes(request, 7) == bytes.fromhex(compact)
    assert decode(CreateTopicsRequest, 7, bytes.fromhex(compact)) == request


def test_response_versions():
    """Counts and configs since 5, hidden ones with their error as a tag, the topic id since 7."""
    config = CreatableTopicConfigs(name="k", value="v", read_only=False, config_source=5, is_sensitive=False)
    topic = CreatableTopicResult(name="t", topic_id=UUID, num_partitions=3, replication_factor=1, configs=[config])
    response = CreateTopicsResponse(topics=[topic])
    assert encode_bytes(response, 4) == bytes.fromhex("00000000 00000001 0001 74 0000 ffff")
    settings = "00000003 0001 02 026b 0276 00 05 00 00 00"
    assert encode_bytes(response, 5) == bytes.fromhex("00000000 02 0274 0000 00" + settings + "00")
    assert encode_bytes(response, 7) == bytes.fromhex("00000000 02 0274" + UUID.hex() + "0000 00" + settings + "00")
    hidden = CreatableTopicResult(name="t", topic_id=UUID, topic_config_error_code=29, configs=None)
    assert encode_bytes(CreateTopicsResponse(topics=[hidden]), 7) == bytes.fromhex(
        "00000000 02 0274" + UUID.hex() + "0000 00 ffffffff ffff 00 01 00 02 001d 00"
    )
