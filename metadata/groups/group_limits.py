"""The times that hold for one group: its own settings, or else the broker's, within the broker's bounds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from stratalog.metadata.groups.group import GroupSettings

__all__ = ["GroupLimits", "group_limits"]


class GroupLimits(NamedTuple):
    """Times of a consumer group, in milliseconds."""

    session_timeout_ms: int
    heartbeat_interval_ms: int
    assignment_interval_ms: int


def group_limits(settings: GroupSettings, overrides: Mapping[str, str]) -> GroupLimits:
    """The times for a group with these settings of its own (config resource GROUP)."""
    return GroupLimits(
        session_timeout_ms=_within(
            overrides.get("consumer.session.timeout.ms"),
            settings.consumer_session_timeout_ms,
            settings.consumer_min_session_timeout_ms,
            settings.consumer_max_session_timeout_ms,
        ),
        heartbeat_interval_ms=_within(
            overrides.get("consumer.heartbeat.interval.ms"),
            settings.consumer_heartbeat_interval_ms,
            settings.consumer_min_heartbeat_interval_ms,
            settings.consumer_max_heartbeat_interval_ms,
        ),
        assignment_interval_ms=_within(
            overrides.get("consumer.assignment.interval.ms"),
            settings.consumer_assignment_interval_ms,
            settings.consumer_min_assignment_interval_ms,
            settings.consumer_max_assignment_interval_ms,
        ),
    )


def _within(own: str | None, default_ms: int, minimum_ms: int, maximum_ms: int) -> int:
    """The group's own value, brought within the bounds, which may be narrower now than when it was set.

    One that is no number, which another release may have written, is passed over.
    """
    try:
        return default_ms if own is None else min(max(int(own), minimum_ms), maximum_ms)
    except ValueError:
        return default_ms
