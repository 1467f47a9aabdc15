"""An HTTP proxy that spoils S3 traffic by rule: for clients that cannot be wrapped in-process.

Start it in front of any S3 service and give clients its address; signatures stay valid because the Host header is
passed on as the client sent it. As a program::

    python localstack/fault_proxy.py http://127.0.0.1:9000 --port 9100
    curl -d '[{"action": "status", "method": "PUT", "count": 2}]' http://127.0.0.1:9100/_fault
    curl http://127.0.0.1:9100/_fault        # the requests seen since then

Rules are tried in order; the first that matches method and path and is not used up acts on the request.
"""

from __future__ import annotations

import argparse
import http.client
import json
import re
import socket
import struct
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import urlsplit

ACTIONS = frozenset(
    {
        "status",  # answered with `status` and `code`, never forwarded
        "reset",  # connection reset, never forwarded
        "delay",  # forwarded after `seconds`
        "drop_after_commit",  # forwarded, then the connection is reset instead of the answer
        "fail_after_commit",  # forwarded, then answered with `status` and `code`
        "truncate",  # half of the body, then the connection is reset
        "stall",  # half of the body, then nothing for `seconds`
        "corrupt",  # one bit of the body flipped
    }
)

CONTROL_PATH = "/_fault"
_HOP_HEADERS = frozenset({"connection", "keep-alive", "transfer-encoding", "expect", "proxy-connection"})
_ERROR_XML = '<?xml version="1.0" encoding="UTF-8"?><Error><Code>{}</Code><Message>injected</Message></Error>'


@dataclass(slots=True)
class Rule:
    """One fault: ``action`` on the next ``count`` requests whose method and path (with query) match."""

    action: str
    method: str = ""
    path: str = ""
    count: int = 1
    status: int = 503
    code: str = "SlowDown"
    seconds: float = 0.0

    def __post_init__(self) -> None:
        if self.action not in ACTIONS:
            raise ValueError(f"unknown action {self.action!r}, known are {', '.join(sorted(ACTIONS))}")

    def matches(self, method: str, path: str) -> bool:
        """Whether this rule applies to a request and is not used up."""
        return self.count > 0 and self.method in {"", method} and re.search(self.path, path) is not None


@dataclass(frozen=True, slots=True)
class Seen:
    """A request that came by, and what was done to it (empty: nothing)."""

    method: str
    path: str
    action: str
    headers: dict[str, str]


@dataclass(slots=True)
class Script:
    """Rules and the log of requests, shared by the proxy's threads."""

    rules: list[Rule] = field(default_factory=list)
    seen: list[Seen] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def replace(self, rules: list[Rule]) -> None:
        """Start anew with these rules and an empty log."""
        with self.lock:
            self.rules = rules
            self.seen = []

    def choose(self, method: str, path: str, headers: dict[str, str]) -> Rule | None:
        """Note the request; return the rule that applies to it and use it up by one."""
        with self.lock:
            rule = next((rule for rule in self.rules if rule.matches(method, path)), None)
            if rule is not None:
                rule.count -= 1
            self.seen.append(Seen(method, path, rule.action if rule else "", headers))
        return rule


class FaultProxy(ThreadingHTTPServer):
    """The proxy in front of ``upstream`` (an ``http://host:port`` URL); ``script`` holds rules and log.

    A context manager: serves on a thread of its own until left.
    """

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, upstream: str, *, host: str = "127.0.0.1", port: int = 0) -> None:
        super().__init__((host, port), _Handler)
        parts = urlsplit(upstream)
        self.upstream_host = parts.hostname or "127.0.0.1"
        self.upstream_port = parts.port or 80
        self.script = Script()

    @property
    def url(self) -> str:
        """The address for clients."""
        return f"http://{self.server_address[0]!s}:{self.server_address[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.shutdown()
        self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hung up is no error of ours: campaigns do that all the time."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: FaultProxy

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
        """Be quiet: the script keeps the log."""

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path == CONTROL_PATH:
            self._control(body)
            return
        rule = self.server.script.choose(self.command, self.path, dict(self.headers.items()))
        action = rule.action if rule else ""
        if rule is not None and action in {"status", "reset", "delay"} and not self._before(rule):
            return
        status, headers, answer = self._forward(body)
        if rule is None or action == "delay":
            self._answer(status, headers, answer)
        elif action == "drop_after_commit":
            self._reset()
        elif action == "fail_after_commit":
            self._fail(rule)
        else:
            self._spoil(rule, status, headers, answer)

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _serve  # noqa: N815 - the base class looks for these names

    def _before(self, rule: Rule) -> bool:
        """Act before the request is forwarded; return whether it still is to be."""
        if rule.action == "status":
            self._fail(rule)
        elif rule.action == "reset":
            self._reset()
        else:
            time.sleep(rule.seconds)
            return True
        return False

    def _spoil(self, rule: Rule, status: int, headers: list[tuple[str, str]], answer: bytes) -> None:
        middle = len(answer) // 2
        if rule.action == "corrupt":
            damaged = bytearray(answer)
            if damaged:
                damaged[middle] ^= 1
            self._answer(status, headers, bytes(damaged))
            return
        self._head(status, headers, len(answer))
        self.wfile.write(answer[:middle])
        self.wfile.flush()
        time.sleep(rule.seconds)
        self._reset()

    def _forward(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        upstream = http.client.HTTPConnection(self.server.upstream_host, self.server.upstream_port, timeout=60)
        try:
            upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name.lower() not in _HOP_HEADERS:
                    upstream.putheader(name, value)
            upstream.endheaders(body or None)
            response = upstream.getresponse()
            kept = [(name, value) for name, value in response.getheaders() if name.lower() not in _HOP_HEADERS]
            return response.status, kept, response.read()
        finally:
            upstream.close()

    def _head(self, status: int, headers: list[tuple[str, str]], length: int) -> None:
        self.send_response_only(status)
        announced = False
        for name, value in headers:
            announced = announced or name.lower() == "content-length"
            self.send_header(name, value)
        if not announced and status not in {204, 304}:
            self.send_header("Content-Length", str(length))
        self.end_headers()

    def _answer(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        self._head(status, headers, len(body))
        self.wfile.write(body)

    def _fail(self, rule: Rule) -> None:
        body = b"" if self.command == "HEAD" else _ERROR_XML.format(rule.code).encode()
        self._answer(rule.status, [("Content-Type", "application/xml")], body)

    def _reset(self) -> None:
        """Send RST instead of an orderly end."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        self.connection.close()

    def _control(self, body: bytes) -> None:
        script = self.server.script
        if self.command == "POST":
            try:
                script.replace([Rule(**rule) for rule in json.loads(body)])
            except (TypeError, ValueError) as error:
                self._answer(400, [], f"{error}\n".encode())
                return
        with script.lock:
            seen = [[entry.method, entry.path, entry.action] for entry in script.seen]
        self._answer(200, [("Content-Type", "application/json")], json.dumps(seen).encode())


def main() -> None:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(description="HTTP proxy that injects S3 faults by rule.")
    parser.add_argument("upstream", help="the S3 service, http://host:port")
    parser.add_argument("--port", type=int, default=0, help="port to listen on (default: any)")
    options = parser.parse_args()
    with FaultProxy(options.upstream, port=options.port) as proxy:
        print(f"{proxy.url} -> {options.upstream}, rules at {proxy.url}{CONTROL_PATH}", flush=True)
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            print("stopped")


if __name__ == "__main__":
    main()
