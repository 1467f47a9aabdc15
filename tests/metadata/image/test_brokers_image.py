"""Registered brokers."""

import pytest
from msgspec.structs import replace

from stratalog.metadata.image.brokers_image import (
    BrokerImage,
    BrokersImage,
    ControllerImage,
    ListenerAddress,
    SupportedLevels,
)
from stratalog.metadata.image.directory_ids import MIGRATING, UNASSIGNED
from stratalog.wire.errors import Corrupt
from stratalog.wire.records.metadata import (
    BrokerRegistrationChangeRecord,
    FenceBrokerRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)

_BROKER = BrokerImage(
    broker_id=3,
    epoch=7,
    incarnation_id=b"i" * 16,
    listeners={"PLAINTEXT": ListenerAddress("h", 9092), "INTERNAL": ListenerAddress("h", 9093, 1)},
    features={"metadata.version": SupportedLevels(7, 30)},
    rack="r",
    directories=(b"d" * 16,),
    cordoned_directories=(),
)
_IMAGE = BrokersImage().with_broker(_BROKER)


def test_a_registration_survives_its_record():
    """Record and image say the same, listeners in their order."""
    assert BrokerImage.of(_BROKER.to_record()) == _BROKER
    assert list(BrokerImage.of(_BROKER.to_record()).listeners) == ["PLAINTEXT", "INTERNAL"]


def test_a_controllers_registration_survives_its_record():
    """Likewise for controllers."""
    controller = ControllerImage(1, b"i" * 16, {"CONTROLLER": ListenerAddress("h", 9093)})
    assert ControllerImage.of(controller.to_record()) == controller
    assert BrokersImage().with_controller(controller.to_record()).controllers == {1: controller}


def test_a_new_broker_is_fenced_by_default():
    """It may not lead yet."""
    assert not _IMAGE.is_active(3)
    change = BrokerRegistrationChangeRecord(broker_id=3, broker_epoch=7, fenced=-1)
    assert _IMAGE.with_change(change).is_active(3)
    assert not _IMAGE.is_active(99)


def test_older_fencing_records_work_too():
    """A log written by an older Kafka has them."""
    unfenced = _IMAGE.with_fencing(UnfenceBrokerRecord(id=3, epoch=7))
    assert unfenced.is_active(3)
    assert not unfenced.with_fencing(FenceBrokerRecord(id=3, epoch=7)).is_active(3)


def test_a_change_leaves_alone_what_it_does_not_name():
    """Zero and null mean no change; controlled shutdown ends activity without a fence."""
    change = BrokerRegistrationChangeRecord(broker_id=3, broker_epoch=7, fenced=-1)
    leaving = BrokerRegistrationChangeRecord(broker_id=3, broker_epoch=7, in_controlled_shutdown=1)
    after = _IMAGE.with_change(change).with_change(leaving).brokers[3]
    assert (after.is_fenced, after.in_controlled_shutdown, after.is_active) == (False, True, False)
    assert (after.directories, after.cordoned_directories) == ((b"d" * 16,), ())
    moved = BrokerRegistrationChangeRecord(
        broker_id=3, broker_epoch=7, log_dirs=[b"e" * 16], cordoned_log_dirs=[b"c" * 16]
    )
    other = _IMAGE.with_change(moved).brokers[3]
    assert (other.directories, other.cordoned_directories) == ((b"e" * 16,), (b"c" * 16,))


@pytest.mark.parametrize(
    "step",
    [
        lambda image: image.with_change(BrokerRegistrationChangeRecord(broker_id=3, broker_epoch=6, fenced=-1)),
        lambda image: image.with_fencing(UnfenceBrokerRecord(id=4, epoch=7)),
        lambda image: image.without(UnregisterBrokerRecord(broker_id=3, broker_epoch=8)),
    ],
)
def test_a_record_for_another_registration_is_corrupt(step):
    """Id and epoch must both be the present ones."""
    with pytest.raises(Corrupt, match="broker"):
        step(_IMAGE)


def test_a_broker_that_leaves_is_gone():
    """Unregistered means not in the image."""
    assert _IMAGE.without(UnregisterBrokerRecord(broker_id=3, broker_epoch=7)).brokers == {}
    assert _IMAGE.brokers == {3: _BROKER}


@pytest.mark.parametrize(
    ("directories", "cordoned", "default", "has_room"),
    [
        ((), None, MIGRATING, True),
        ((b"a" * 16,), None, b"a" * 16, True),
        ((b"a" * 16,), (b"a" * 16,), b"a" * 16, False),
        ((b"a" * 16, b"b" * 16), (b"a" * 16,), UNASSIGNED, True),
        ((b"a" * 16, b"b" * 16), (b"b" * 16, b"a" * 16), UNASSIGNED, False),
    ],
)
def test_new_replicas_go_to_the_only_directory_and_to_none_that_is_cordoned(directories, cordoned, default, has_room):
    """A broker of several directories chooses; one that has all of them cordoned gets no replica (KIP-858, KIP-1066)."""
    broker = replace(_BROKER, directories=directories, cordoned_directories=cordoned)
    assert (broker.default_directory, broker.has_room) == (default, has_room)


def test_a_replica_is_served_from_a_directory_that_its_broker_registered():
    """A broker that is not registered serves nothing."""
    found = [_IMAGE.serves(3, b"d" * 16), _IMAGE.serves(3, b"x" * 16), _IMAGE.serves(9, b"d" * 16)]
    assert found == [True, False, False]
