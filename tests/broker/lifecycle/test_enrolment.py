"""A controller's registration over loopback, decided by the rules of ours."""

import logging
import time

from stratalog.broker.lifecycle.enrolment import ControllerSelf, Enrolment
from stratalog.metadata.controller.broker_registration import ControllerRegistration, register_controller
from stratalog.metadata.image.brokers_image import ListenerAddress, SupportedLevels
from stratalog.metadata.image.features import SUPPORTED_FEATURES
from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.controller_registration import ControllerRegistrationResponse
from tests.metadata.controller.conftest import World


async def test_a_controller_is_registered_with_the_active_one(controller, quorum, new_channel, until, caplog):
    """Every field arrives; a refusal is said once, and tried again; then its image has it, and nothing is sent."""
    caplog.set_level(logging.WARNING)
    world, errors = World(), [ErrorCode.NOT_CONTROLLER, ErrorCode.NOT_CONTROLLER, ErrorCode.UNSUPPORTED_VERSION]

    def reply(request):
        if errors:
            return ControllerRegistrationResponse(error_code=errors.pop(0), error_message=None)
        asked = ControllerRegistration(
            controller_id=request.controller_id,
            incarnation_id=bytes(request.incarnation_id),
            listeners={at.name: ListenerAddress(at.host, at.port, at.security_protocol) for at in request.listeners},
            features={
                f.name: SupportedLevels(f.min_supported_version, f.max_supported_version) for f in request.features
            },
        )
        world.do(register_controller(world.image, asked))
        return ControllerRegistrationResponse(error_message=None)

    node = await controller(reply)
    me = ControllerSelf(
        controller_id=5,
        incarnation_id=b"i" * 16,
        listeners={"CONTROLLER": ListenerAddress("here", 9093, 1)},
        features=SUPPORTED_FEATURES,
    )
    enrolment = Enrolment(
        me,
        channel=new_channel(),
        quorum=quorum,
        monotonic=time.monotonic,
        draw=lambda: 0.0,
        timeout_ms=2000,
    )
    enrolment.image_applied(world.image)
    quorum.elect(9, node.port)
    await until(lambda: world.image.brokers.controllers)
    enrolment.image_applied(world.image)
    found = world.image.brokers.controllers[5]
    assert (found.incarnation_id, found.listeners, found.features) == (me.incarnation_id, me.listeners, me.features)
    assert len(node.asked) == 4
    refused = "controller 5: ControllerRegistration: the active controller refuses it (error {}); it is asked again"
    assert [record.message for record in caplog.records] == [refused.format(41), refused.format(35)]
    enrolment.image_applied(world.image)
    enrolment.close()
    assert len(node.asked) == 4
