import struct

import pytest

from stratalog.broker.requests.authorizer import Operation, ResourceType
from stratalog.broker.requests.dispatch_row import Api, Row, failed_response
from stratalog.broker.runtime.metrics import ApiMetrics
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.schema import EncodeError, Int16, Int32, Message, Struct, encode_bytes
from stratalog.wire.schema import field as wire_field


class Detail(Struct):
    """A struct that must be given."""

    number: Int32


class RichRequest(Message, api_key=1002, versions=(0, 1)):
    """An empty request."""


class RichResponse(Message, api_key=1002, versions=(0, 1)):
    """Required fields of every kind around an error code."""

    throttle_time_ms: Int32
    error_code: Int16
    error_message: str | None
    names: list[str]
    details: list[Detail]
    text: str
    blob: bytes


class YoungResponse(Message, api_key=1002, versions=(0, 1)):
    """An error code that came late."""

    names: list[str]
    error_code: Int16 = wire_field(since=1)


class BareResponse(Message, api_key=1002, versions=(0, 1)):
    """No error code of its own."""

    names: list[str] = wire_field()


def test_failed_responses_are_complete_messages():
    """An error answer has its code and message, and everything else empty, so that it encodes."""
    error = KafkaError(ErrorCode.INVALID_CONFIG, "why")
    first, second = failed_response(RichResponse, 0, error), failed_response(RichResponse, 0, error)
    assert (first.error_code, first.error_message, first.names, first.text) == (40, "why", [], "")
    assert first.names is not second.names
    assert encode_bytes(first, 0)


def test_a_response_without_an_error_code_cannot_say_so():
    """The caller has to close the connection then."""
    error = KafkaError(ErrorCode.INVALID_CONFIG)
    assert failed_response(BareResponse, 0, error) is None
    assert failed_response(YoungResponse, 0, error) is None
    assert failed_response(YoungResponse, 1, error).error_code == ErrorCode.INVALID_CONFIG


def row(version=0, **options):
    api = Api(
        key=1002,
        versions=(0, 1),
        request=RichRequest,
        response=BareResponse,
        handle=lambda context, request: None,
        operation=Operation.DESCRIBE,
        resource=ResourceType.TOPIC,
        **options,
    )
    return Row(api, version, ApiMetrics(api.name, version))


def test_a_row_frames_its_answers_and_counts_them():
    """The frame is length, correlation id and body; the count and the time are taken; None is no bytes."""
    plain = row()
    assert plain.answer(7, BareResponse(names=["a"]), 0.0015) == [struct.pack(">iiih", 11, 7, 1, 1) + b"a"]
    assert plain.answer(8, None, 0.0) == []
    assert plain.metrics.requests == 2
    assert plain.metrics.time_us == 1500


def test_an_answer_of_the_wrong_content_is_an_encode_error():
    """A value that the version cannot carry is refused by name."""
    with pytest.raises(EncodeError, match="names"):
        row().answer(7, BareResponse(names=[5]), 0.0)


def test_the_name_of_an_api_is_that_of_its_request():
    """Metrics and logs say Rich, not RichRequest."""
    assert row().api.name == "Rich"
    assert row().api.advertised == (0, 1)
