"""The fault proxy before a plain HTTP server: each action as a client sees it."""

from __future__ import annotations

import http.client
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest


class Upstream(BaseHTTPRequestHandler):
    """Answers GET with what was PUT, and remembers the Host header."""

    protocol_version = "HTTP/1.1"
    stored = b""
    hosts: list = []  # noqa: RUF012 - one server in this file
    puts = 0

    def log_message(self, *_):
        """Be quiet."""

    def do_PUT(self):
        Upstream.stored = self.rfile.read(int(self.headers["Content-Length"]))
        Upstream.puts += 1
        Upstream.hosts.append(self.headers["Host"])
        self.answer(b"")

    def do_GET(self):
        self.answer(Upstream.stored)

    def do_HEAD(self):
        self.send_response(200)
        self.send_header("Content-Length", str(len(Upstream.stored)))
        self.end_headers()

    def answer(self, body):
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-Kept", "yes")
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture(scope="module")
def upstream():
    """The URL of the server behind."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Upstream)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def proxy(load_program, upstream):
    """The proxy before it."""
    Upstream.puts = 0
    Upstream.stored = b"0123456789"
    with load_program("fault_proxy").FaultProxy(upstream) as running:
        yield running


def request(proxy, method, path="/k?x=1", body=None):
    """Make one request through the proxy."""
    connection = http.client.HTTPConnection("127.0.0.1", proxy.server_address[1], timeout=5)
    try:
        connection.request(method, path, body)
        response = connection.getresponse()
        return response.status, response.read(), response.headers
    finally:
        connection.close()


def rules(proxy, *given):
    """Set rules as another process does, over HTTP."""
    status, answer, _ = request(proxy, "POST", "/_fault", json.dumps(given))
    assert (status, json.loads(answer)) == (200, [])


def test_without_rules_everything_passes(proxy):
    """Methods, bodies, headers and the client's Host go through unchanged, and the log shows them."""
    assert request(proxy, "PUT", body=b"hello")[0] == 200
    status, body, headers = request(proxy, "GET")
    assert (status, body, headers["X-Kept"]) == (200, b"hello", "yes")
    assert request(proxy, "HEAD")[2]["Content-Length"] == "5"
    assert Upstream.hosts[-1] == proxy.url.removeprefix("http://")
    log = json.loads(request(proxy, "GET", "/_fault")[1])
    assert log == [["PUT", "/k?x=1", ""], ["GET", "/k?x=1", ""], ["HEAD", "/k?x=1", ""]]


def test_a_status_is_answered_without_the_deed(proxy):
    """The error has S3's form, and only the given number of requests is refused."""
    rules(proxy, {"action": "status", "method": "PUT", "status": 503, "code": "SlowDown", "count": 2})
    for _ in range(2):
        status, body, _ = request(proxy, "PUT", body=b"new")
        assert (status, b"<Code>SlowDown</Code>" in body) == (503, True)
    assert Upstream.puts == 0
    assert request(proxy, "PUT", body=b"new")[0] == 200


@pytest.mark.parametrize(("action", "deeds"), [("reset", 0), ("drop_after_commit", 1)])
def test_resets_come_before_or_after_the_deed(proxy, action, deeds):
    """The client sees a broken connection either way; the server behind was reached or not."""
    rules(proxy, {"action": action})
    with pytest.raises((ConnectionError, http.client.HTTPException)):
        request(proxy, "PUT", body=b"new")
    assert Upstream.puts == deeds


def test_a_failure_after_the_deed(proxy):
    """The request was carried out, and the client gets 500."""
    rules(proxy, {"action": "fail_after_commit", "status": 500, "code": "InternalError"})
    assert request(proxy, "PUT", body=b"new")[0] == 500
    assert Upstream.stored == b"new"


def test_bodies_are_cut_and_damaged(proxy):
    """A cut body announces its whole length; a damaged one differs in one bit."""
    rules(proxy, {"action": "truncate"}, {"action": "corrupt"})
    with pytest.raises((http.client.IncompleteRead, ConnectionError)):
        request(proxy, "GET")
    damaged = request(proxy, "GET")[1]
    assert sum((a ^ b).bit_count() for a, b in zip(damaged, b"0123456789", strict=True)) == 1


def test_a_delay_and_a_stall(proxy):
    """A delayed answer is whole; a stalled one never ends."""
    rules(proxy, {"action": "delay", "seconds": 0.01}, {"action": "stall", "seconds": 0.01})
    assert request(proxy, "GET")[1] == b"0123456789"
    with pytest.raises((http.client.IncompleteRead, ConnectionError)):
        request(proxy, "GET")


def test_rules_choose_by_method_and_path(proxy):
    """A rule for another method or path does not act."""
    rules(proxy, {"action": "status", "method": "PUT", "path": "/other"})
    assert request(proxy, "PUT", "/k", b"1")[0] == 200
    assert request(proxy, "GET", "/other")[0] == 200
    assert request(proxy, "PUT", "/other", b"1")[0] == 503


def test_unknown_actions_are_refused(proxy):
    """A mistake in a rule is answered with the actions there are."""
    status, answer, _ = request(proxy, "POST", "/_fault", json.dumps([{"action": "explode"}]))
    assert status == 400
    assert b"drop_after_commit" in answer
