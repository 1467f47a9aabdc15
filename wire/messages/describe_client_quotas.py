"""DescribeClientQuotas (key 48): which quotas are set for users, client ids and addresses (KIP-546).

An entity is one part for each entity type that it names: "user", "client-id", "ip". A null name is the default of its
type. ``match_type``: 0 this name, 1 the default, 2 any name that is set, the default among them.

- 0: the whole of it. 1: flexible.
"""

from __future__ import annotations

from enum import IntEnum

from stratalog.wire.schema import Bool, Float64, Int8, Int16, Int32, Message, Struct, field

__all__ = [
    "ComponentData",
    "DescribeClientQuotasRequest",
    "DescribeClientQuotasResponse",
    "EntityData",
    "EntryData",
    "MatchType",
    "ValueData",
]


class MatchType(IntEnum):
    """How a filter names entities of one type; the numbers of ``match_type``."""

    EXACT = 0
    DEFAULT = 1
    SPECIFIED = 2


class ComponentData(Struct):
    """A condition on one part of an entity, by its type; ``match`` is null unless one name is meant."""

    entity_type: str
    match_type: Int8
    match: str | None


class DescribeClientQuotasRequest(Message, api_key=48, versions=(0, 1), flexible=1):
    """All components must match. ``strict`` leaves out entities that have further types."""

    components: list[ComponentData]
    strict: Bool


class EntityData(Struct):
    """One part of an entity; a null name is the default."""

    entity_type: str
    entity_name: str | None


class ValueData(Struct):
    """One quota."""

    key: str
    value: Float64


class EntryData(Struct):
    """The quotas of one entity."""

    entity: list[EntityData]
    values: list[ValueData]


class DescribeClientQuotasResponse(Message, api_key=48, versions=(0, 1), flexible=1):
    """The entities that match; null after an error."""

    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()
    error_message: str | None = field(None)
    entries: list[EntryData] | None
