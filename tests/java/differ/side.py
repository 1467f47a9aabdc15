"""One of the two brokers: its connections, and what it said that later requests name."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from stratalog.wire.frame import decode_response_header, encode_request
from stratalog.wire.messages.api_versions import ApiVersionsRequest
from stratalog.wire.schema import Message, decoder, encode, encode_bytes
from tests.java.differ.plain import Aliases, plain
from tests.java.differ.story import REQUESTS, RESPONSES, Ask, Known, Raw, Take, TopicId, build

CLIENT_ID = "differ"
API_VERSIONS_KEY = 18
CLOSED = {"connection": "closed"}
NO_ANSWER = {"connection": "no answer within the time"}


class Closed(Exception):
    """The broker has ended the connection."""


class Connection:
    """A socket to a broker and the answers that are due on it, oldest first."""

    def __init__(self, host: str, port: int, timeout_seconds: float) -> None:
        self._socket = socket.create_connection((host, port), timeout=timeout_seconds)
        self._correlation_id = 0
        self.due: list[tuple[str, int]] = []

    def send(self, request: Message, version: int) -> None:
        """Send a request. Raises `Closed`."""
        self._correlation_id += 1
        cls = type(request)
        flexible = version >= cls.flexible_since
        parts = encode(request, version)
        frame = encode_request(cls.api_key, version, self._correlation_id, CLIENT_ID, parts, flexible=flexible)
        self.send_raw(b"".join(frame))

    def send_raw(self, data: bytes) -> None:
        """Send bytes as they are. Raises `Closed`."""
        try:
            self._socket.sendall(data)
        except ConnectionError as error:
            raise Closed from error

    def receive(self) -> bytes:
        """The next frame without its length. Raises `Closed`, or `TimeoutError`."""
        return self._receive(int.from_bytes(self._receive(4), "big"))

    def _receive(self, length: int) -> bytes:
        received = b""
        while len(received) < length:
            try:
                more = self._socket.recv(length - len(received))
            except ConnectionError as error:
                raise Closed from error
            if not more:
                raise Closed
            received += more
        return received

    def close(self) -> None:
        """Close it; answers still due are lost."""
        self._socket.close()


class Side:
    """A broker under comparison.

    ``data`` is its log directory, which answers name. `ask` returns what the broker answered as plain values in which
    everything that two brokers cannot have in common has an alias.
    """

    def __init__(self, address: str, data: str, timeout_seconds: float = 10.0) -> None:
        host, _, port = address.rpartition(":")
        self.host, self.port = host, int(port)
        self.aliases = Aliases({address: "<address>", data: "<log dir>"}, self.port)
        self.known: dict[str, Any] = {}
        self.topic_ids: dict[str, bytes] = {}
        self._timeout_seconds = timeout_seconds
        self._connections: dict[str, Connection] = {}
        self.ranges = self._ranges()

    def _ranges(self) -> dict[str, tuple[int, int]]:
        connection = self.connection("main")
        connection.send(ApiVersionsRequest(client_software_name="differ", client_software_version="1"), 3)
        answer = self._decode("ApiVersions", 3, connection.receive())
        served = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
        return {name: served[cls.api_key] for name, cls in REQUESTS.items() if cls.api_key in served}

    def connection(self, name: str) -> Connection:
        """The connection of this name, opened anew if the broker has closed it."""
        found = self._connections.get(name)
        if found is None:
            found = self._connections[name] = Connection(self.host, self.port, self._timeout_seconds)
        return found

    def close(self) -> None:
        """Close every connection."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def ask(self, ask: Ask, version: int, text: Callable[[str], str]) -> Any:
        """Send a request; its answer, or None if that is taken later."""
        if ask.until is not None:
            return self._ask_until(replace(ask, until=None), version, text, *ask.until)
        request = build(REQUESTS[ask.api], ask.body, version, text, self._look_up)
        connection = self.connection(ask.on)
        try:
            connection.send(request, version)
        except Closed:
            self._lost(ask.on)
            return CLOSED
        if not ask.answered:
            return {}
        connection.due.append((ask.api, version))
        return None if ask.later else self.take(Take(ask.on, ask.keep))

    def _ask_until(self, ask: Ask, version: int, text: Callable[[str], str], path: str, value: Any) -> Any:
        end = time.monotonic() + self._timeout_seconds
        while True:
            answer = self.ask(replace(ask, keep={**ask.keep, "until": path}), version, text)
            if self.known["until"] == value or time.monotonic() > end:
                return answer

    def take(self, take: Take) -> Any:
        """The oldest answer that is due on a connection."""
        connection = self.connection(take.on)
        api, version = connection.due.pop(0)
        try:
            frame = connection.receive()
        except TimeoutError:
            self._lost(take.on)
            return NO_ANSWER
        except Closed:
            self._lost(take.on)
            return CLOSED
        answer = self._decode(api, version, frame)
        for name, path in take.keep.items():
            self.known[name] = _at(answer, path)
        return plain(answer, version, self.aliases, self.topic_ids)

    def raw(self, raw: Raw) -> Any:
        """Send a frame as it is on a connection of its own; the answer in hexadecimal."""
        connection = Connection(self.host, self.port, self._timeout_seconds)
        try:
            connection.send_raw(len(raw.frame).to_bytes(4, "big") + raw.frame)
            return {"frame": connection.receive().hex()}
        except Closed:
            return CLOSED
        finally:
            connection.close()

    def _decode(self, api: str, version: int, frame: bytes) -> Any:
        cls = RESPONSES[api]
        flexible = version >= cls.flexible_since and cls.api_key != API_VERSIONS_KEY
        _, position = decode_response_header(frame, flexible=flexible)
        if cls.api_key == API_VERSIONS_KEY and int.from_bytes(frame[position : position + 2], "big") == 35:
            version = 0
        answer, end = decoder(cls, version)(frame, position)
        assert end == len(frame), f"{api} v{version}: {len(frame) - end} bytes behind the answer"
        if api != "Fetch":  # our declarations carry every field that Kafka sends, tagged ones too
            assert len(encode_bytes(answer, version)) == end - position, f"{api} v{version}: not all was understood"
        return answer

    def _look_up(self, wanted: Known | TopicId) -> Any:
        if isinstance(wanted, TopicId):
            return self.topic_ids[wanted.topic]
        return self.known[wanted.name]

    def _lost(self, name: str) -> None:
        self._connections.pop(name).close()


def _at(answer: Any, path: str) -> Any:
    for part in path.split("."):
        answer = answer[int(part)] if part.isdigit() else getattr(answer, part)
    return answer
