"""AlterClientQuotas (key 49): set and remove quotas, or with ``validate_only`` say whether that would work (KIP-546).

Keys are "producer_byte_rate", "consumer_byte_rate", "request_percentage" and "controller_mutation_rate" of users and
client ids, "connection_creation_rate" of addresses. An entity changes as a whole or not at all.

- 0: the whole of it. 1: flexible.
"""

from __future__ import annotations

from stratalog.wire.messages.describe_client_quotas import EntityData
from stratalog.wire.schema import Bool, Float64, Int16, Int32, Message, Struct, field

__all__ = [
    "AlterClientQuotasRequest",
    "AlterClientQuotasResponse",
    "AlteredEntryData",
    "EntityData",
    "EntryData",
    "OpData",
]


class OpData(Struct):
    """One quota to set, or to remove, whatever its value then."""

    key: str
    value: Float64
    remove: Bool


class EntryData(Struct):
    """The changes for one entity."""

    entity: list[EntityData]
    ops: list[OpData]


class AlterClientQuotasRequest(Message, api_key=49, versions=(0, 1), flexible=1):
    """The entities."""

    entries: list[EntryData]
    validate_only: Bool


class AlteredEntryData(Struct):
    """The outcome for one entity (Kafka's ``EntryData`` of the response)."""

    error_code: Int16 = field()
    error_message: str | None = field(None)
    entity: list[EntityData]


class AlterClientQuotasResponse(Message, api_key=49, versions=(0, 1), flexible=1):
    """Entity by entity."""

    throttle_time_ms: Int32 = field()
    entries: list[AlteredEntryData]
