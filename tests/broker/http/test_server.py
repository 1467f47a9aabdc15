import asyncio
import zlib

import aiohttp
import pytest

from stratalog.broker.http.listener import HttpListener
from stratalog.broker.http.server import HttpServer
from stratalog.broker.runtime.metrics import Metrics


@pytest.fixture
async def site(slices):
    """A running HTTP server, the reasons it gives, and a function that gets a path."""
    reasons = []
    metrics = Metrics()

    def problems():
        yield
        return ["t-0: its archive is lost"]

    def make():
        return HttpServer(metrics, lambda: reasons, slices=slices, problems=problems)

    server = HttpListener(make, pytest.fail)
    host, port = await server.bind("127.0.0.1", 0)
    server.serve()
    session = aiohttp.ClientSession(f"http://{host}:{port}")

    async def get(path):
        async with session.get(path) as response:
            return response.status, await response.text(), response.headers["Content-Type"]

    get.session = session
    yield get, reasons, metrics
    await session.close()
    await server.close()


async def test_a_live_broker_says_so(site):
    """/livez answers 200 whether or not the broker is ready."""
    get, reasons, _ = site
    reasons.append("recovering")
    assert (await get("/livez"))[:2] == (200, "ok\n")


async def test_readiness_names_the_missing_parts(site):
    """/readyz is 503 with one line per reason until there is none."""
    get, reasons, _ = site
    reasons += ["recovering 3 of 10 partitions", "no bucket"]
    assert (await get("/readyz"))[:2] == (503, "recovering 3 of 10 partitions\nno bucket\n")
    reasons.clear()
    assert (await get("/readyz"))[:2] == (200, "ok\n")


async def test_problems_are_listed_on_request(site):
    """/readyz?verbose: the broker serves in spite of them, so the status stays what it is."""
    get, reasons, _ = site
    assert (await get("/readyz?verbose"))[:2] == (200, "ok\nproblem: t-0: its archive is lost\n")
    reasons.append("recovering")
    assert (await get("/readyz?verbose"))[:2] == (503, "recovering\nproblem: t-0: its archive is lost\n")


async def test_metrics_are_prometheus_text(site):
    """/metrics has the figures of the moment in the exposition format."""
    get, _, metrics = site
    metrics.topic("orders").bytes_in = 42
    status, text, content_type = await get("/metrics")
    assert status == 200
    assert 'kafka_server_brokertopicmetrics_bytesin_total{topic="orders"} 42.0' in text
    assert content_type.startswith("text/plain; version=0.0.4")


async def test_a_long_scrape_holds_no_other_request(site):
    """The figures of 2,000 topics take a fifth of a second: other requests are answered meanwhile."""
    get, _, metrics = site
    for number in range(2000):
        metrics.topic(f"topic-{number}").bytes_in = number
    scrape = asyncio.create_task(get("/metrics"))
    answered = 0
    while not scrape.done():
        assert (await get("/livez"))[0] == 200
        answered += 1
    _, text, _ = await scrape
    assert text.count("kafka_server_brokertopicmetrics_bytesin_total{") == 2000
    assert text.endswith("\n")
    assert answered >= 5


async def test_a_scrape_that_breaks_at_once_is_an_answer(site):
    """And says 500, not a text without its end."""
    get, _, metrics = site
    metrics.add_gauge("broken", "A gauge that fails.", lambda: 1 / 0)
    assert (await get("/metrics"))[0] == 500
    assert (await get("/livez"))[0] == 200


async def test_it_serves_nothing_else(site):
    """Unknown paths are 404."""
    get, _, _ = site
    assert (await get("/admin"))[0] == 404


@pytest.mark.parametrize(("method", "path", "status"), [("POST", "/livez", 405), ("GET", "/livez", 200)])
async def test_a_packed_body_that_no_route_reads_is_not_unpacked(site, method, path, status):
    """Half a megabyte that unpacks to 512 once held the loop for seconds, and Kafka's clients and heartbeats with it."""
    get, _, _ = site
    assert (await get("/livez"))[0] == 200
    packer = zlib.compressobj(9)
    body = b"".join(packer.compress(bytes(1 << 20)) for _ in range(96)) + packer.flush()
    unpacked, plain = [], zlib.decompressobj
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            zlib, "decompressobj", lambda *options, **more: unpacked.append(options) or plain(*options, **more)
        )
        headers = {"Content-Encoding": "deflate"}
        async with get.session.request(method, path, data=body, headers=headers) as response:
            assert response.status == status
            await response.read()
        assert (await get("/livez"))[0] == 200
    assert unpacked == []
