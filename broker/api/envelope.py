"""Envelope (key 58): a request that a broker forwards for a client of its own (KIP-590).

Behaviour: the request is handled on the rows of this listener, as if its client had sent it here: its principal, its
address and its client id count for permissions and quotas. The broker itself must be allowed CLUSTER_ACTION. Errors of the
envelope are Kafka's: NOT_CONTROLLER where this node is not the active controller or ceases to be, PRINCIPAL_DESERIALIZATION_FAILURE,
INVALID_REQUEST for an address that is none and for an API that is not forwarded, UNSUPPORTED_VERSION for a request that
cannot be read; the broker then closes its client's connection.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from ipaddress import IPv6Address, ip_address
from typing import Any, Final, cast

from stratalog.broker.api.controller_view import Context
from stratalog.broker.requests.dispatch import PENDING, Api, Operation, Pending, ResourceType
from stratalog.broker.requests.envelope_source import EnvelopeSource
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.frame import FrameError, decode_request_header
from stratalog.wire.messages.envelope import EnvelopeRequest, EnvelopeResponse
from stratalog.wire.messages.registry import APIS
from stratalog.wire.parts import Part, parts_length
from stratalog.wire.primitives import unsigned_varint
from stratalog.wire.records.principal import decode_principal
from stratalog.wire.schema import DecodeError, Message

__all__ = ["API"]

_LENGTH_BYTES: Final = 4
_ERROR_CODE_BYTES: Final = 2
_NO_TAGS: Final = b"\0"
_ADDRESS_BYTES: Final = (4, 16)


def handle(context: Context, request: EnvelopeRequest) -> Message | Pending:
    """Answered with the answer of the request inside."""
    if not context.broker.quorum.is_active:
        return EnvelopeResponse(response_data=None, error_code=ErrorCode.NOT_CONTROLLER)
    principal = _principal(request)
    host = _host(request.client_host_address)
    frame = memoryview(request.request_data)
    _check_forwarded(context, frame)
    source = EnvelopeSource(context.connection, principal, host, partial(_answered, context))
    context.on_abandon = source.abandon
    context.dispatcher.dispatch(source, frame)
    return PENDING


def _principal(request: EnvelopeRequest) -> str:
    """The client as ``User:a``. Raises `KafkaError` PRINCIPAL_DESERIALIZATION_FAILURE."""
    try:
        principal = decode_principal(request.request_principal or b"")
    except DecodeError as error:
        raise KafkaError(
            ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE, f"The principal in the envelope cannot be read: {error}"
        ) from error
    return f"{principal.type}:{principal.name}"


def _host(address: bytes) -> str:
    """The client's address as text. Raises `KafkaError` INVALID_REQUEST."""
    if len(address) not in _ADDRESS_BYTES:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"The address in the envelope has {len(address)} bytes; an IP address has 4 or 16.",
        )
    found = ip_address(bytes(address))
    mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    return str(found if mapped is None else mapped)


def _check_forwarded(context: Context, frame: memoryview) -> None:
    """Raises `KafkaError` for a request that has no place in an envelope."""
    try:
        key = decode_request_header(frame, flexible=False).api_key
    except FrameError as error:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION, f"The request in the envelope cannot be read: {error}"
        ) from error
    if key not in APIS:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"The envelope holds a request of the unknown API key {key}.")
    api = context.dispatcher.api(key)
    if api is None or not api.forwarded:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Requests of API key {key} are not forwarded to the controller.")


def _answered(context: Context, parts: list[Part] | None, failure: KafkaError | None) -> None:
    if failure is not None and failure.code is ErrorCode.NOT_CONTROLLER:
        context.respond(EnvelopeResponse(response_data=None, error_code=ErrorCode.NOT_CONTROLLER))
    elif parts is None:
        context.respond(EnvelopeResponse(response_data=None, error_code=ErrorCode.UNSUPPORTED_VERSION))
    else:
        context.respond(EnvelopeResponse(response_data=cast("Any", parts)))


def _encoder(_version: int) -> Callable[[Any], list[Part]]:
    return _encode


def _encode(response: EnvelopeResponse) -> list[Part]:
    """The answer inside is whole frame in parts, and goes out as it is, without its length: it may be large."""
    error_code = int(response.error_code).to_bytes(_ERROR_CODE_BYTES, "big", signed=True)
    frame = cast("list[Part] | None", response.response_data)
    if frame is None:
        return [b"\0" + error_code + _NO_TAGS]
    first, *rest = frame
    size_bytes = parts_length(frame) - _LENGTH_BYTES
    head = unsigned_varint(size_bytes + 1) + bytes(cast("bytes", first))[_LENGTH_BYTES:]
    return [head, *rest, error_code + _NO_TAGS]


API = Api(
    key=58,
    versions=(0, 0),
    request=EnvelopeRequest,
    response=EnvelopeResponse,
    handle=handle,
    operation=Operation.CLUSTER_ACTION,
    resource=ResourceType.CLUSTER,
    encoder=_encoder,
)
