"""Cold reads put together from settings."""

from __future__ import annotations

from types import SimpleNamespace

from stratalog.broker.archive.hydration import HydrationReader
from stratalog.broker.cold.cold_reads import client_of, fetch_rates, is_gone
from stratalog.tier.reading.fetch_budgets import UNLIMITED, FetchRates


def test_a_client_is_a_principal_with_a_client_id():
    """Two connections of one user and client id are one client; two users with the same client id are two."""
    readers = [
        (SimpleNamespace(principal=principal, client_id=client_id), "log")
        for principal, client_id in (("User:a", "c"), ("User:a", "c"), ("User:b", "c"), ("User:a", None))
    ]
    assert len({client_of(reader) for reader in readers}) == 3
    assert client_of("the broker itself") == "the broker itself"


def test_a_reader_is_gone_with_its_connection():
    """The broker's own readers never are."""
    readers = [(SimpleNamespace(closed=closed), "log") for closed in (False, True)]
    own = (HydrationReader(), "log"), "the broker itself"
    assert [is_gone(reader) for reader in (*readers, *own)] == [False, True, False, False]


def test_rates_follow_the_settings_and_are_unlimited_by_default(start_node):
    """Three settings, each for its own budget; a change holds for the next fetch."""
    node = start_node()
    assert fetch_rates(node.node.config) == FetchRates(UNLIMITED, UNLIMITED, UNLIMITED)
    name = "stratalog.remote.fetch.{}.max.bytes.per.second"
    named = {
        "remote.log.manager.fetch.max.bytes.per.second": 3,
        name.format("client"): 4,
        name.format("topic"): 5,
    }
    config = SimpleNamespace(integer=named.__getitem__)
    assert fetch_rates(config) == FetchRates(broker=3, client=4, topic=5)


def test_limits_and_figures_are_those_of_the_settings(start_node):
    """The cache's limits and events stand on /metrics."""
    node = start_node(stratalog_cache_bytes_max="5000000", stratalog_cache_topic_percent_max="30")
    limits = node.node.tiering.chunks.books.limits
    assert (limits.cache_bytes, limits.share_percent, limits.free_bytes_min) == (5_000_000, 30, 1 << 30)
    text = node.run(node.node.metrics.render).decode()
    figures = {line.partition(" ")[0]: float(line.rpartition(" ")[2]) for line in text.splitlines() if line[0] != "#"}
    assert figures["stratalog_tier_cache_limit_bytes"] == 5_000_000
    for name in ("cache_bytes", "cache_pinned_bytes", "cache_hits_total", "cache_misses_total", "throttled_readers"):
        assert figures[f"stratalog_tier_{name}"] == 0
