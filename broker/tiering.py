"""Drives the archive: plans in, worker commands out."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import NamedTuple

from stratalog.broker.clock import Clock
from stratalog.broker.config import BrokerConfig
from stratalog.broker.metrics import Metrics
from stratalog.broker.unified_log import UnifiedLog
from stratalog.wire.compression import Codec

__all__ = ["ArchiveFigures", "Tiering"]


class ArchiveFigures(NamedTuple):
    """What ``tier status`` says of one partition's archive."""

    end_offset: int = 0
    size_bytes: int = 0
    object_count: int = 0
    state: str = "local"


class Tiering:
    """The archive side of a broker."""

    def __init__(
        self, config: BrokerConfig, clock: Clock, metrics: Metrics, dice: random.Random, cluster_id: str
    ) -> None:
        pass

    def rework(
        self, batch: bytes, codec: Codec | None, keys_required: bool, done: Callable[[bytearray | Exception], None]
    ) -> None:
        raise NotImplementedError

    def attach(self, unified: UnifiedLog) -> None:
        pass

    def detach(self, unified: UnifiedLog) -> None:
        pass

    def look(self, unified: UnifiedLog) -> None:
        pass

    def tick(self) -> None:
        pass

    def retain(self, unified: UnifiedLog, now_ms: int) -> None:
        pass

    def checkpoint(self) -> None:
        pass

    def describe(self, unified: UnifiedLog) -> ArchiveFigures:
        return ArchiveFigures()

    async def close(self) -> None:
        pass
