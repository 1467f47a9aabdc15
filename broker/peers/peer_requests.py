"""Requests to another node as bytes, in a version that both sides speak, and their answers read."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from stratalog.broker.peers.peer_errors import Peer, PeerError, PeerUnsupported
from stratalog.wire.frame import decode_response_header, encode_request
from stratalog.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from stratalog.wire.messages.registry import APIS
from stratalog.wire.parts import FileSlice, Part, parts_length
from stratalog.wire.schema import ELEMENTS_MAX, Buffer, EncodeError, Message, decode, decoder, encode

__all__ = ["ApiRanges", "PeerRequest", "VersionsAnswer", "frame_bytes", "read_versions", "versions_frame"]

ApiRanges = Mapping[int, tuple[int, int]]
"""First and last version of each API that a node serves, by key."""

_CLIENT_SOFTWARE_NAME: Final = "stratalog"
_CLIENT_SOFTWARE_VERSION: Final = "1"
_HEADER_BYTES_MAX: Final = 64


class VersionsAnswer(NamedTuple):
    """The answer of a node to ApiVersions."""

    error_code: int
    ranges: ApiRanges


def versions_frame(version: int, correlation_id: int, client_id: str) -> bytes:
    """The ApiVersions request with which a connection begins."""
    request = ApiVersionsRequest(
        client_software_name=_CLIENT_SOFTWARE_NAME, client_software_version=_CLIENT_SOFTWARE_VERSION
    )
    return frame_bytes(request, version, encode(request, version), correlation_id, client_id)


def read_versions(frame: Buffer, version: int) -> VersionsAnswer:
    """The answer to an ApiVersions request of ``version``. Raises `Invalid`.

    An answer with an error has the body of version 0 (KIP-511); its header never has tags.
    """
    view = memoryview(frame)
    _, position = decode_response_header(view, flexible=False)
    error_code = int.from_bytes(view[position : position + 2], "big", signed=True)
    answer = decode(ApiVersionsResponse, 0 if error_code else version, view, position)
    return VersionsAnswer(error_code, {one.api_key: (one.min_version, one.max_version) for one in answer.api_keys})


def frame_bytes(request: Message, version: int, parts: list[Part], correlation_id: int, client_id: str) -> bytes:
    """A whole request frame of the encoded ``parts``."""
    flexible = version >= request.flexible_since
    framed = encode_request(request.api_key, version, correlation_id, client_id, parts, flexible=flexible)
    return b"".join(map(_in_memory, framed))


def _in_memory(part: Part) -> bytes | bytearray | memoryview:
    if isinstance(part, FileSlice):
        raise EncodeError("a request to another node holds a file slice: read it first")
    return part


class PeerRequest:
    """One request and the future of its answer."""

    __slots__ = ("_chosen", "_fixed", "_message", "_oldest", "_parts", "_peer", "future")

    def __init__(
        self, peer: Peer, message: Message, version: int | None, future: asyncio.Future[Any], version_min: int = 0
    ) -> None:
        """``version`` is None if it is to be negotiated, which may not go below ``version_min``."""
        self._peer = peer
        self._message = message
        self._fixed = version
        self._oldest = max(version_min, message.versions[0])
        self._chosen = -1
        self._parts: list[Part] = []
        self.future = future

    @property
    def name(self) -> str:
        """The name of the API."""
        return type(self._message).__name__.removesuffix("Request")

    def prepare(self, ranges: ApiRanges | None) -> int:
        """Encode the request as far as its version is known; the bytes that it takes, or about that.

        Where no version is common to both sides the future fails. Raises `EncodeError` and `Invalid`.
        """
        version = self._message.versions[1] if self._fixed is None and ranges is None else self._version(ranges)
        if version < 0:
            return 0
        parts = encode(self._message, version)
        if any(isinstance(part, FileSlice) for part in parts):
            raise EncodeError(f"{self.name} holds a file slice: read it before it is sent to another node")
        self._chosen, self._parts = version, parts
        return _HEADER_BYTES_MAX + parts_length(parts)

    def frame(self, ranges: ApiRanges | None, correlation_id: int, client_id: str) -> bytes | None:
        """The frame to send; None, and the future failed, if the node cannot take the request."""
        version = self._version(ranges)
        if version < 0:
            return None
        if version != self._chosen:
            try:
                self._parts = encode(self._message, version)
            except EncodeError as error:
                self.fail(PeerUnsupported, f"version {version} cannot carry it: {error}")
                return None
            self._chosen = version
        parts, self._parts = self._parts, []
        return frame_bytes(self._message, version, parts, correlation_id, client_id)

    def _version(self, ranges: ApiRanges | None) -> int:
        """The version to use; -1, and the future failed, if there is none."""
        if self._fixed is not None:
            return self._fixed
        first, last = (0, -1) if ranges is None else ranges.get(self._message.api_key, (0, -1))
        ours_last = self._message.versions[1]
        version = min(last, ours_last)
        if version >= max(first, self._oldest):
            return version
        served = f"versions {first} to {last}" if last >= 0 else "no version"
        self.fail(PeerUnsupported, f"it serves {served}, this node speaks {self._oldest} to {ours_last}")
        return -1

    def answer(self, frame: Buffer, elements_max: int = ELEMENTS_MAX) -> Message:
        """The message in an answer; its records are views of ``frame``. Raises `Invalid`.

        ``elements_max`` bounds the elements of all its lists together: each takes some 2.5 us.
        """
        kind = APIS[self._message.api_key].response
        # The header of an ApiVersions answer has no tags, whatever its version (KIP-511).
        flexible = self._chosen >= kind.flexible_since and kind is not ApiVersionsResponse
        _, position = decode_response_header(memoryview(frame), flexible=flexible)
        if kind is ApiVersionsResponse and frame[position : position + 2] != b"\0\0":
            return decode(kind, 0, frame, position)
        return decoder(kind, self._chosen)(frame, position, elements_max)[0]

    def fail(self, kind: type[PeerError], why: str) -> None:
        """End the request with an error, unless it has ended."""
        if not self.future.done():
            self.future.set_exception(kind(self._peer, f"{self.name}: {why}"))
