"""AlterConfigs (key 33): the older form of IncrementalAlterConfigs, which replaces all settings of a resource.

Behaviour: what is not named goes back to its default. Each resource succeeds or fails for itself; the answer leaves
when the change is on disk in the metadata log and in force on this broker. It is forwarded as IncrementalAlterConfigs is.
"""

from __future__ import annotations

from msgspec.structs import replace

from stratalog.broker.api.incremental_alter_configs import alteration_refusal, outcome
from stratalog.broker.api.metadata_view import Context
from stratalog.broker.requests.dispatch import Api, Operation, Pending, ResourceType
from stratalog.metadata.controller.controller import replacing_configs
from stratalog.metadata.image.configs_image import ConfigResource
from stratalog.metadata.image.same_image import same_to_resources
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from stratalog.wire.schema import Message

__all__ = ["API", "CONTROLLER_API"]


async def _alter(context: Context, request: AlterConfigsRequest, *, any_broker: bool) -> Message:
    broker = context.broker
    answers = []
    wanted = []
    rest = []
    for resource in request.resources:
        refusal = alteration_refusal(context, resource.resource_type, resource.resource_name, any_broker=any_broker)
        settings = {each.name: each.value for each in resource.configs}
        if refusal is None and len(settings) < len(resource.configs):
            refusal = KafkaError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
        if refusal is not None:
            answers.append(outcome(resource.resource_type, resource.resource_name, refusal))
            continue
        wanted.append((ConfigResource(resource.resource_type, resource.resource_name), settings))
        rest.append(resource)
    forwarding = context.dispatcher.forwarding
    if forwarding is not None and forwarding.elsewhere:
        if rest:
            forwarded = AlterConfigsRequest(resources=rest, validate_only=request.validate_only)
            answers += (await forwarding.ask(forwarded, AlterConfigsResponse, context)).responses
        return AlterConfigsResponse(responses=answers)
    results = await broker.control.execute(
        lambda image: replacing_configs(image, wanted, broker.config_rules(), validate_only=request.validate_only),
        source=context.connection,
        size=sum(max(1, len(each)) for _, each in wanted),
        only_asks=request.validate_only,
        same=same_to_resources(resource for resource, _ in wanted),
    )
    answers += [outcome(resource.type, resource.name, failure) for resource, failure in results]
    return AlterConfigsResponse(responses=answers)


def handle(context: Context, request: AlterConfigsRequest) -> Pending:
    """Runs as a task: waits for the metadata log to sync."""
    return context.run(_alter(context, request, any_broker=False))


def decide(context: Context, request: AlterConfigsRequest) -> Pending:
    """The same on a controller."""
    return context.run(_alter(context, request, any_broker=True))


def _failure(request: AlterConfigsRequest, _version: int, error: KafkaError) -> Message:
    return AlterConfigsResponse(
        responses=[outcome(each.resource_type, each.resource_name, error) for each in request.resources]
    )


API = Api(
    key=33,
    versions=(0, 2),
    request=AlterConfigsRequest,
    response=AlterConfigsResponse,
    handle=handle,
    operation=Operation.ALTER_CONFIGS,
    resource=ResourceType.TOPIC,
    failure=_failure,
    forwarded=True,
    handled_first=True,
)

CONTROLLER_API = replace(API, handle=decide, handled_first=False)
