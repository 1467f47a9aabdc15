"""ControllerRegistration at an active controller."""

from stratalog.broker.api.controller_registration import API
from stratalog.metadata.image.features import METADATA_VERSION
from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.controller_registration import ControllerRegistrationRequest, Feature, Listener
from stratalog.wire.records.metadata import FeatureLevelRecord


def request(controller_id=7):
    return ControllerRegistrationRequest(
        controller_id=controller_id,
        incarnation_id=b"i" * 16,
        zk_migration_ready=False,
        listeners=[Listener(name="CONTROLLER", host="c", port=9093, security_protocol=0)],
        features=[Feature(name=METADATA_VERSION, min_supported_version=7, max_supported_version=30)],
    )


def test_a_controller_stands_in_the_image_with_what_it_can_run(memory_controller):
    """UpdateFeatures looks there."""
    one = memory_controller()
    answer = one.ask(API, request())
    assert (answer.error_code, answer.error_message) == (ErrorCode.NONE, None)
    controller = one.image.brokers.controllers[7]
    assert (controller.incarnation_id, controller.listeners["CONTROLLER"]) == (b"i" * 16, ("c", 9093, 0))
    assert controller.features == {METADATA_VERSION: (7, 30)}


def test_an_old_cluster_has_no_record_for_it(memory_controller):
    """Below level 15, in Kafka's words."""
    one = memory_controller()
    one.write(FeatureLevelRecord(name=METADATA_VERSION, feature_level=14))
    answer = one.ask(API, request())
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert answer.error_message == "The current MetadataVersion is too old to support controller registrations."


def test_controllers_must_be_allowed_to_act_for_the_cluster():
    """As in Kafka."""
    assert (API.operation.name, API.resource.name) == ("CLUSTER_ACTION", "CLUSTER")
