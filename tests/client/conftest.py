"""A broker that answers as a test wants."""

import contextlib
import struct

import pytest

from stratalog.wire.schema import decode, encode_bytes


class ScriptedBroker:
    """A thread that answers requests with what the test put in ``answers`` by API key: for clients that block.

    An answer is a message, a function of the request that makes one, raw bytes to send as they are, or None to hang
    up. ``ranges`` is what ApiVersions tells. ``requests`` keeps what came, with its version.
    """

    def __init__(self) -> None:
        import socket
        import threading

        self.answers = {}
        self.ranges = {}
        self.requests = []
        self._connections = []
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        import threading

        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                self._connections.append(connection)
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection) -> None:
        with connection, contextlib.suppress(OSError), connection.makefile("rb") as stream:
            while len(head := stream.read(4)) == 4:
                answer = self._answer(memoryview(stream.read(struct.unpack(">i", head)[0])))
                if answer is None:
                    return
                connection.sendall(answer)

    def _answer(self, frame: memoryview) -> bytes | None:
        from stratalog.wire.frame import decode_request_header, encode_response
        from stratalog.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
        from stratalog.wire.messages.registry import APIS

        key, version = struct.unpack_from(">hh", frame)
        header = decode_request_header(frame, flexible=version >= APIS[key].request.flexible_since)
        request = decode(APIS[key].request, version, frame, header.body_position)
        self.requests.append((request, version))
        if key == 18 and 18 not in self.answers:
            rows = [
                ApiVersion(api_key=one, min_version=low, max_version=high) for one, (low, high) in self.ranges.items()
            ]
            answer = ApiVersionsResponse(api_keys=rows)
        else:
            answer = self.answers[key]
        if callable(answer):
            answer = answer(request)
        if answer is None or isinstance(answer, bytes):
            return answer
        flexible = version >= type(answer).flexible_since and key != 18
        return b"".join(encode_response(header.correlation_id, [encode_bytes(answer, version)], flexible=flexible))

    def hang_up(self) -> None:
        """Close every connection, as a broker does with those that are idle for long; new ones are taken."""
        import socket

        for connection in self._connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._connections.clear()

    def close(self) -> None:
        """Accept nothing more."""
        self._socket.close()


@pytest.fixture
def scripted():
    """A broker that says what the test wants it to say."""
    broker = ScriptedBroker()
    yield broker
    broker.close()
