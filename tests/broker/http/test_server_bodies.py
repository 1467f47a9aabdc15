"""Every route that the broker has, asked with names and bodies that it does not expect."""

import asyncio
import gzip
import logging

import aiohttp
import pytest

from stratalog.broker.http.server import OPEN_PATHS
from stratalog.broker.requests.authorizer import AllowAll

ROUTES = {
    "/": "GET",
    "/livez": "GET",
    "/readyz": "GET",
    "/metrics": "GET",
    "/page/page.css": "GET",
    "/tier/status": "GET",
    "/v1/tier": "GET",
    "/v1/tier/events": "GET",
    "/v1/tier/plan": "GET",
    "/v1/tier/verification": "POST",
    "/v1/topics/t/tiering": "PATCH",
    "/v1/topics/t/partitions/0/hydrate": "POST",
}

BODIES = {
    "nested deeply": (b"[" * 200_000, {}),
    "nested objects": (b'{"a":' * 100_000, {}),
    "gzip that is none": (b"\x1f\x8b\x08junk", {"Content-Encoding": "gzip"}),
    "gzip cut short": (gzip.compress(b"{}" * 1000)[:20], {"Content-Encoding": "gzip"}),
    "deflate that is none": (b"\xff\xff\xff", {"Content-Encoding": "deflate"}),
    "no text": (b"\xff\xfe\xfd", {}),
    "an unknown charset": (b"[]", {"Content-Type": "application/json; charset=nothing"}),
    "a number too long": (b'{"from": ' + b"9" * 10_000 + b"}", {}),
    "no object": (b'"text"', {}),
    "nothing": (b"", {}),
}


@pytest.fixture
def node(shared_broker):
    """A broker with a topic."""
    if "t" not in shared_broker.node.image.topics.by_name:
        shared_broker.create("t")
    shared_broker.wait_until(lambda: shared_broker.node.http._server is not None)
    return shared_broker.node


async def ask(node, method, path, **options):
    """Status of an answer; its body is read, but for a stream of events."""
    host, port = node.http_address[:2]
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, f"http://{host}:{port}{path}", **options) as response,
    ):
        return response.status, "" if path.endswith("events") else await response.text()


def routes_of(node):
    """Path patterns of everything that is served."""
    application = node.http._server._runner.app
    return {resource.canonical for resource in application.router.resources()}


async def test_every_route_but_two_asks_for_a_name_of_this_machine(node):
    """Also those that are added later: the check is in front of all of them."""
    known = {path.replace("/t/", "/{topic}/").replace("/0/", "/{partition}/") for path in ROUTES}
    assert {path for path in routes_of(node) if not path.startswith("/page/")} == known - {"/page/page.css"}
    for path, method in {**ROUTES, "/absent": "GET"}.items():
        status, _ = await ask(node, method, path, headers={"Host": "evil.example"})
        assert (path, status) == (path, 200 if path in OPEN_PATHS else 421)


@pytest.mark.parametrize("what", BODIES)
async def test_a_body_that_cannot_be_read_is_the_clients_mistake(node, what, caplog):
    """400 on each route that takes one, 415 if it is packed, and no line in the log."""
    body, headers = BODIES[what]
    caplog.set_level(logging.WARNING)
    assert isinstance(node.dispatcher.authorizer, AllowAll)
    for path, method in ROUTES.items():
        if method != "GET":
            refused = 415 if "Content-Encoding" in headers else 400
            options = {"data": body, "headers": {"Content-Type": "application/json", **headers}}
            if headers.get("Content-Encoding"):
                options["skip_auto_headers"] = ["Content-Encoding"]
            status, text = await ask(node, method, path, **options)
            assert (path, status, text.startswith('{"error"')) == (path, refused, True), text
    assert caplog.records == []


async def test_bytes_that_are_no_http_are_answered_and_not_logged(node, caplog):
    """Kafka's, TLS's and random ones at the wrong port."""
    caplog.set_level(logging.WARNING)
    for data in (bytes(100), b"\x16\x03\x01" + bytes(200), b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\xff" * 5000):
        reader, writer = await asyncio.open_connection(*node.http_address[:2])
        writer.write(data)
        writer.write_eof()
        await asyncio.wait_for(reader.read(), 10)
        writer.close()
    assert [record.getMessage()[:100] for record in caplog.records] == []


@pytest.mark.parametrize("is_reset", [False, True])
async def test_a_client_that_goes_within_its_body_is_not_logged(node, caplog, until, is_reset):
    """Any stranger may do so, as often as it likes."""
    caplog.set_level(logging.WARNING)
    requests = node.http._server._connections
    for path, method in ROUTES.items():
        _, writer = await asyncio.open_connection(*node.http_address[:2])
        head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n{{"
        writer.write(head.encode())
        await writer.drain()
        await asyncio.sleep(0.05)
        if is_reset:
            writer.transport.abort()
        writer.close()
    await until(lambda: not len(requests))
    assert [record.getMessage()[:100] for record in caplog.records] == []
