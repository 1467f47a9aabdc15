"""Quotas through the client: describe, set and remove them. Every refusal is a `KafkaError`."""

from __future__ import annotations

from collections.abc import Mapping

from stratalog.client.client import Client
from stratalog.client.commands import command
from stratalog.client.link import check
from stratalog.wire.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from stratalog.wire.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest, MatchType

__all__ = ["Entity", "alter_quotas", "describe_quotas"]

Entity = Mapping[str, str | None]
"""Names by entity type ("user", "client-id", "ip"); None is the default of its type."""


def describe_quotas(
    client: Client, entity: Entity | None = None, *, strict: bool = False
) -> list[tuple[dict[str, str | None], dict[str, float]]]:
    """Entities with their quotas: those that have all the names of ``entity``, and ``strict``: no others."""
    components = [
        ComponentData(entity_type=kind, match_type=MatchType.DEFAULT if name is None else MatchType.EXACT, match=name)
        for kind, name in (entity or {}).items()
    ]
    answer = client.call(DescribeClientQuotasRequest(components=components, strict=strict))
    check(answer.error_code, answer.error_message)
    return [
        (
            {part.entity_type: part.entity_name for part in entry.entity},
            {quota.key: quota.value for quota in entry.values},
        )
        for entry in answer.entries or ()
    ]


def alter_quotas(
    client: Client, entity: Entity, changes: Mapping[str, float | None], *, validate_only: bool = False
) -> None:
    """Set quotas of one entity, or with None remove them. Raises `KafkaError`: then none is changed."""
    operations = [OpData(key=key, value=value or 0.0, remove=value is None) for key, value in changes.items()]
    parts = [EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()]
    request = AlterClientQuotasRequest(entries=[EntryData(entity=parts, ops=operations)], validate_only=validate_only)
    for entry in command(client, request).entries:
        check(entry.error_code, entry.error_message)
