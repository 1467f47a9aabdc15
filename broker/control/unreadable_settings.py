"""Committed settings that this release cannot read: another release wrote them, or one that checked less.

The node goes on: a setting that it cannot read keeps its former value, or that of the next place after a start. It says so in
the log, under ``/readyz?verbose`` and in ``/metrics``, until the setting is written anew or removed.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Generator, Mapping
from typing import Any, Final

from stratalog.broker.runtime.metrics import Metrics
from stratalog.metadata.image.configs_image import ConfigResource, ResourceType
from stratalog.metadata.image.difference import ImageChange
from stratalog.metadata.image.image import ClusterImage
from stratalog.metadata.settings.configs import (
    ConfigDef,
    client_metrics_definitions,
    definitions,
    group_definitions,
    topic_definitions,
    unreadable_settings,
)

__all__ = ["UnreadableSettings"]

_LEVELS: Final[Mapping[int, Callable[[], Mapping[str, ConfigDef]]]] = {
    ResourceType.TOPIC: topic_definitions,
    ResourceType.BROKER: definitions,
    ResourceType.GROUP: group_definitions,
    ResourceType.CLIENT_METRICS: client_metrics_definitions,
}
_REMEDY: Final = "write it anew or remove it"

log = logging.getLogger(__name__)


class UnreadableSettings:
    """Those of the newest image. Lives on the event loop."""

    def __init__(self, in_slices: Callable[[Generator[None, None, Any]], Awaitable[Any]]) -> None:
        """``in_slices`` carries out steps so that others have their turns between."""
        self._in_slices = in_slices
        self._found: dict[ConfigResource, list[str]] = {}
        self._has_looked = False

    async def follow(self, image: ClusterImage, change: ImageChange) -> None:
        """Look at the settings that an image changes; the first time at all."""
        await self._in_slices(self._looking(image, change))

    def _looking(self, image: ClusterImage, change: ImageChange) -> Generator[None, None, None]:
        resources = change.changed_resources if self._has_looked else image.configs.by_resource
        self._has_looked = True
        for resource in resources:
            level = _LEVELS.get(resource.type)
            problems = [] if level is None else unreadable_settings(image.configs.of(resource), level())
            before = self._found.pop(resource, [])
            if problems:
                self._found[resource] = problems
            for problem in problems:
                if problem not in before:
                    log.error("%s", _told(resource, problem))
            yield

    def problems(self) -> list[str]:
        """A sentence for each of them."""
        return [_told(resource, one) for resource, found in self._found.items() for one in found]

    def add_metrics(self, metrics: Metrics) -> None:
        """Add the number of them."""
        metrics.add_gauge(
            "stratalog_unreadable_settings",
            "Committed settings that this release cannot read; they keep their former values.",
            lambda: [({}, sum(map(len, self._found.values())))],
        )


def _told(resource: ConfigResource, problem: str) -> str:
    if resource.type == ResourceType.BROKER:
        holder = f"broker {resource.name}" if resource.name else "all brokers"
    else:
        holder = f"{ResourceType(resource.type).name.lower().replace('_', ' ')} {resource.name}"
    return f"a committed setting of {holder} cannot be read and keeps its former value, {_REMEDY}: {problem}"
