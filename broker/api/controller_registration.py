"""ControllerRegistration (key 70): a controller process tells the active one of itself (KIP-919).

Behaviour: what it says stands in the metadata log, where UpdateFeatures finds the levels that every controller can run.
Below level 15 of ``metadata.version`` there is no record for it: UNSUPPORTED_VERSION.
"""

from __future__ import annotations

from stratalog.broker.api.controller_view import Context
from stratalog.broker.requests.dispatch import Api, Operation, Pending, ResourceType
from stratalog.metadata.controller.controller import ControllerRegistration, register_controller
from stratalog.metadata.image.brokers_image import ListenerAddress, SupportedLevels
from stratalog.wire.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)
from stratalog.wire.schema import Message

__all__ = ["API"]


async def _register(context: Context, request: ControllerRegistrationRequest) -> Message:
    asked = ControllerRegistration(
        controller_id=request.controller_id,
        incarnation_id=request.incarnation_id,
        listeners={at.name: ListenerAddress(at.host, at.port, at.security_protocol) for at in request.listeners},
        features={
            each.name: SupportedLevels(each.min_supported_version, each.max_supported_version)
            for each in request.features
        },
    )
    await context.broker.control.execute(lambda image: register_controller(image, asked), source=context.connection)
    return ControllerRegistrationResponse(error_message=None)


def handle(context: Context, request: ControllerRegistrationRequest) -> Pending:
    """Runs as a task: waits for the metadata log."""
    return context.run(_register(context, request))


API = Api(
    key=70,
    versions=(0, 0),
    request=ControllerRegistrationRequest,
    response=ControllerRegistrationResponse,
    handle=handle,
    operation=Operation.CLUSTER_ACTION,
    resource=ResourceType.CLUSTER,
)
