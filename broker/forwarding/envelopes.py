"""Requests of clients as envelopes, and the answers in envelopes. Pure.

Source: Kafka's ``ForwardingManager.buildEnvelopeRequest`` and ``parseResponse``.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import Final, TypeVar, cast

from stratalog.broker.requests.dispatch_row import Row
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.frame import FrameError, decode_response_header, encode_request
from stratalog.wire.messages.envelope import EnvelopeRequest
from stratalog.wire.records.principal import DefaultPrincipalData, encode_principal
from stratalog.wire.schema import Buffer, DecodeError, Message, decode, encode_bytes

__all__ = ["answer_in", "envelope_of", "request_frame", "throttle_ms_of"]

ResponseT = TypeVar("ResponseT", bound=Message)

_THROTTLE: Final = "throttle_time_ms"
_THROTTLE_BYTES: Final = 4
_LENGTH_BYTES: Final = 4
_NO_ADDRESS: Final = bytes(4)


def envelope_of(frame: bytes, principal: str, host: str) -> EnvelopeRequest:
    """The request in ``frame``, which begins with its header, of a client like ``User:a`` at an IP address.

    Raises `EncodeError` for a name that no principal can have.
    """
    kind, _, name = principal.partition(":")
    data = DefaultPrincipalData(type=kind, name=name, token_authenticated=False)
    return EnvelopeRequest(
        request_data=frame, request_principal=encode_principal(data), client_host_address=_address(host)
    )


def _address(host: str) -> bytes:
    """The four or sixteen bytes of an address; 0.0.0.0 for a client that has none."""
    try:
        return ip_address(host).packed
    except ValueError:
        return _NO_ADDRESS


def request_frame(request: Message, version: int, correlation_id: int, client_id: str | None) -> bytes:
    """A request with its header, without the length in front. Raises `EncodeError`."""
    flexible = version >= request.flexible_since
    body = encode_bytes(request, version)
    head, *_ = encode_request(request.api_key, version, correlation_id, client_id, [body], flexible=flexible)
    return bytes(cast("bytes", head))[_LENGTH_BYTES:] + body


def throttle_ms_of(row: Row, answer: Buffer) -> int:
    """The throttle time in the answer to a request of ``row``, header and body; 0 where the API has none.

    Raises `KafkaError` UNKNOWN_SERVER_ERROR for an answer that is cut off.
    """
    try:
        _, position = decode_response_header(memoryview(answer), flexible=row.response_flexible)
    except FrameError as error:
        raise KafkaError(
            ErrorCode.UNKNOWN_SERVER_ERROR, f"The active controller's answer cannot be read: {error}"
        ) from error
    first = next((spec for spec in row.api.response.fields_declared if spec.present(row.version)), None)
    if first is None or first.name != _THROTTLE:
        return 0
    if len(answer) < position + _THROTTLE_BYTES:
        raise KafkaError(
            ErrorCode.UNKNOWN_SERVER_ERROR, f"The active controller's answer has only {len(answer)} bytes."
        )
    return int.from_bytes(answer[position : position + _THROTTLE_BYTES], "big", signed=True)


def answer_in(response: type[ResponseT], version: int, answer: Buffer) -> ResponseT:
    """The message in an answer, header and body. Raises `KafkaError` UNKNOWN_SERVER_ERROR if it cannot be read."""
    try:
        _, position = decode_response_header(memoryview(answer), flexible=version >= response.flexible_since)
        return decode(response, version, answer, position)
    except (FrameError, DecodeError) as error:
        raise KafkaError(
            ErrorCode.UNKNOWN_SERVER_ERROR, f"The active controller's answer cannot be read: {error}"
        ) from error
