"""Requests as envelopes, and answers out of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.broker.api import BROKER_APIS
from stratalog.broker.forwarding.envelopes import answer_in, envelope_of, request_frame, throttle_ms_of
from stratalog.broker.requests.dispatch_row import Row
from stratalog.broker.runtime.metrics import ApiMetrics
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.frame import decode_request_header, encode_response
from stratalog.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from stratalog.wire.messages.describe_quorum import DescribeQuorumResponse
from stratalog.wire.records.principal import decode_principal
from stratalog.wire.schema import decode, encode_bytes

NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=50)


@given(frame=st.binary(max_size=100), kind=NAMES.filter(lambda text: ":" not in text), name=NAMES)
def test_an_envelope_has_the_bytes_of_the_request_and_both_parts_of_the_principal(frame, kind, name):
    """A name may have colons; the first one ends the type."""
    envelope = envelope_of(frame, f"{kind}:{name}", "127.0.0.1")
    assert envelope.request_data == frame
    principal = decode_principal(envelope.request_principal)
    assert (principal.type, principal.name, principal.token_authenticated) == (kind, name, False)


@pytest.mark.parametrize(
    ("host", "data"),
    [
        ("10.1.2.3", bytes([10, 1, 2, 3])),
        ("::1", bytes(15) + b"\1"),
        ("fe80::1%eth0", b"\xfe\x80" + bytes(13) + b"\1"),
        ("?", bytes(4)),
        ("", bytes(4)),
    ],
)
def test_an_address_goes_as_bytes(host, data):
    """Four or sixteen; a client without one has 0.0.0.0."""
    assert envelope_of(b"", "User:a", host).client_host_address == data


@pytest.mark.parametrize("version", range(2, 8))
def test_a_request_gets_the_header_of_its_version(version):
    """With the numbers of the request that it stands for."""
    frame = request_frame(CreateTopicsRequest(topics=[], timeout_ms=7), version, 5, "me")
    header = decode_request_header(memoryview(frame), flexible=version >= 5)
    assert header[:4] == (19, version, 5, "me")
    assert decode(CreateTopicsRequest, version, frame, header.body_position).timeout_ms == 7


def answer(response, version, throttle_ms):
    message = response(topics=[]) if response is not DescribeQuorumResponse else response(error_code=3, topics=[])
    if hasattr(message, "throttle_time_ms"):
        message.throttle_time_ms = throttle_ms
    flexible = version >= response.flexible_since
    return b"".join(encode_response(1, [encode_bytes(message, version)], flexible=flexible))[4:]


@pytest.mark.parametrize("version", range(2, 8))
def test_the_throttle_time_is_read_from_the_answers_bytes(version):
    """It stands first in every version that has it."""
    api = next(api for api in BROKER_APIS if api.key == 19)
    row = Row(api, version, ApiMetrics("x", version))
    assert throttle_ms_of(row, answer(CreateTopicsResponse, version, 1234)) == 1234
    with pytest.raises(KafkaError, match=r"cannot be read|has only"):
        throttle_ms_of(row, answer(CreateTopicsResponse, version, 1234)[:6])


def test_an_answer_without_a_throttle_time_has_none():
    """DescribeQuorum begins with its error."""
    api = next(api for api in BROKER_APIS if api.key == 55)
    assert throttle_ms_of(Row(api, 2, ApiMetrics("x", 2)), answer(DescribeQuorumResponse, 2, 9)) == 0


@pytest.mark.parametrize(
    "api", [api for api in BROKER_APIS if api.forwarded and api.key != 55], ids=lambda api: api.name
)
def test_every_forwarded_answer_but_describe_quorum_begins_with_a_throttle_time(api):
    """In each version that is served."""
    for version in range(api.versions[0], api.versions[1] + 1):
        first = next(spec for spec in api.response.fields_declared if spec.present(version))
        assert first.name == "throttle_time_ms"


@given(st.binary(max_size=40))
def test_an_answer_that_cannot_be_read_is_an_unknown_server_error(data):
    """The controller is broken, not the client's request."""
    try:
        found = answer_in(CreateTopicsResponse, 7, data)
    except KafkaError as error:
        assert error.code is ErrorCode.UNKNOWN_SERVER_ERROR
    else:
        assert isinstance(found, CreateTopicsResponse)
