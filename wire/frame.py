"""Framing: what surrounds a message on a connection, and the order in which answers leave it.

A frame is a signed 32-bit length followed by that many bytes: a request or response header, then the body.

Sources: the protocol guide ("Request and Response Headers"), KIP-482 (tagged fields, header v2), KIP-511
(``ApiVersions`` answers always carry response header v0).
"""

from __future__ import annotations

from collections import deque
from struct import Struct
from typing import NamedTuple

from stratalog.wire.errors import Invalid
from stratalog.wire.parts import FileSlice, Part, parts_length

__all__ = [
    "CORRELATION_ID_BYTES",
    "HEADER_BYTES_MIN",
    "FrameError",
    "RequestHeader",
    "ResponseQueue",
    "ResponseSlot",
    "check_frame_length",
    "decode_request_header",
    "decode_response_header",
    "encode_request",
    "encode_response",
    "read_length",
    "read_request_start",
    "request_code",
    "response_head",
    "skip_tagged_fields",
]

HEADER_BYTES_MIN = 10
"""The smallest request: api key, version, correlation id and the length of an absent client id."""

CORRELATION_ID_BYTES = 4
"""Every response header begins with the correlation id."""

HEADER_BYTES_MAX = 4096
"""Client id and tagged fields of a header together. CVE-2026-111115: a header may not be as large as a frame."""

TAGGED_FIELDS_MAX = 64
"""Tagged fields a header may carry; Kafka defines none so far."""

read_length = Struct(">i").unpack_from
"""``read_length(buffer, position) -> (length,)``: the four bytes in front of every frame."""

read_request_start = Struct(">Iih").unpack_from
"""``read_request_start(frame) -> (code, correlation_id, client_id_length)``; see :func:`request_code`."""

response_head = Struct(">ii").pack
"""``response_head(size_bytes, correlation_id)``: length and response header v0; the size includes the header's 4."""

_ADDRESSED_V1 = Struct(">iib").pack
_REQUEST_HEAD = Struct(">ihhih").pack
_CORRELATION = Struct(">i").unpack_from


class FrameError(Invalid):
    """Bytes that are no frame or no request header: the connection cannot be read any further."""


class RequestHeader(NamedTuple):
    """A request header of version 1 or 2 and the position in the frame at which the body begins."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body_position: int


def request_code(api_key: int, api_version: int) -> int:
    """Api key and version as the one number in which they stand at the start of a request."""
    return (api_key & 0xFFFF) << 16 | (api_version & 0xFFFF)


def check_frame_length(length: int, limit_bytes: int) -> None:
    """Refuse a declared frame length that no request can have.

    Raises :class:`FrameError` when ``length`` is negative, too small for a header or above ``limit_bytes``.
    """
    if length < 0:
        raise FrameError(f"the frame declares a negative length of {length} bytes")
    if length < HEADER_BYTES_MIN:
        raise FrameError(f"the frame declares {length} bytes, fewer than a request header has")
    if length > limit_bytes:
        raise FrameError(f"the frame declares {length} bytes, above the limit of {limit_bytes}")


def _read_varint(frame: memoryview, position: int, end: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 35, 7):
        if position >= end:
            break
        byte = frame[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise FrameError(f"a number in the tagged fields of the request header does not end before byte {end}")


def skip_tagged_fields(frame: memoryview, position: int) -> int:
    """The position after the tagged fields of a request header.

    Raises :class:`FrameError` when they do not end inside the frame and the header's size limit, or are too many.
    """
    end = min(len(frame), position + HEADER_BYTES_MAX)
    count, position = _read_varint(frame, position, end)
    if count > TAGGED_FIELDS_MAX:
        raise FrameError(f"the request header declares {count} tagged fields, above the limit of {TAGGED_FIELDS_MAX}")
    for _ in range(count):
        _, position = _read_varint(frame, position, end)
        size, position = _read_varint(frame, position, end)
        position += size
        if position > end:
            raise FrameError(f"a tagged field of {size} bytes leaves the request header")
    return position


def decode_request_header(frame: memoryview, *, flexible: bool) -> RequestHeader:
    """The header of a whole frame (without its length); ``flexible`` says whether it is header version 2.

    The client id has a 16-bit length in both versions. Raises :class:`FrameError`.
    """
    if len(frame) < HEADER_BYTES_MIN:
        raise FrameError(f"a frame of {len(frame)} bytes has no request header")
    code, correlation_id, client_length = read_request_start(frame)
    position = HEADER_BYTES_MIN + max(client_length, 0)
    if position > len(frame) or position > HEADER_BYTES_MAX:
        raise FrameError(f"the client id declares {client_length} bytes in a frame of {len(frame)}")
    try:
        client_id = None if client_length < 0 else str(frame[HEADER_BYTES_MIN:position], "utf-8")
    except UnicodeDecodeError as error:
        raise FrameError(f"the client id is no UTF-8: {error}") from None
    if flexible:
        position = skip_tagged_fields(frame, position)
    api_key, api_version = code >> 16, code & 0xFFFF
    return RequestHeader(api_key, api_version, correlation_id, client_id, position)


def encode_response(correlation_id: int, parts: list[Part], *, flexible: bool) -> list[Part]:
    """``parts`` as a whole frame; ``flexible`` says whether the response header is version 1.

    The list is changed in place and returned: the head is joined to its first part.
    """
    if flexible:
        head = _ADDRESSED_V1(parts_length(parts) + 5, correlation_id, 0)
    else:
        head = response_head(parts_length(parts) + 4, correlation_id)
    if not parts or isinstance(parts[0], FileSlice):
        parts.insert(0, head)
    else:
        parts[0] = head + parts[0]
    return parts


def encode_request(
    api_key: int, api_version: int, correlation_id: int, client_id: str | None, parts: list[Part], *, flexible: bool
) -> list[Part]:
    """``parts`` as a whole request frame; ``flexible`` says whether the request header is version 2."""
    client = b"" if client_id is None else client_id.encode()
    size = HEADER_BYTES_MIN + len(client) + flexible + parts_length(parts)
    client_length = -1 if client_id is None else len(client)
    head = _REQUEST_HEAD(size, api_key, api_version, correlation_id, client_length) + client
    return [head + b"\0" if flexible else head, *parts]


def decode_response_header(frame: memoryview, *, flexible: bool) -> tuple[int, int]:
    """``(correlation_id, body_position)`` of a response frame without its length. Raises :class:`FrameError`."""
    if len(frame) < 4 + flexible:
        raise FrameError(f"a frame of {len(frame)} bytes has no response header")
    (correlation_id,) = _CORRELATION(frame)
    return correlation_id, skip_tagged_fields(frame, 4) if flexible else 4


class ResponseSlot:
    """The place of one answer in the order of its connection: ``parts`` is None until the answer is known.

    An empty list is an answer of no bytes (``acks=0``).
    """

    __slots__ = ("parts",)

    def __init__(self) -> None:
        self.parts: list[Part] | None = None


class ResponseQueue(deque[ResponseSlot]):
    """Answers that may not leave yet, oldest first: each waits for itself and for all that were asked before it."""

    __slots__ = ()

    def take_ready(self, out: list[Part]) -> None:
        """Remove the answers that may leave now and append their parts to ``out``.

        A slot gives its parts away: a request that others still refer to must not keep the files of its answer open.
        """
        while self and (parts := self[0].parts) is not None:
            self.popleft().parts = []
            out += parts

    @property
    def finished_bytes(self) -> int:
        """The bytes of answers that are known and wait for others."""
        size_bytes = 0
        for slot in self:
            if slot.parts:
                size_bytes += parts_length(slot.parts)
        return size_bytes

    def take_all(self) -> list[ResponseSlot]:
        """Remove and return every slot: the connection is gone."""
        slots = list(self)
        self.clear()
        return slots
