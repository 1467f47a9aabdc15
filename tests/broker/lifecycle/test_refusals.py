"""Words for the numbers with which the controller refuses a broker."""

import pytest

from stratalog.broker.lifecycle.refusals import why_refused
from stratalog.metadata.image.brokers_image import BrokerImage, ListenerAddress, SupportedLevels
from stratalog.metadata.image.image import EMPTY_IMAGE
from stratalog.wire.errors import ErrorCode
from stratalog.wire.records.metadata import FeatureLevelRecord

MINE, OTHER = b"m" * 16, b"o" * 16


def broker(broker_id, *directories):
    return BrokerImage(
        broker_id=broker_id,
        epoch=5,
        incarnation_id=b"i" * 16,
        listeners={"PLAINTEXT": ListenerAddress("h", 9000 + broker_id, 0)},
        features={},
        rack=None,
        directories=directories,
    ).to_record()


def said(code, *records):
    """The sentence for broker 1 of cluster ``mine``, which has two directories and runs group.version 0 to 1."""
    return why_refused(
        code,
        EMPTY_IMAGE.apply(list(records)),
        broker_id=1,
        cluster_id="mine",
        directories=(MINE,),
        features={"group.version": SupportedLevels(0, 1)},
    )


def level(name, number):
    return FeatureLevelRecord(name=name, feature_level=number)


@pytest.mark.parametrize(
    ("code", "records", "words"),
    [
        (ErrorCode.INCONSISTENT_CLUSTER_ID, (), "this broker to cluster mine"),
        (ErrorCode.DUPLICATE_BROKER_REGISTRATION, (broker(1, OTHER),), "registered with node.id=1 at h:9001"),
        (ErrorCode.DUPLICATE_BROKER_REGISTRATION, (), "registered with node.id=1. If"),
        (
            ErrorCode.INVALID_REGISTRATION,
            (broker(1, MINE), broker(2, MINE)),
            "broker 2 at h:9002 is registered with the dir",
        ),
        (ErrorCode.INVALID_REGISTRATION, (broker(1, MINE), broker(2, OTHER)), "the controller's log says which"),
        (
            ErrorCode.UNSUPPORTED_VERSION,
            (level("group.version", 2), level("new", 1)),
            "group.version 2 (it runs 0 to 1), new 1",
        ),
        (ErrorCode.UNSUPPORTED_VERSION, (level("group.version", 1),), "kafka-features describe"),
    ],
)
def test_a_refusal_says_who_is_in_the_way_and_what_to_do(code, records, words):
    """The image often has the reason, as the broker follows the log before it is registered."""
    assert words in said(code, *records)


def test_other_codes_speak_for_themselves():
    """Such as a controller that is not active any more."""
    assert said(ErrorCode.NOT_CONTROLLER) == ""
