"""The dynamic settings of a cluster, by resource, as an immutable value."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Final, NamedTuple

from msgspec import Struct, field

from stratalog.metadata.maps.persistent_map import changed
from stratalog.wire.records.metadata import ConfigRecord

__all__ = ["CLUSTER_DEFAULT", "ConfigResource", "ConfigsDraft", "ConfigsImage", "ResourceType", "broker_id_of"]


class ResourceType(IntEnum):
    """The kinds of things a setting belongs to; the numbers are those of DescribeConfigs and of ConfigRecord."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigResource(NamedTuple):
    """One holder of settings. The broker named "" is the cluster-wide default of all brokers."""

    type: int
    name: str

    @classmethod
    def topic(cls, name: str) -> ConfigResource:
        """A topic."""
        return cls(ResourceType.TOPIC, name)

    @classmethod
    def broker(cls, broker_id: int) -> ConfigResource:
        """A broker."""
        return cls(ResourceType.BROKER, str(broker_id))


CLUSTER_DEFAULT: Final = ConfigResource(ResourceType.BROKER, "")
"""The default of all brokers."""

_DIGITS_MAX: Final = len(str((1 << 31) - 1))


def broker_id_of(name: str) -> int | None:
    """The broker that the name of a resource means; None if it is no number. A client may send thousands of digits."""
    return int(name) if name.isascii() and name.isdigit() and len(name) <= _DIGITS_MAX else None


_EMPTY: Final[Mapping[str, str]] = MappingProxyType({})


class ConfigsImage(Struct, frozen=True):
    """The settings of each resource that has any."""

    by_resource: Mapping[ConfigResource, Mapping[str, str]] = field(default_factory=lambda: MappingProxyType({}))

    def of(self, resource: ConfigResource) -> Mapping[str, str]:
        """The settings of one resource; empty if it has none. The same object as long as they do not change."""
        return self.by_resource.get(resource, _EMPTY)


class ConfigsDraft:
    """Changes to a `ConfigsImage`; only touched resources are copied."""

    __slots__ = ("_base", "_drafts")

    def __init__(self, base: ConfigsImage) -> None:
        self._base = base
        self._drafts: dict[ConfigResource, dict[str, str]] = {}

    @property
    def changed(self) -> frozenset[ConfigResource]:
        """The resources that may differ from the base."""
        return frozenset(self._drafts)

    def put(self, record: ConfigRecord) -> None:
        """One setting set, or with null removed."""
        resource = ConfigResource(record.resource_type, record.resource_name)
        draft = self._drafts.get(resource)
        if draft is None:
            draft = self._drafts[resource] = dict(self._base.of(resource))
        if record.value is None:
            draft.pop(record.name, None)
        else:
            draft[record.name] = record.value

    def forget(self, resource: ConfigResource) -> None:
        """All settings of a resource removed."""
        if resource in self._base.by_resource or resource in self._drafts:
            self._drafts[resource] = {}

    def build(self) -> ConfigsImage:
        """The next image; the base itself if nothing changed."""
        if not self._drafts:
            return self._base
        put = {resource: MappingProxyType(settings) for resource, settings in self._drafts.items() if settings}
        held = self._base.by_resource
        gone = [resource for resource, settings in self._drafts.items() if not settings and resource in held]
        return ConfigsImage(changed(held, put, gone))
