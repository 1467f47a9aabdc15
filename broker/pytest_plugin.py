"""A pytest plugin: the fixtures ``stratalog_broker``, a real broker for one test, started in some ten milliseconds, and
``stratalog_cluster``, several of them in processes of their own.

.. code-block:: python

    def test_orders(stratalog_broker):
        stratalog_broker.create_topic("orders", partitions=3)
        producer = Producer({"bootstrap.servers": stratalog_broker.bootstrap_servers})

Each test gets a broker of its own, so nothing is left of the one before: topics, groups, settings, faults. Settings come
from the ini option ``stratalog_settings`` and the marker of the same name. The package is not imported before the first
test that asks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from stratalog.broker.embedded import EmbeddedBroker, LoopThread
    from stratalog.broker.local_cluster.cluster import LocalCluster

__all__ = ["pytest_addoption", "pytest_configure", "stratalog_broker", "stratalog_cluster", "stratalog_loop"]

SETTINGS = "stratalog_settings"


def pytest_addoption(parser: pytest.Parser) -> None:
    """The ini option with settings for every broker."""
    parser.addini(SETTINGS, "settings of the brokers that tests get, NAME=VALUE a line", type="linelist", default=[])


def pytest_configure(config: pytest.Config) -> None:
    """The marker with settings for the broker of one test."""
    config.addinivalue_line("markers", f"{SETTINGS}(settings): a dict of settings of this test's stratalog broker")


@pytest.fixture(scope="session")
def stratalog_loop() -> Iterator[LoopThread]:
    """The thread that the brokers of all tests live in."""
    from stratalog.broker.embedded import LoopThread  # noqa: PLC0415 - the broker costs only the tests that use it

    thread = LoopThread()
    yield thread
    thread.close()


@pytest.fixture
def stratalog_broker(
    request: pytest.FixtureRequest, stratalog_loop: LoopThread, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EmbeddedBroker]:
    """A running broker on a free port, empty, for this test alone."""
    from stratalog.broker.embedded import EmbeddedBroker  # noqa: PLC0415 - as above

    broker = EmbeddedBroker(str(tmp_path_factory.mktemp("stratalog")), stratalog_loop, _settings(request))
    try:
        yield broker.start()
    finally:
        broker.discard()


@pytest.fixture
def stratalog_cluster(
    request: pytest.FixtureRequest, stratalog_loop: LoopThread, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., LocalCluster]]:
    """Starts clusters for this test alone: ``stratalog_cluster(nodes=3)`` returns one whose nodes all serve."""
    from stratalog.broker.local_cluster.cluster import LocalCluster  # noqa: PLC0415 - as above

    clusters: list[LocalCluster] = []

    def start(nodes: int = 3, settings: Mapping[str, object] | None = None) -> LocalCluster:
        directory = str(tmp_path_factory.mktemp("stratalog-cluster"))
        wanted = {**_settings(request), **(settings or {})}
        clusters.append(LocalCluster(directory, stratalog_loop, count=nodes, settings=wanted))
        clusters[-1].start()
        clusters[-1].wait_ready()
        return clusters[-1]

    try:
        yield start
    finally:
        for cluster in clusters:
            cluster.discard()


def _settings(request: pytest.FixtureRequest) -> dict[str, object]:
    """The settings of the ini file and of the markers of a test; the nearest marker wins."""
    settings: dict[str, object] = {}
    for line in request.config.getini(SETTINGS):
        name, _, value = line.partition("=")
        settings[name.strip()] = value.strip()
    for marker in reversed(list(request.node.iter_markers(SETTINGS))):
        settings.update(*marker.args, **marker.kwargs)
    return settings
