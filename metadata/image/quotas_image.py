"""The quotas of clients, as an immutable value. Sources: Kafka's ``ClientQuotasImage``; KIP-13, KIP-55, KIP-546.

A quota is set for an entity: a user, a client id, both together, or an address. A name of None stands for
each of its type without a quota of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from msgspec import Struct, field

from stratalog.metadata.maps.persistent_map import changed
from stratalog.wire.errors import Corrupt
from stratalog.wire.records.metadata import ClientQuotaRecord, QuotaEntityData

__all__ = ["CLIENT_ID", "IP", "USER", "QuotaEntity", "QuotasImage", "entity_of", "record_of"]

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"

QuotaEntity = tuple[tuple[str, str | None], ...]
"""(entity type, name) of each type that is named, by type."""

_NONE: Final[Mapping[str, float]] = MappingProxyType({})


def entity_of(names: Mapping[str, str | None]) -> QuotaEntity:
    """The entity with these names by type."""
    return tuple(sorted(names.items()))


class QuotasImage(Struct, frozen=True):
    """The quotas of each entity that has any, by key. A change costs the same however many entities there are."""

    by_entity: Mapping[QuotaEntity, Mapping[str, float]] = field(default_factory=lambda: MappingProxyType({}))

    def of(self, entity: QuotaEntity) -> Mapping[str, float]:
        """The quotas of one entity by key."""
        return self.by_entity.get(entity, _NONE)

    def with_record(self, record: ClientQuotaRecord) -> QuotasImage:
        """The image after a record. Raises `Corrupt` for one that removes what is not there."""
        entity = entity_of({part.entity_type: part.entity_name for part in record.entity})
        quotas = dict(self.of(entity))
        if not record.remove:
            quotas[record.key] = record.value
        elif quotas.pop(record.key, None) is None:
            raise Corrupt(f"a ClientQuotaRecord removes {record.key} of {entity}, for which it is not set")
        if quotas:
            return QuotasImage(changed(self.by_entity, {entity: MappingProxyType(quotas)}))
        return QuotasImage(changed(self.by_entity, {}, (entity,)))

    def to_records(self) -> Iterator[ClientQuotaRecord]:
        """The records that make this image from nothing."""
        for entity, quotas in self.by_entity.items():
            for key, value in quotas.items():
                yield record_of(entity, key, value)


def record_of(entity: QuotaEntity, key: str, value: float | None) -> ClientQuotaRecord:
    """The record that sets a quota, or with None removes it."""
    parts = [QuotaEntityData(entity_type=kind, entity_name=name) for kind, name in entity]
    return ClientQuotaRecord(entity=parts, key=key, value=0.0 if value is None else value, remove=value is None)
