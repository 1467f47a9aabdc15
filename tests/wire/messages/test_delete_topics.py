"""DeleteTopics: what each version of the messages carries."""

import pytest

from stratalog.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from stratalog.wire.schema import EncodeError, encode_bytes

UUID = bytes(range(16))


def test_request_versions():
    """Names up to version 5, names or ids from 6 on."""
    request = DeleteTopicsRequest(topic_names=["t"], topics=[DeleteTopicState(topic_id=UUID)], timeout_ms=1000)
    assert encode_bytes(request, 1) == bytes.fromhex("00000001 0001 74 000003e8")
    assert encode_bytes(request, 4) == bytes.fromhex("02 0274 000003e8 00")
    assert encode_bytes(request, 6) == bytes.fromhex("02 00" + UUID.hex() + "00 000003e8 00")


def test_response_versions():
    """Messages since 5; the id, and null for a name that is not known, since 6."""
    response = DeleteTopicsResponse(responses=[DeletableTopicResult(name=None, topic_id=UUID, error_code=100)])
    assert encode_bytes(response, 6) == bytes.fromhex("00000000 02 00" + UUID.hex() + "0064 00 00 00")
    with pytest.raises(EncodeError, match=r"responses\[0\].name is None"):
        encode_bytes(response, 5)
    response.responses[0].name = "t"
    assert encode_bytes(response, 1) == bytes.fromhex("00000000 00000001 0001 74 0064")
    assert encode_bytes(response, 5) == bytes.fromhex("00000000 02 0274 0064 00 00 00")
