"""AlterClientQuotas (key 49): set and remove quotas.

Behaviour: the answer leaves when they are on disk in the metadata log and in force here, for connections that are
there, too. Entities succeed or fail for themselves.
"""

from __future__ import annotations

from stratalog.broker.api.metadata_view import Context
from stratalog.broker.requests.dispatch import Api, Operation, Pending, ResourceType
from stratalog.metadata.controller.quotas import QuotaAlteration, alter_client_quotas
from stratalog.wire.errors import KafkaError
from stratalog.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlteredEntryData,
    EntityData,
    EntryData,
)
from stratalog.wire.schema import Message

__all__ = ["API"]


def _alteration(entry: EntryData) -> QuotaAlteration:
    return QuotaAlteration(
        [(part.entity_type, part.entity_name) for part in entry.entity],
        [(one.key, None if one.remove else one.value) for one in entry.ops],
    )


async def _alter(context: Context, alterations: list[QuotaAlteration], *, validate_only: bool) -> Message:
    outcomes = await context.broker.control.execute(
        lambda image: alter_client_quotas(image, alterations, validate_only=validate_only),
        source=context.connection,
        size=len(alterations),
        only_asks=validate_only,
    )
    entries = []
    for parts, failure in outcomes:
        entry = AlteredEntryData(entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in parts])
        if failure is not None:
            entry.error_code, entry.error_message = failure.code, failure.message
        entries.append(entry)
    return AlterClientQuotasResponse(entries=entries)


def handle(context: Context, request: AlterClientQuotasRequest) -> Pending:
    """Runs as a task: waits for the metadata log to sync."""
    alterations = [_alteration(entry) for entry in request.entries]
    return context.run(_alter(context, alterations, validate_only=request.validate_only))


def _failure(request: AlterClientQuotasRequest, _version: int, error: KafkaError) -> Message:
    return AlterClientQuotasResponse(
        entries=[
            AlteredEntryData(error_code=error.code, error_message=error.message, entity=entry.entity)
            for entry in request.entries
        ]
    )


API = Api(
    key=49,
    versions=(0, 1),
    request=AlterClientQuotasRequest,
    response=AlterClientQuotasResponse,
    handle=handle,
    operation=Operation.ALTER_CONFIGS,
    resource=ResourceType.CLUSTER,
    failure=_failure,
    forwarded=True,
)
