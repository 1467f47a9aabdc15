"""Connections of the HTTP port: how many, and how long."""

import asyncio

import aiohttp
import pytest
from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from stratalog.broker.http.connections import BODY_SECONDS, HEADER_SECONDS, IDLE_SECONDS, HttpLimits
from stratalog.broker.http.listener import HttpListener
from stratalog.broker.http.server import HttpServer
from stratalog.broker.runtime.metrics import Metrics


class Site:
    """A served port whose time the test moves."""

    def __init__(self, http, address):
        self.http, self.address, self.ahead = http, address, 0.0
        now = http.connections.now
        http.connections.now = lambda: now() + self.ahead

    async def connect(self, data=b"", host="127.0.0.1"):
        reader, writer = await asyncio.open_connection(*self.address, local_addr=(host, 0))
        writer.write(data)
        await writer.drain()
        return reader, writer

    async def get(self, path="/livez"):
        host, port = self.address
        async with aiohttp.ClientSession() as session, session.get(f"http://{host}:{port}{path}") as response:
            return response.status

    def look(self, ahead):
        self.ahead = ahead
        self.http.connections._look()


@pytest.fixture
async def site(slices):
    """With ten connections in all and four from one address, and a stream that does not end by itself."""
    hold = asyncio.Event()

    async def stream(request):
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"first")
        await hold.wait()
        return response

    async def take(request):
        return web.Response(text=str(len(await request.read())))

    def make():
        return HttpServer(Metrics(), list, {"/stream": stream, "POST /take": take}, slices=slices)

    http = HttpListener(make, pytest.fail, HttpLimits(connections_max=10, per_host_max=4))
    address = await http.bind("127.0.0.1", 0)
    http.serve()
    await http.opened()
    yield Site(http, address)
    hold.set()
    await http.close()


async def ended(reader):
    """Whether the other side ends the connection."""
    try:
        return await asyncio.wait_for(reader.read(), 5) is not None
    except ConnectionError:
        return True


async def test_half_a_header_has_its_time(site, until):
    """From its first byte on, however many follow."""
    reader, writer = await site.connect(b"GET /livez HTTP/1.1\r\nX: ")
    await until(lambda: len(site.http.connections) == 1)
    await asyncio.sleep(0.02)
    site.look(HEADER_SECONDS - 1)
    writer.write(b"y")
    await asyncio.sleep(0.02)
    assert len(site.http.connections) == 1
    site.look(HEADER_SECONDS + 1)
    assert await ended(reader)
    await until(lambda: len(site.http.connections) == 0)
    writer.close()


async def test_a_silent_connection_has_its_time(site, until):
    """Also one that was answered."""
    silent, silent_writer = await site.connect()
    kept, kept_writer = await site.connect(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert b"200 OK" in await kept.read(1000)
    await until(lambda: len(site.http.connections) == 2)
    site.look(IDLE_SECONDS - 1)
    assert len(site.http.connections) == 2
    site.look(IDLE_SECONDS + 1)
    assert await ended(silent)
    assert await ended(kept)
    silent_writer.close()
    kept_writer.close()


async def test_a_body_has_its_time(site, until):
    """The rest of an announced body is not waited for beyond that."""
    reader, writer = await site.connect(b"POST /take HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\nabc")
    await until(lambda: any(one.request_since for one in site.http.connections._served.values()))
    site.look(BODY_SECONDS - 1)
    assert len(site.http.connections) == 1
    site.look(BODY_SECONDS + 1)
    assert await ended(reader)
    writer.close()


async def test_little_is_read_at_a_time_and_nothing_of_a_body_in_chunks(site, monkeypatch):
    """A megabyte of chunks of one byte is as many steps of the parser as 200,000 requests; it held the loop for a second."""
    sizes = []
    received = RequestHandler.data_received
    monkeypatch.setattr(
        RequestHandler, "data_received", lambda handler, data: (sizes.append(len(data)), received(handler, data))[1]
    )
    head = b"%s HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    for target in (b"GET /livez", b"POST /take", b"POST /absent"):
        reader, writer = await site.connect(head % target + b"1\r\na\r\n" * 100_000)
        answer = await asyncio.wait_for(reader.readuntil(b"}"), 5)
        assert answer.startswith(b"HTTP/1.1 411 ")
        assert b"Connection: close" in answer
        writer.close()
    assert max(sizes) <= 8192
    assert sum(sizes) <= 10 * 8192  # of 1.8 MB
    assert await site.get() == 200


async def test_a_stream_may_last(site, until):
    """A page that watches is not idle."""
    reader, writer = await site.connect(b"GET /stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert b"200 OK" in await reader.readuntil(b"\r\n\r\n")
    site.look(10_000)
    await asyncio.sleep(0.02)
    assert len(site.http.connections) == 1
    writer.close()


async def test_the_one_idle_longest_makes_room(site, until):
    """A flood of half headers does not keep a health check out."""
    flood = [await site.connect(b"GET /li") for _ in range(20)]
    assert await site.get() == 200
    assert site.http.connections.expired >= 16
    assert len(site.http.connections) <= 4
    for _, writer in flood:
        writer.close()


async def test_streams_do_not_make_room_and_other_addresses_have_theirs(site):
    """An address that has all its connections in use is refused; ten in all."""
    request = b"GET /stream HTTP/1.1\r\nHost: localhost\r\n\r\n"
    links = []
    for host in ("127.0.0.1", "127.0.0.2"):
        for _ in range(4):
            links.append(await site.connect(request, host))
            assert b"200 OK" in await links[-1][0].readuntil(b"\r\n\r\n")
    refused, writer = await site.connect(request)
    assert await ended(refused)
    writer.close()
    for _ in range(2):
        links.append(await site.connect(request, "127.0.0.3"))
        assert b"200 OK" in await links[-1][0].readuntil(b"\r\n\r\n")
    refused, writer = await site.connect(request, "127.0.0.4")
    assert await ended(refused)
    writer.close()
    assert site.http.connections.refused == 2
    for _, writer in links:
        writer.close()


async def test_an_answer_that_is_not_taken_has_its_time(until, slices):
    """The client asks for much, and reads none of it."""

    async def much(_request):
        return web.Response(body=bytes(30 << 20))

    http = HttpListener(lambda: HttpServer(Metrics(), list, {"/much": much}, slices=slices), pytest.fail)
    site = Site(http, await http.bind("127.0.0.1", 0))
    http.serve()
    await http.opened()
    _, writer = await site.connect(b"GET /much HTTP/1.1\r\nHost: localhost\r\n\r\n")
    await until(lambda: any(one.transport.get_write_buffer_size() for one in http.connections._served.values()))
    await asyncio.sleep(0.1)
    site.look(1.0)
    site.look(IDLE_SECONDS - 1)
    assert len(http.connections) == 1
    site.look(IDLE_SECONDS + 10)
    await until(lambda: len(http.connections) == 0)
    writer.close()
    await http.close()


async def test_a_look_that_fails_is_not_the_last(site, monkeypatch):
    """The other connections go on with their time when one fails."""
    reader, writer = await site.connect(b"GET / HT")
    await asyncio.sleep(0.1)
    with monkeypatch.context() as patched:
        patched.setattr("stratalog.broker.http.connections.HttpConnection.overdue", lambda *_: 1 / 0)
        before = site.http.connections._sweep
        with pytest.raises(ZeroDivisionError):
            site.look(0.0)
    assert site.http.connections._sweep is not before
    site.look(HEADER_SECONDS + 1)
    assert await ended(reader)
    writer.close()


async def test_figures_are_shown(site):
    """Open, refused and expired connections."""
    metrics = Metrics()
    site.http.connections.add_figures(metrics)
    text = metrics.render().decode()
    assert "stratalog_http_connections 0.0" in text
    assert "stratalog_http_connections_refused_total 0.0" in text
    assert "stratalog_http_connections_expired_total 0.0" in text
