"""DescribeClientQuotas (key 48): the quotas of users, client ids and addresses that a filter describes."""

from __future__ import annotations

from stratalog.broker.api.broker_view import Context
from stratalog.broker.requests.dispatch import Api, Operation, Pending, ResourceType
from stratalog.broker.runtime.slices import Steps
from stratalog.metadata.controller.quotas import QuotaFilter, quota_search
from stratalog.wire.errors import KafkaError
from stratalog.wire.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)
from stratalog.wire.schema import Message

__all__ = ["API"]


def handle(context: Context, request: DescribeClientQuotasRequest) -> Pending:
    """Answered from the image, entity by entity: there may be very many."""
    return context.sliced(_steps(context, request))


def _steps(context: Context, request: DescribeClientQuotasRequest) -> Steps[Message]:
    filters = [QuotaFilter(each.entity_type, each.match_type, each.match) for each in request.components]
    is_found = quota_search(filters, strict=request.strict)
    entries = context.rows("entries")
    for entity, quotas in context.broker.image.quotas.by_entity.items():
        if not is_found(entity):
            yield None
            continue
        row = EntryData(
            entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
            values=[ValueData(key=key, value=value) for key, value in quotas.items()],
        )
        yield from entries.add(row)
    return DescribeClientQuotasResponse(entries=entries.close())


def _failure(_request: DescribeClientQuotasRequest, _version: int, error: KafkaError) -> Message:
    return DescribeClientQuotasResponse(error_code=error.code, error_message=error.message, entries=None)


API = Api(
    key=48,
    versions=(0, 1),
    request=DescribeClientQuotasRequest,
    response=DescribeClientQuotasResponse,
    handle=handle,
    operation=Operation.DESCRIBE_CONFIGS,
    resource=ResourceType.CLUSTER,
    failure=_failure,
)
