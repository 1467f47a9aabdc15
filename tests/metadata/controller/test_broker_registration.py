"""Brokers and controllers that register."""

import pytest
from msgspec.structs import replace

from stratalog.metadata.controller.broker_registration import (
    ControllerRegistration,
    check_features,
    register_controller,
)
from stratalog.metadata.image.brokers_image import SupportedLevels
from stratalog.metadata.image.features import SUPPORTED_FEATURES
from stratalog.metadata.image.image import EMPTY_IMAGE
from stratalog.metadata.image.topics_image import NO_LEADER, LeaderRecovery
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.records.metadata import FeatureLevelRecord, PartitionChangeRecord, RegisterBrokerRecord


def refused(world, asked):
    """The code with which a registration is refused."""
    with pytest.raises(KafkaError) as caught:
        world.register(asked)
    return caught.value.code


def test_a_broker_is_registered_fenced_under_the_next_offset(world):
    """Its epoch is the offset of the first record; it leads nothing before its first heartbeats."""
    one = world()
    offset = one.next_offset
    assert one.register(one.registration(1, rack="r")) == offset
    broker = one.image.brokers.brokers[1]
    assert (broker.epoch, broker.rack, broker.is_fenced, broker.is_active) == (offset, "r", True, False)


def test_refusals_come_in_the_order_of_kafka(world):
    """Each request has all faults from one on: the first of them is answered."""
    one = world()
    one.start(1, 2)
    faults = [
        ({"cluster_id": "other"}, ErrorCode.INCONSISTENT_CLUSTER_ID),
        ({}, ErrorCode.DUPLICATE_BROKER_REGISTRATION),
        ({"is_migrating": True}, ErrorCode.BROKER_ID_NOT_REGISTERED),
        ({"directories": ()}, ErrorCode.INVALID_REGISTRATION),
        ({"features": {"metadata.version": SupportedLevels(7, 29)}}, ErrorCode.UNSUPPORTED_VERSION),
        ({"features": {}}, ErrorCode.INVALID_REGISTRATION),
    ]
    for at, (_, code) in enumerate(faults):
        fields = {}
        for change, _ in reversed(faults[at:]):
            fields.update(change)
        broker_id = 1 if at <= 1 else 3
        assert refused(one, one.registration(broker_id, **fields)) is code


@pytest.mark.parametrize(
    "directories",
    [(), (bytes(16),), (bytes(15) + b"\x63",), (b"a" * 16, b"a" * 16), (b"\x02" * 16,)],
)
def test_directories_have_to_be_there_free_and_named_once(world, directories):
    """None, reserved ids, one twice, one of another broker: INVALID_REGISTRATION."""
    one = world()
    one.start(1, 2)
    assert refused(one, one.registration(3, directories=directories)) is ErrorCode.INVALID_REGISTRATION


def test_below_level_17_directories_are_not_asked_for_and_not_kept(world):
    """A record of that level has no place for them."""
    one = world()
    one.write((FeatureLevelRecord(name="metadata.version", feature_level=16),))
    one.register(one.registration(1, directories=()))
    one.register(one.registration(2))
    assert [broker.directories for broker in one.image.brokers.brokers.values()] == [(), ()]


@pytest.mark.parametrize(
    ("named", "code"),
    [
        ({**SUPPORTED_FEATURES, "share.version": SupportedLevels(0, 1)}, None),
        (SUPPORTED_FEATURES, ErrorCode.UNSUPPORTED_VERSION),
        ({**SUPPORTED_FEATURES, "share.version": SupportedLevels(0, 0)}, ErrorCode.UNSUPPORTED_VERSION),
        ({"share.version": SupportedLevels(0, 1)}, ErrorCode.INVALID_REGISTRATION),
    ],
)
def test_every_feature_in_use_has_to_be_named_with_its_level(named, code):
    """share.version is at 1: a broker that does not name it, or not so high, is refused."""
    levels = {"metadata.version": 30, "share.version": 1}
    image = EMPTY_IMAGE.apply([FeatureLevelRecord(name=name, feature_level=level) for name, level in levels.items()])
    if code is None:
        check_features(image, named)
        return
    with pytest.raises(KafkaError) as caught:
        check_features(image, named)
    assert caught.value.code is code


def test_the_same_incarnation_keeps_epoch_and_state_and_has_to_catch_up_again(world):
    """Its directories are the new ones; a fenced one is unfenced only behind the new record (KAFKA-16952)."""
    one = world()
    asked = one.registration(1)
    epoch = one.register(asked)
    one.write((FeatureLevelRecord(name="group.version", feature_level=1),))
    held = one.next_offset - 1
    again = replace(asked, directories=(b"x" * 16, b"y" * 16))
    assert one.register(again) == epoch
    assert one.beat(1, metadata_offset=held).is_fenced
    assert not one.beat(1).is_fenced
    one.register(again)
    broker = one.image.brokers.brokers[1]
    assert (broker.epoch, broker.is_active, broker.directories) == (epoch, True, (b"x" * 16, b"y" * 16))


def test_another_incarnation_waits_for_the_end_of_the_session_of_an_active_broker(world):
    """DUPLICATE_BROKER_REGISTRATION until then; a fenced broker's successor is registered at once."""
    one = world()
    one.start(1)
    asked = one.registration(1)
    one.now_ms += 8999
    assert refused(one, asked) is ErrorCode.DUPLICATE_BROKER_REGISTRATION
    one.now_ms += 1
    before = one.image.brokers.brokers[1].epoch
    epoch = one.register(asked)
    assert epoch > before
    assert one.image.brokers.brokers[1].is_fenced
    one.beat(1, wants_fence=True)
    assert one.register(one.registration(1)) > epoch


def test_a_new_incarnation_ends_what_its_former_one_led_and_was_a_member_of(world):
    """The records come before the registration, which is the last; the next leader has a higher leader epoch."""
    one = world()
    one.start(1, 2)
    one.topic("t", (1, 2), (2, 1))
    one.now_ms += 9000
    records = []
    one.write = lambda new, write=one.write: (records.extend(new), write(new))
    one.register(one.registration(1))
    assert [type(record) for record in records] == [PartitionChangeRecord, PartitionChangeRecord, RegisterBrokerRecord]
    assert [one.sets("t", number) for number in (0, 1)] == [(2, (2,), ()), (2, (2,), ())]
    assert (one.state("t", 0).leader_epoch, one.state("t", 1).leader_epoch) == (1, 0)


@pytest.mark.parametrize(
    ("elr", "is_clean", "sets", "recovery"),
    [
        (False, True, (1, (1,), ()), LeaderRecovery.RECOVERED),
        (False, False, (NO_LEADER, (), ()), LeaderRecovery.RECOVERED),
        (True, True, (1, (1,), ()), LeaderRecovery.RECOVERED),
        (True, False, (1, (1,), ()), LeaderRecovery.RECOVERING),
    ],
)
def test_a_last_member_comes_back_as_leader_if_it_lost_nothing(world, elr, is_clean, sets, recovery):
    """After a loss it leads only as the last known leader, marked as recovering; without eligible replicas not at all.

    The same broker leads in a new leader epoch.
    """
    one = world(elr=elr, minimum=1)
    one.start(1, 2)
    one.topic("t", (1, 2))
    one.tick(9000, 1)
    assert one.state().in_sync_replicas == (1,)
    epoch = one.state().leader_epoch
    one.tick(9000)
    one.restart(1, is_clean=is_clean)
    assert one.sets() == sets
    assert one.state().leader_recovery is recovery
    assert one.state().leader_epoch > epoch


def test_the_only_replica_of_a_partition_leads_again_whatever_its_broker_lost(world):
    """No other broker has anything; with one broker all is as it was."""
    one = world()
    one.start(1)
    one.topic("t", (1,))
    one.tick(9000)
    one.restart(1, is_clean=False)
    assert one.sets() == (1, (1,), ())


def test_a_broker_that_lost_data_is_not_eligible_any_more(world):
    """Minimum 2: both are eligible; the one that comes back without its data waits for the other."""
    one = world(elr=True, minimum=2)
    one.start(1, 2)
    one.topic("t", (1, 2))
    assert one.tick(9000) == (1, 2)
    assert one.sets() == (NO_LEADER, (), (1, 2))
    one.restart(1, is_clean=False)
    assert one.sets() == (NO_LEADER, (), (2,))
    one.restart(2, is_clean=True)
    assert one.sets() == (2, (2,), ())


def test_controllers_register_from_level_15_on(world):
    """Below it: UNSUPPORTED_VERSION."""
    one = world()
    asked = ControllerRegistration(controller_id=7, incarnation_id=b"c" * 16, listeners={}, features=SUPPORTED_FEATURES)
    one.do(register_controller(one.image, asked))
    assert one.image.brokers.controllers[7].features["metadata.version"].maximum == 30
    one.write((FeatureLevelRecord(name="metadata.version", feature_level=14),))
    with pytest.raises(KafkaError) as caught:
        register_controller(one.image, asked)
    assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION
