"""Metadata answers joined from topics in bytes."""

import pytest
from hypothesis import given, settings

from stratalog.wire.messages.metadata import MetadataResponse
from stratalog.wire.metadata_answer import EncodedTopics, metadata_encoder, topic_bytes
from stratalog.wire.schema import EncodeError, encode_bytes


@pytest.mark.parametrize("version", range(14))
def test_a_joined_answer_is_the_whole_one(version, messages):
    """Byte by byte, for every version, whatever stands around the topics."""

    @settings(database=None, derandomize=True)
    @given(messages(MetadataResponse, version))
    def check(response):
        expected = encode_bytes(response, version)
        assert b"".join(metadata_encoder(version)(response)) == expected
        response.topics = EncodedTopics([topic_bytes(topic, version) for topic in response.topics])
        assert response.topics == []
        assert b"".join(metadata_encoder(version)(response)) == expected

    check()


@pytest.mark.parametrize("version", [4, 12])
@pytest.mark.parametrize("count", [127, 128, 300])
def test_counts_beyond_one_byte(version, count, messages):
    """A compact length takes two of them from 127 topics on."""
    topic = next(each for each in _some_topics(messages, version))
    response = MetadataResponse(brokers=[], topics=[topic] * count)
    expected = encode_bytes(response, version)
    response.topics = EncodedTopics([topic_bytes(topic, version)] * count)
    assert b"".join(metadata_encoder(version)(response)) == expected


def _some_topics(messages, version):
    found = []

    @settings(database=None, derandomize=True)
    @given(messages(MetadataResponse, version))
    def gather(response):
        found.extend(response.topics)

    gather()
    return found


def test_topics_that_cannot_be_encoded_are_refused(messages):
    """As by the encoder of the whole."""
    topic = next(each for each in _some_topics(messages, 12))
    topic.name = "t"
    topic.topic_id = b"short"
    with pytest.raises(EncodeError, match="topic_id"):
        topic_bytes(topic, 12)
