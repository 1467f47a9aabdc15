"""The HTTP port while its server is still being made."""

import aiohttp
import pytest

from stratalog.broker.http.listener import HttpListener
from stratalog.broker.http.server import HttpServer
from stratalog.broker.runtime.metrics import Metrics


async def get(address, path):
    """Status and text of an answer."""
    host, port = address
    async with aiohttp.ClientSession() as session, session.get(f"http://{host}:{port}{path}") as response:
        return response.status, await response.text()


@pytest.fixture
async def listener(slices):
    """A function that makes a listener, closed afterwards."""
    made = []

    def make(server=lambda: HttpServer(Metrics(), list, slices=slices), failed=pytest.fail):
        made.append(HttpListener(server, failed))
        return made[-1]

    yield make
    for one in made:
        await one.close()


async def test_early_connections_wait_for_the_server(listener):
    """Refused while the node starts, then connected at once, and answered as soon as the server runs."""
    http = listener()
    address = await http.bind("127.0.0.1", 0)
    with pytest.raises(aiohttp.ClientConnectorError):
        await get(address, "/livez")
    http.serve()
    assert http._new_protocol is None
    assert await get(address, "/livez") == (200, "ok\n")
    await http.opened()
    assert await get(address, "/absent") == (404, "404: Not Found")


async def test_a_port_in_use_is_an_error_when_it_is_taken(listener):
    """The error comes from `bind`, before HTTP is served; from `serve` where another one was faster meanwhile."""
    first, second = listener(), listener()
    _, port = await first.bind("127.0.0.1", 0)
    await second.bind("127.0.0.1", port)
    first.serve()
    words = "another process, perhaps another broker, listens there"
    with pytest.raises(OSError, match=words):
        await listener().bind("127.0.0.1", port)
    with pytest.raises(OSError, match=words):
        second.serve()


async def test_a_name_may_say_where_to_listen(listener):
    """It is looked up as any client looks it up."""
    http = listener()
    _, port = await http.bind("localhost", 0)
    http.serve()
    assert await get(("localhost", port), "/readyz") == (200, "ok\n")


async def test_a_server_that_cannot_be_made_is_logged(listener, caplog):
    """With its error in the log; no client waits for it forever."""
    failed = []
    http = listener(lambda: 1 / 0, lambda: failed.append(1))
    await http.bind("127.0.0.1", 0)
    http.serve()
    await http.opened()
    assert failed == [1]
    assert "HTTP cannot be served" in caplog.text
    assert "ZeroDivisionError" in caplog.text


async def test_closing_frees_the_port_and_can_be_repeated(listener):
    """Whether or not anybody was served."""
    http = listener()
    address = await http.bind("127.0.0.1", 0)
    await http.close()
    await http.close()
    again = listener()
    assert await again.bind(*address) == address
    again.serve()
    assert await get(address, "/livez") == (200, "ok\n")
    await again.close()
    with pytest.raises(aiohttp.ClientConnectorError):
        await get(address, "/livez")
