"""When committed offsets have been kept for long enough (KIP-211), found without reading all of them each time.

An offset expires when its group has been empty for the retention, or, of a group that is offsets alone or speaks the
protocol of KIP-848, when it was committed so long ago; never while a member reads the topic, nor while an open
transaction may still change it. Where an old client has chosen the time itself, that time counts instead. All of it is
wall-clock time; its jumps forwards are believed late (``clock_jumps``), a jump back keeps offsets longer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from stratalog.metadata.coordination import Now
from stratalog.metadata.groups.group import Group, GroupType
from stratalog.metadata.groups.offsets.pending_offsets import PendingOffsets
from stratalog.metadata.groups.offsets.records import NEVER, read_offset

__all__ = ["OffsetExpiry"]

_OFFSETS_AT_ONCE: Final = 5_000
"""How many offsets are looked at before others have their turn, some milliseconds."""

_EXPIRING_VERSION: Final = 1
_CONSUMER: Final = "consumer"
_STABLE: Final = "Stable"
_FAR: Final = 1 << 63

Stored = Mapping[str, Mapping[int, bytes]]
"""The offsets of one group: the record values, by topic and partition."""


class OffsetExpiry:
    """Finds expired offsets, some groups at a time."""

    def __init__(self, retention_ms: int) -> None:
        self._retention_ms = retention_ms
        self._own_time: set[str] = set()
        """Groups that may have offsets with a time of their own."""
        self._quiet_until: dict[str, int] = {}
        """Before this moment nothing of the group expires, whatever its state; for groups looked at before."""
        self._to_look: list[str] = []

    @property
    def under_way(self) -> bool:
        """Whether groups of this round are left."""
        return bool(self._to_look)

    def stored(self, group_id: str, value: bytes) -> None:
        """An offset of the group was stored."""
        if value[1] == _EXPIRING_VERSION:
            self._own_time.add(group_id)
        if group_id in self._quiet_until:
            self._quiet_until[group_id] = min(self._quiet_until[group_id], self._expires_ms(value))

    def forgotten(self, group_id: str) -> None:
        """The group has no offsets any more."""
        self._own_time.discard(group_id)
        self._quiet_until.pop(group_id, None)

    def look(
        self, groups: Mapping[str, Group], stored: Mapping[str, Stored], pending: PendingOffsets, now: Now
    ) -> tuple[list[tuple[str, str, int]], list[str]]:
        """The expired offsets of the next groups, and which groups were looked at; a new round when one is over."""
        if not self._to_look:
            self._to_look = list(groups)
        expired: list[tuple[str, str, int]] = []
        seen: list[str] = []
        read = 0
        while self._to_look and read < _OFFSETS_AT_ONCE:
            group_id = self._to_look.pop()
            group = groups.get(group_id)
            if group is None:
                continue
            seen.append(group_id)
            if group_id in stored:
                found, count = self._of_group(group, stored[group_id], pending, now)
                expired += found
                read += count
        return expired, seen

    def _of_group(
        self, group: Group, stored: Stored, pending: PendingOffsets, now: Now
    ) -> tuple[list[tuple[str, str, int]], int]:
        """The group's expired offsets, and how many were read to find them."""
        group_id = group.group_id
        ages, since = _ageing(group)
        if not ages:
            return [], 0
        too_early = since is not None and now.wall_ms - since < self._retention_ms
        if too_early and group_id not in self._own_time:
            return [], 0
        if (too_early or since is None) and now.wall_ms < self._quiet_until.get(group_id, now.wall_ms):
            return [], 0
        quiet_until = _FAR
        count = 0
        expired = []
        for topic, partitions in stored.items():
            if group.subscribes(topic):
                quiet_until = now.wall_ms
                continue
            for partition, value in partitions.items():
                earliest = self._expires_ms(value)
                quiet_until = min(quiet_until, earliest)
                ages_with_group = since is not None and value[1] != _EXPIRING_VERSION
                over = not too_early if ages_with_group else earliest <= now.wall_ms
                if over and not pending.unstable(group_id, topic, partition):
                    expired.append((group_id, topic, partition))
            count += len(partitions)
        self._quiet_until[group_id] = quiet_until
        return expired, count

    def _expires_ms(self, value: bytes) -> int:
        """When the offset expires of itself, or so long after its commit."""
        offset = read_offset(value)
        if offset.expire_timestamp != NEVER:
            return offset.expire_timestamp
        return offset.commit_timestamp + self._retention_ms


def _ageing(group: Group) -> tuple[bool, int | None]:
    """Whether the group's offsets age now, and since when together; None where each ages since its commit."""
    if group.type is not GroupType.CLASSIC or not group.protocol_type:
        return True, None
    since = group.empty_since_ms
    if since is None:
        return group.protocol_type == _CONSUMER and group.state == _STABLE, None
    return True, since if since >= 0 else None
