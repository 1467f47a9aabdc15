import aiohttp
import pytest

from stratalog.broker.http.listener import HttpListener
from stratalog.broker.http.server import HttpServer
from stratalog.broker.runtime.metrics import Metrics


@pytest.fixture
async def site():
    """A running HTTP server, the reasons it gives, and a function that gets a path."""
    reasons = []
    metrics = Metrics()
    problems = ["t-0: its archive is lost"]
    server = HttpListener(lambda: HttpServer(metrics, lambda: reasons, problems=lambda: problems), pytest.fail)
    host, port = await server.bind("127.0.0.1", 0)
    server.serve()
    session = aiohttp.ClientSession(f"http://{host}:{port}")

    async def get(path):
        async with session.get(path) as response:
            return response.status, await response.text(), response.headers["Content-Type"]

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


async def test_it_serves_nothing_else(site):
    """Unknown paths are 404."""
    get, _, _ = site
    assert (await get("/admin"))[0] == 404
