"""The brokers' side of a stream: how far logs go on behind what is archived.

The archive decides where the tail begins, so manifests are read first. Brokers that do not answer for a moment, because
one of them is started again, let the stream wait for what they have; then it ends, with the checkpoint where it was.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from stratalog.client.link import BrokerAway
from stratalog.spark.source.hot_tail import HotSlice, HotTail, LogSpan, no_answer, open_client
from stratalog.spark.source.options import Subscription
from stratalog.spark.source.stream_offsets import Offsets
from stratalog.spark.source.stream_plan import Span
from stratalog.tier.planning.slices import OffsetRange, PartitionArchive
from stratalog.wire.errors import KafkaError
from stratalog.wire.topic import ZERO_UUID, TopicPartition, Uuid

__all__ = ["StreamTail", "split_at"]

_AWAY_MS_MAX: Final = 60_000
"""How long brokers may be away: Kafka's clients give up after so long, too (``default.api.timeout.ms``)."""

_logger = logging.getLogger("stratalog.spark")


class StreamTail:
    """State of the partitions of ``subscription`` in the cluster at ``bootstrap``; for one thread."""

    def __init__(self, bootstrap: str, subscription: Subscription, *, read_committed: bool, refresh_ms: int) -> None:
        self._bootstrap = bootstrap
        self._subscription = subscription
        self._refresh_ms = refresh_ms
        self._client = open_client(bootstrap)
        self.times = HotTail(self._client, read_committed=read_committed)
        """Finds times behind what is archived."""
        self._logs: dict[TopicPartition, LogSpan] | None = None
        self._asked_ms = 0
        self._away_ms: int | None = None

    def is_old(self, now_ms: int) -> bool:
        """Whether it is time to ask again."""
        return not 0 <= now_ms - self._asked_ms < self._refresh_ms

    def extend(
        self, archives: Sequence[PartitionArchive], now_ms: int
    ) -> tuple[dict[TopicPartition, Span], dict[TopicPartition, int]]:
        """Offsets of each partition, and the end of its archive, by ``archives`` and by what brokers say now.

        Raises `Retriable` if none has answered for a minute, or never, and `Invalid` for a topic that is not the archived
        one.
        """
        known, logs = self.times.extend(archives, self._ask(now_ms))
        spans = {each.partition: Span(each.log_start_offset, each.end_offset) for each in logs}
        return spans, {each.partition: each.end_offset for each in known}

    def _ask(self, now_ms: int) -> dict[TopicPartition, LogSpan]:
        """The logs as they are now, or as they were when brokers answered last."""
        self._asked_ms = now_ms
        try:
            self._logs = self.times.logs(self.times.find(self._subscription))
        except KafkaError as error:
            raise no_answer(self._bootstrap, error) from error
        except BrokerAway as error:
            if self._away_ms is None or now_ms < self._away_ms:  # later, if the clock was put back
                self._away_ms = now_ms
                _logger.warning("%s; this stream waits a minute for them", no_answer(self._bootstrap, error))
            if self._logs is None or now_ms - self._away_ms >= _AWAY_MS_MAX:
                raise no_answer(self._bootstrap, error) from error
            return self._logs
        self._away_ms = None
        return self._logs

    def close(self) -> None:
        """Close the connections; who asks again opens new ones."""
        self._client.close()


def split_at(
    borders: Offsets,
    ranges: Mapping[TopicPartition, OffsetRange],
    topic_id: Callable[[str], Uuid] = lambda _: ZERO_UUID,
) -> tuple[dict[TopicPartition, OffsetRange], list[HotSlice]]:
    """Split each of ``ranges`` into a part from the archive and one from brokers, whose topic has the id ``topic_id``."""
    archived = {
        partition: offsets._replace(end=min(offsets.end, borders[partition]))
        for partition, offsets in ranges.items()
        if offsets.start < borders[partition]
    }
    hot = [
        HotSlice(*partition, max(offsets.start, borders[partition]), offsets.end, topic_id(partition.topic))
        for partition, offsets in ranges.items()
        if offsets.end > borders[partition]
    ]
    return archived, hot
