"""IncrementalAlterConfigs (key 44): set, delete, append to or subtract from single settings (KIP-339).

Behaviour: each resource succeeds or fails for itself; the answer leaves when the change is on disk in the metadata
log and in force on this broker. A broker whose active controller is elsewhere answers for its loggers, refuses the names of
other brokers, and forwards the rest. A controller takes the settings of any registered broker.
"""

from __future__ import annotations

from msgspec.structs import replace

from stratalog.broker.api.describe_configs import ALTERED, ALTERED_LOGGERS, check_broker_name
from stratalog.broker.api.metadata_view import Context
from stratalog.broker.requests.authorizer import CLUSTER_NAME, Operation, ResourceType
from stratalog.broker.requests.dispatch import Api, Pending
from stratalog.broker.runtime.log_levels import alter_levels
from stratalog.metadata.controller.controller import ConfigChange, Failure, altering_configs
from stratalog.metadata.image import configs_image
from stratalog.metadata.image.configs_image import ConfigResource
from stratalog.metadata.image.same_image import same_to_resources
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.alter_configs import AlterConfigsResourceResponse
from stratalog.wire.messages.incremental_alter_configs import (
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from stratalog.wire.schema import Message

__all__ = ["API", "CONTROLLER_API", "alteration_refusal", "outcome"]


def alteration_refusal(context: Context, resource_type: int, name: str, *, any_broker: bool) -> KafkaError | None:
    """Why the caller may not change settings of a resource here; None if he may. ``any_broker``: also of other brokers."""
    if resource_type == configs_image.ResourceType.TOPIC:
        if not context.allows(name, Operation.ALTER_CONFIGS, ResourceType.TOPIC):
            return KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    elif resource_type == configs_image.ResourceType.GROUP:
        if not context.allows(name, Operation.ALTER_CONFIGS, ResourceType.GROUP):
            return KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    elif not context.allows(CLUSTER_NAME, Operation.ALTER_CONFIGS, ResourceType.CLUSTER):
        return KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    elif resource_type == configs_image.ResourceType.BROKER and name and not any_broker:
        try:
            check_broker_name(name, context.broker.node_id, ALTERED)
        except KafkaError as error:
            return error
    return None


def outcome(resource_type: int, name: str, failure: Failure | KafkaError | None) -> AlterConfigsResourceResponse:
    """The outcome for one resource; AlterConfigs says it in the same words."""
    answer = AlterConfigsResourceResponse(resource_type=resource_type, resource_name=name)
    if failure is not None:
        answer.error_code, answer.error_message = failure.code, failure.message
    return answer


def _alter_loggers(
    resource: AlterConfigsResource, changes: list[ConfigChange], node_id: int, *, validate_only: bool
) -> AlterConfigsResourceResponse:
    """Levels of loggers are this process's own: nothing of them is written down."""
    failure = None
    try:
        check_broker_name(resource.resource_name, node_id, ALTERED_LOGGERS)
        alter_levels(changes, validate_only=validate_only)
    except KafkaError as error:
        failure = error
    return outcome(resource.resource_type, resource.resource_name, failure)


async def _alter(context: Context, request: IncrementalAlterConfigsRequest, *, any_broker: bool) -> Message:
    broker = context.broker
    answers = []
    wanted: list[tuple[ConfigResource, list[ConfigChange]]] = []
    rest = []
    for resource in request.resources:
        refusal = alteration_refusal(context, resource.resource_type, resource.resource_name, any_broker=any_broker)
        if refusal is not None:
            answers.append(outcome(resource.resource_type, resource.resource_name, refusal))
            continue
        changes = [ConfigChange(each.name, each.config_operation, each.value) for each in resource.configs]
        if resource.resource_type == configs_image.ResourceType.BROKER_LOGGER:
            answers.append(_alter_loggers(resource, changes, broker.node_id, validate_only=request.validate_only))
            continue
        wanted.append((ConfigResource(resource.resource_type, resource.resource_name), changes))
        rest.append(resource)
    forwarding = context.dispatcher.forwarding
    if forwarding is not None and forwarding.elsewhere:
        if rest:
            forwarded = IncrementalAlterConfigsRequest(resources=rest, validate_only=request.validate_only)
            answers += (await forwarding.ask(forwarded, IncrementalAlterConfigsResponse, context)).responses
        return IncrementalAlterConfigsResponse(responses=answers)
    results = await broker.control.execute(
        lambda image: altering_configs(image, wanted, broker.config_rules(), validate_only=request.validate_only),
        source=context.connection,
        size=sum(max(1, len(each)) for _, each in wanted),
        only_asks=request.validate_only,
        same=same_to_resources(resource for resource, _ in wanted),
    )
    answers += [outcome(resource.type, resource.name, failure) for resource, failure in results]
    return IncrementalAlterConfigsResponse(responses=answers)


def handle(context: Context, request: IncrementalAlterConfigsRequest) -> Pending:
    """Runs as a task: waits for the metadata log to sync."""
    return context.run(_alter(context, request, any_broker=False))


def decide(context: Context, request: IncrementalAlterConfigsRequest) -> Pending:
    """The same on a controller."""
    return context.run(_alter(context, request, any_broker=True))


def _failure(request: IncrementalAlterConfigsRequest, _version: int, error: KafkaError) -> Message:
    return IncrementalAlterConfigsResponse(
        responses=[outcome(each.resource_type, each.resource_name, error) for each in request.resources]
    )


API = Api(
    key=44,
    versions=(0, 1),
    request=IncrementalAlterConfigsRequest,
    response=IncrementalAlterConfigsResponse,
    handle=handle,
    operation=Operation.ALTER_CONFIGS,
    resource=ResourceType.TOPIC,
    failure=_failure,
    forwarded=True,
    handled_first=True,
)

CONTROLLER_API = replace(API, handle=decide, handled_first=False)
