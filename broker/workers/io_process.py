"""The ``io`` worker of a broker: a process that carries out commands against the bucket."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from stratalog.broker.settings.config import BrokerConfig
from stratalog.broker.workers.io_worker import io_patience
from stratalog.broker.workers.main import Start
from stratalog.broker.workers.spawner import spawner_of
from stratalog.broker.workers.workers import Workers

__all__ = ["io_workers"]

_THREADS: Final = 8
"""Three uploads, four fills, and one left for manifests and chunk tables."""
_NICENESS: Final = 15
"""Producers and hot readers come first: on busy cores the archive waits."""


def io_workers(config: BrokerConfig, loop: asyncio.AbstractEventLoop) -> Workers:
    """The worker, not yet started."""
    options: dict[str, Any] = {"url": config.bucket_url, "options": dict(config.bucket_options)}
    options["read_only"] = config.boolean("stratalog.read.only")
    target = Start("stratalog.broker.workers.io_worker:io_worker", options, threads=_THREADS, niceness=_NICENESS)
    return spawner_of(loop).workers("io", target, patience=io_patience)
