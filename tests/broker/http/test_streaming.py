"""Long answers, sent while they are made."""

from types import SimpleNamespace
from unittest.mock import AsyncMock

import aiohttp
import pytest
from aiohttp import web

from stratalog.broker.http.streaming import stream


@pytest.fixture
async def ask(slices):
    """A function that gets the answer of the given parts; an error among them is raised."""
    runners = []

    async def get(*parts):
        def made():
            for part in parts:
                if isinstance(part, Exception):
                    raise part
                yield part

        async def answer(request):
            return await stream(request, made(), slices, {"Content-Type": "text/plain"})

        application = web.Application()
        application.router.add_get("/", answer)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        runners.append(runner)
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        async with aiohttp.ClientSession() as session, session.get(f"http://{host}:{port}/") as response:
            return response.status, await response.read()

    yield get
    for runner in runners:
        await runner.cleanup()


async def test_parts_come_in_their_order(ask):
    """Pauses and empty parts leave no trace, and the end is the end of the parts."""
    assert await ask(None, b"one ", None, b"", b"two ", b"x" * 200_000) == (200, b"one two " + b"x" * 200_000)
    assert await ask() == (200, b"")
    assert await ask(None, None) == (200, b"")


async def test_an_error_before_the_first_write_is_an_answer(ask):
    """The client gets 500, not half a text."""
    status, _ = await ask(b"begun", ValueError("broken"))
    assert status == 500


async def test_a_client_that_goes_is_no_error(slices, caplog):
    """It may go before the first byte, or in the middle: nothing is logged at the level that people read."""
    for gone_at in ("prepare", "write"):
        response_error = ConnectionResetError("Cannot write to closing transport")
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(web.StreamResponse, gone_at, AsyncMock(side_effect=response_error))
            patched.setattr(
                web.StreamResponse, "prepare", AsyncMock(side_effect=None if gone_at == "write" else response_error)
            )
            request = SimpleNamespace(path="/metrics")
            assert isinstance(await stream(request, iter([b"x"]), slices, {}), web.StreamResponse)
    assert [one for one in caplog.records if one.levelname != "DEBUG"] == []


async def test_an_error_after_it_ends_the_connection(ask):
    """A client never takes half of an answer for all of it."""
    with pytest.raises(aiohttp.ClientPayloadError):
        await ask(b"x" * 100_000, ValueError("broken"))
