"""Cold reads of one broker put together: the chunk cache with its limits, the budgets, and their figures."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from concurrent.futures import Executor
from typing import Any

from stratalog.broker.cold.admission import ColdAdmission
from stratalog.broker.cold.chunk_files import ChunkFiles
from stratalog.broker.runtime.metrics import Metrics
from stratalog.broker.settings.config import BrokerConfig
from stratalog.broker.workers.io_worker import Submit
from stratalog.tier.reading.cache import CacheLimits
from stratalog.tier.reading.chunk_pins import Reader
from stratalog.tier.reading.fetch_budgets import FetchRates

__all__ = ["open_cold_reads"]


def open_cold_reads(
    config: Callable[[], BrokerConfig],
    *,
    submit: Submit,
    now_ms: Callable[[], int],
    wake_reader: Callable[[Reader], object],
    aside: Executor,
    metrics: Metrics,
) -> ChunkFiles:
    """The cache as the settings describe it; rates are asked for anew each time, limits only now."""
    first = config()
    admission = ColdAdmission(
        lambda: fetch_rates(config()),
        client_of=client_of,
        wake=wake_reader,
        now_ms=now_ms,
        later=asyncio.get_running_loop().call_later,
    )
    limits = CacheLimits(
        first.cache_bytes_max,
        first.integer("stratalog.cache.topic.percent.max"),
        first.integer("stratalog.cache.free.bytes.min"),
    )
    chunks = ChunkFiles(
        first.cache_dir, limits, submit, now_ms, admission=admission, is_gone=is_gone, aside=aside.submit
    )
    _add_figures(chunks, metrics)
    return chunks


def fetch_rates(config: BrokerConfig) -> FetchRates:
    """Bytes a second that may be read from the bucket."""
    return FetchRates(
        config.integer("remote.log.manager.fetch.max.bytes.per.second"),
        config.integer("stratalog.remote.fetch.client.max.bytes.per.second"),
        config.integer("stratalog.remote.fetch.topic.max.bytes.per.second"),
    )


def client_of(reader: Reader) -> Hashable:
    """The client whose budget a reader uses: its principal's client id, whatever its connections.

    A reader that is no connection with the log it reads, but the broker's own, is a client by itself.
    """
    if not isinstance(reader, tuple):
        return reader
    connection: Any = reader[0]
    return str(connection.principal), connection.client_id or ""


def is_gone(reader: Reader) -> bool:
    """Whether a reader's connection has ended. The broker's own readers have none."""
    connection: Any = reader[0] if isinstance(reader, tuple) else None
    return connection is not None and bool(connection.closed)


def _add_figures(chunks: ChunkFiles, metrics: Metrics) -> None:
    books, admission = chunks.books, chunks.admission
    metrics.add_gauge(
        "stratalog_tier_cache_bytes", "Bytes of archived chunks on the local disk.", lambda: [({}, books.used_bytes)]
    )
    metrics.add_gauge(
        "stratalog_tier_cache_limit_bytes",
        "Bytes that these chunks may take now: less than was set while the disk is nearly full.",
        lambda: [({}, books.limit_bytes)],
    )
    metrics.add_gauge(
        "stratalog_tier_cache_pinned_bytes",
        "Bytes of chunks that are being read or fetched, or held by tier hydrate.",
        lambda: [({}, books.pinned_bytes)],
    )
    metrics.add_counter(
        "stratalog_tier_cache_hits", "Readers who found a chunk in the cache.", lambda: [({}, books.hits)]
    )
    metrics.add_counter(
        "stratalog_tier_cache_misses",
        "Chunks that were wanted and not in the cache, read ahead of a reader as well.",
        lambda: [({}, books.misses)],
    )
    metrics.add_counter(
        "stratalog_tier_cache_evictions", "Chunks that gave their room to others.", lambda: [({}, books.evictions)]
    )
    metrics.add_gauge(
        "stratalog_tier_throttled_readers",
        "Readers of the archive that wait for their budget or for room.",
        lambda: [({}, len(admission))],
    )
    metrics.add_counter(
        "stratalog_tier_fetch_throttles",
        "How often a reader of the archive was made to wait.",
        lambda: [({}, admission.throttle_count)],
    )
    metrics.add_counter(
        "stratalog_tier_fetch_throttle_seconds",
        "For how long, as it looked at the time.",
        lambda: [({}, admission.throttle_ms_sum / 1000)],
    )
