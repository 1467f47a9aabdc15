"""One blocking connection to a broker: versions are negotiated, requests sent, answers read in order.

The link retries no request: the caller knows what may be sent twice.
"""

from __future__ import annotations

import select
import socket
import sys
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Final, Self

from stratalog.wire.errors import ErrorCode, Invalid, KafkaError, Retriable
from stratalog.wire.frame import decode_response_header, encode_request
from stratalog.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from stratalog.wire.parts import FileSlice, Part
from stratalog.wire.schema import Message, decode, decoder, encode

__all__ = ["BrokerAway", "BrokerLink", "BrokerTimeout", "BrokerUnavailable", "check", "code_words"]

API_VERSIONS_KEY: Final = 18
FRAME_BYTES_MAX: Final = 1 << 30
LENGTH_BYTES: Final = 4


class BrokerAway(Retriable):
    """A broker gave no answer."""


class BrokerUnavailable(BrokerAway):
    """No connection, or it ended before the answer; the request may have been carried out."""


class BrokerTimeout(BrokerAway):
    """The answer did not come in time; the request may have been carried out."""


def check(code: int, message: str | None = None) -> None:
    """Raise the `KafkaError` of a code in an answer, unless it is 0."""
    if code:
        raise KafkaError(ErrorCode(code), message)


class BrokerLink:
    """One connection to one broker; answers come in the order of the requests."""

    def __init__(self, host: str, port: int, *, timeout_seconds: float = 30.0, client_id: str = "stratalog") -> None:
        """Connect. Raises `BrokerUnavailable` or `BrokerTimeout`."""
        self.host = host
        self.port = port
        self.client_id = client_id
        self._correlation_id = 0
        self._ranges: dict[int, tuple[int, int]] | None = None
        self._pending: list[tuple[int, type[Message] | None, int]] = []
        try:
            self._socket = socket.create_connection((host or "127.0.0.1", port), timeout=timeout_seconds)
        except TimeoutError as error:
            raise BrokerTimeout(f"{self}: no connection within {timeout_seconds:g} s") from error
        except OSError as error:
            raise BrokerUnavailable(f"{self}: {error.strerror or error}; is a broker running there?") from error
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __str__(self) -> str:
        return f"broker {self.host}:{self.port}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; answers still due are lost."""
        self._socket.close()

    def has_ended(self) -> bool:
        """Whether the broker has closed the connection, as it does with idle ones. It takes no answer, and waits for none."""
        look = select.poll()
        try:
            look.register(self._socket, select.POLLIN)
            return bool(look.poll(0)) and not self._socket.recv(1, socket.MSG_PEEK)
        except (OSError, ValueError):  # it was reset, or closed here
            return True

    def wait_for(self, timeout_seconds: float) -> None:
        """From now on an answer has so long to come."""
        self._socket.settimeout(timeout_seconds)

    def fileno(self) -> int:
        """Its file descriptor, by which a selector tells that an answer has come."""
        return self._socket.fileno()

    def version_of(self, request: type[Message]) -> int:
        """The highest version of a request that both sides speak.

        Raises `KafkaError` UNSUPPORTED_VERSION if there is none.
        """
        ranges = self.api_ranges()
        first, last = ranges.get(request.api_key, (0, -1))
        version = min(last, request.versions[1])
        if version < max(first, request.versions[0]):
            name = request.__name__.removesuffix("Request")
            served = f"versions {first} to {last}" if last >= 0 else "nothing"
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION, f"{self} serves {served} of {name}; this client cannot use it"
            )
        return version

    def api_ranges(self) -> Mapping[int, tuple[int, int]]:
        """First and last version of every API key the broker serves; asked once."""
        if self._ranges is None:
            answer = self._ask_versions(ApiVersionsRequest.versions[1])
            if answer.error_code == ErrorCode.UNSUPPORTED_VERSION:
                answer = self._ask_versions(0)
            check(answer.error_code)
            self._ranges = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
        return self._ranges

    def _ask_versions(self, version: int) -> ApiVersionsResponse:
        request = ApiVersionsRequest(client_software_name="stratalog", client_software_version="1")
        self.send(request, version)
        frame = self.receive_frame()
        self._pending.pop(0)
        _, position = decode_response_header(frame, flexible=False)
        # A broker that does not know the version answers with error code and body of version 0 (KIP-511).
        error_code = int.from_bytes(frame[position : position + 2], "big", signed=True)
        return decode(ApiVersionsResponse, 0 if error_code else version, frame, position)

    def call(self, request: Message, version: int | None = None) -> Any:
        """Send a request in the highest common version, or in `version`, and wait for its answer.

        Raises `BrokerUnavailable`, `BrokerTimeout`, or `KafkaError` UNSUPPORTED_VERSION. Error codes inside the
        answer are for the caller.
        """
        if self._pending:
            raise Invalid(f"{self}: {len(self._pending)} answers are still to be received")
        self.send(request, self.version_of(type(request)) if version is None else version)
        return self.receive()

    def send(self, request: Message, version: int) -> int:
        """Send a request without waiting, and return its correlation id; `receive` gives the answers in order."""
        kind = type(request)
        self._correlation_id += 1
        flexible = version >= kind.flexible_since
        parts = encode(request, version)
        frame = encode_request(kind.api_key, version, self._correlation_id, self.client_id, parts, flexible=flexible)
        self.send_raw(b"".join(map(_in_memory, frame)))
        self._pending.append((self._correlation_id, _response_of(kind), version))
        return self._correlation_id

    def send_raw(self, data: bytes) -> None:
        """Send bytes as they are. Raises `BrokerUnavailable` or `BrokerTimeout`."""
        try:
            self._socket.sendall(data)
        except TimeoutError as error:
            raise BrokerTimeout(f"{self}: the request could not be sent in time") from error
        except OSError as error:
            raise BrokerUnavailable(f"{self}: {error.strerror or error} while sending a request") from error

    def receive(self) -> Any:
        """The answer to the oldest request that was sent and not yet answered."""
        correlation_id, kind, version = self._pending[0]
        frame = self.receive_frame()
        self._pending.pop(0)
        if kind is None:
            raise Invalid("the request has no answer")
        flexible = version >= kind.flexible_since and kind.api_key != API_VERSIONS_KEY
        answered, position = decode_response_header(frame, flexible=flexible)
        if answered != correlation_id:
            self.close()
            raise BrokerUnavailable(f"{self}: answer {answered} came where {correlation_id} was due; connection closed")
        # A cluster may have more partitions than a request may have elements: its frame bounds an answer.
        return decoder(kind, version)(frame, position, len(frame))[0]

    def receive_answer(self) -> memoryview:
        """As `receive`, with the answer as bytes: what has to be counted need not be understood."""
        self._pending.pop(0)
        return self.receive_frame()

    def forget(self) -> None:
        """The newest request gets no answer (acks=0)."""
        self._pending.pop()

    def receive_frame(self) -> memoryview:
        """The next frame without its length, from its correlation id on."""
        length = int.from_bytes(self._receive(LENGTH_BYTES), "big", signed=True)
        if not LENGTH_BYTES <= length <= FRAME_BYTES_MAX:
            self.close()
            raise BrokerUnavailable(f"{self}: a frame of {length} bytes; is this a Kafka port?")
        return self._receive(length)

    def _receive(self, length: int) -> memoryview:
        view = memoryview(bytearray(length))
        position = 0
        while position < length:
            try:
                count = self._socket.recv_into(view[position:])
            except TimeoutError as error:
                raise BrokerTimeout(f"{self}: no answer within {self._socket.gettimeout():g} s") from error
            except OSError as error:
                raise BrokerUnavailable(f"{self}: {error.strerror or error} while waiting for an answer") from error
            if not count:
                raise BrokerUnavailable(f"{self}: the broker closed the connection")
            position += count
        return view


def _in_memory(part: Part) -> bytes | bytearray | memoryview:
    if isinstance(part, FileSlice):
        raise Invalid("a client sends bytes, not ranges of files")
    return part


def _response_of(request: type[Message]) -> type[Message] | None:
    """The class that answers a request; both are declared in one module under corresponding names."""
    name = request.__name__.removesuffix("Request") + "Response"
    found: type[Message] | None = getattr(sys.modules[request.__module__], name, None)
    return found


def code_words(code: int) -> str:
    """An error code in words: ``unknown topic or partition``."""
    return ErrorCode(code).name.lower().replace("_", " ")
