"""BrokerRegistration at an active controller."""

import pytest

from stratalog.broker.api.broker_registration import API
from stratalog.metadata.image.features import SUPPORTED_FEATURES
from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.broker_registration import BrokerRegistrationRequest, Feature, Listener
from tests.broker.memory_controller import CLUSTER_ID

LEVELS = SUPPORTED_FEATURES


def request(broker_id=1, incarnation=1, levels=LEVELS, **fields):
    """A registration that nothing is wrong with."""
    values = {
        "cluster_id": CLUSTER_ID,
        "incarnation_id": bytes([incarnation]) * 16,
        "listeners": [Listener(name="PLAINTEXT", host="a", port=9092, security_protocol=0)],
        "features": [
            Feature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in levels.items()
        ],
        "rack": "r",
        "log_dirs": [bytes([broker_id + 100]) * 16],
        **fields,
    }
    return BrokerRegistrationRequest(broker_id=broker_id, **values)


@pytest.fixture
def one(memory_controller):
    return memory_controller()


def test_a_broker_begins_fenced_and_its_epoch_is_the_offset_of_its_record(one):
    """All of its description is in the image."""
    answer = one.ask(API, request())
    broker = one.image.brokers.brokers[1]
    assert (answer.error_code, answer.broker_epoch) == (ErrorCode.NONE, len(one.log.records) - 1)
    assert (broker.epoch, broker.is_fenced, broker.rack) == (answer.broker_epoch, True, "r")
    assert broker.listeners["PLAINTEXT"] == ("a", 9092, 0)
    assert broker.features == LEVELS
    assert broker.directories == (bytes([101]) * 16,)


def test_the_same_incarnation_keeps_its_epoch_and_another_one_gets_a_higher_one(one):
    """A fenced broker's next incarnation need not wait."""
    first = one.ask(API, request()).broker_epoch
    assert one.ask(API, request()).broker_epoch == first
    assert one.ask(API, request(incarnation=2)).broker_epoch > first


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"cluster_id": "other", "incarnation": 9, "is_migrating_zk_broker": True}, "INCONSISTENT_CLUSTER_ID"),
        ({"incarnation": 9, "is_migrating_zk_broker": True, "log_dirs": []}, "DUPLICATE_BROKER_REGISTRATION"),
        ({"is_migrating_zk_broker": True, "log_dirs": []}, "BROKER_ID_NOT_REGISTERED"),
        ({"log_dirs": [], "levels": {"metadata.version": (7, 29)}}, "INVALID_REGISTRATION"),
        ({"log_dirs": [bytes(15) + b"\x05"]}, "INVALID_REGISTRATION"),
        ({"log_dirs": [b"d" * 16, b"d" * 16]}, "INVALID_REGISTRATION"),
        ({"log_dirs": [bytes([2]) * 16]}, "INVALID_REGISTRATION"),
        ({"levels": {"metadata.version": (7, 29)}}, "UNSUPPORTED_VERSION"),
        ({"levels": {}}, "INVALID_REGISTRATION"),
        ({"levels": {"metadata.version": (7, 30)}}, "UNSUPPORTED_VERSION"),
    ],
)
def test_refusals_come_in_kafkas_order(one, wrong, code):
    """Each case has later faults, too. No record is written."""
    one.start(2)
    one.ask(API, request())
    one.beat(1)
    count = len(one.log.records)
    answer = one.ask(API, request(**wrong))
    assert (ErrorCode(answer.error_code).name, answer.broker_epoch) == (code, -1)
    assert len(one.log.records) == count


@pytest.mark.parametrize("version", range(5))
def test_requests_without_directories_are_refused_by_the_level_of_the_cluster(one, version):
    """Versions 0 and 1 name none."""
    code = ErrorCode.INVALID_REGISTRATION if version < 2 else ErrorCode.NONE
    assert one.ask(API, request(), version).error_code == code


def test_brokers_must_be_allowed_to_act_for_the_cluster():
    """As in Kafka."""
    assert (API.operation.name, API.resource.name) == ("CLUSTER_ACTION", "CLUSTER")
