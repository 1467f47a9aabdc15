"""The settings of one partition's log, under the names and defaults of Kafka's topic configuration.

``flush_messages`` is the one default that differs: 1, sync on ack. Source: Kafka 4.3 ``LogConfig``.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

__all__ = ["LONG_MAX", "LogConfig"]

LONG_MAX: Final = (1 << 63) - 1
_DAY_MS: Final = 86_400_000


class LogConfig(Struct, frozen=True, kw_only=True):
    """One topic's log settings. Sizes are bytes, times milliseconds; -1 is "no limit" where Kafka says so."""

    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * _DAY_MS
    segment_jitter_ms: int = 0
    """Already drawn for this partition (Kafka draws it per segment); taken off ``segment_ms``."""
    segment_index_bytes: int = 10 << 20
    index_interval_bytes: int = 4096
    retention_bytes: int = -1
    retention_ms: int = 7 * _DAY_MS
    local_retention_bytes: int = -2
    """-2: as ``retention_bytes``."""
    local_retention_ms: int = -2
    """-2: as ``retention_ms``."""
    max_message_bytes: int = 1_048_588
    message_timestamp_type: str = "CreateTime"
    message_timestamp_before_max_ms: int = LONG_MAX
    message_timestamp_after_max_ms: int = 3_600_000
    flush_messages: int = 1
    flush_ms: int = LONG_MAX
    cleanup_policy: frozenset[str] = frozenset({"delete"})
    compression_type: str = "producer"
    remote_storage_enable: bool = False
    remote_copy_disable: bool = False
    remote_copy_lag_ms: int = 0
    """-1: as the effective local retention."""
    remote_copy_lag_bytes: int = -1
    """-1: as the effective local retention."""
    upload_lag_ms: int = 0
    upload_part_bytes: int = 16 << 20
    storage_class: str = ""
    remote_delete_on_disable: bool = False
    min_insync_replicas: int = 1
    file_delete_delay_ms: int = 60_000
    producer_id_expiration_ms: int = _DAY_MS
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = LONG_MAX
    delete_retention_ms: int = _DAY_MS

    @property
    def effective_local_retention_bytes(self) -> int:
        """Local bytes to keep beyond what the archive holds; -1 is no limit."""
        return self.retention_bytes if self.local_retention_bytes == -2 else self.local_retention_bytes

    @property
    def effective_local_retention_ms(self) -> int:
        """Local age to keep; -1 is no limit."""
        return self.retention_ms if self.local_retention_ms == -2 else self.local_retention_ms

    @property
    def effective_copy_lag_ms(self) -> int:
        """Age of the newest record from which a segment is uploaded; 0 is at once, -1 never for its age."""
        return self.effective_local_retention_ms if self.remote_copy_lag_ms == -1 else self.remote_copy_lag_ms

    @property
    def effective_copy_lag_bytes(self) -> int:
        """Local bytes behind a segment from which it is uploaded; 0 is at once, -1 never for its place."""
        return self.effective_local_retention_bytes if self.remote_copy_lag_bytes == -1 else self.remote_copy_lag_bytes

    @property
    def compacted(self) -> bool:
        """Whether the cleaner works on this topic."""
        return "compact" in self.cleanup_policy

    @property
    def deletes(self) -> bool:
        """Whether retention removes whole segments."""
        return "delete" in self.cleanup_policy
