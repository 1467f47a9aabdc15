"""FindCoordinator: the leader of the partition that the key's hash names."""

from types import SimpleNamespace

import pytest

from stratalog.broker.api import find_coordinator
from stratalog.broker.api.find_coordinator import API
from stratalog.metadata.image.image import EMPTY_IMAGE
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.find_coordinator import FindCoordinatorRequest
from stratalog.wire.partitioner import coordinator_partition
from stratalog.wire.records.metadata import BrokerEndpoint, PartitionRecord, RegisterBrokerRecord, TopicRecord
from stratalog.wire.schema import encode_bytes
from tests.broker.api.at_once import AtOnce

TOPICS = {0: "__consumer_offsets", 1: "__transaction_state"}


@pytest.mark.parametrize("version", range(7))
@pytest.mark.parametrize("key_type", [0, 1])
def test_the_coordinator_is_this_broker_as_its_listener_is_known(broker, version, key_type):
    """One answer for each key from version 4 on; the topic is there when the answer is."""
    key_type = key_type if version else 0
    request = FindCoordinatorRequest(key="g" if version < 4 else "", key_type=key_type, coordinator_keys=["g", "h"])
    answer = broker.link().call(request, version)
    answers = [answer] if version < 4 else answer.coordinators
    host, port = broker.address.rsplit(":", 1)
    assert [(one.error_code, one.node_id, one.host, one.port) for one in answers] == [
        (0, broker.node.node_id, host, int(port))
    ] * len(answers)
    if version >= 4:
        assert [one.key for one in answers] == ["g", "h"]
    assert TOPICS[key_type] in broker.node.image.topics.by_name


def test_fact_coordinator_partitions_are_javas_hash_modulo_the_partitions(broker):
    """my-group is 12, flights 9, g1 42 of 50; the hash of Integer.MIN_VALUE counts as 0."""
    broker.link().call(FindCoordinatorRequest(key_type=0, coordinator_keys=["my-group"]), 6)
    assert len(broker.node.image.topics.by_name[TOPICS[0]].partitions) == 50
    wanted = {"my-group": 12, "flights": 9, "g1": 42, "polygenelubricants": 0}
    assert {key: coordinator_partition(key, 50) for key in wanted} == wanted


@pytest.mark.parametrize(("key_type", "segment_bytes"), [(0, 100 << 20), (1, 100 << 20)])
def test_the_topics_have_kafkas_settings(broker, key_type, segment_bytes):
    """Compacted, in small segments, in the codec of Kafka; one replica where there is one broker."""
    broker.link().call(FindCoordinatorRequest(key_type=key_type, coordinator_keys=["g"]), 6)
    image = broker.node.image
    configs = image.topic_configs(TOPICS[key_type])
    assert configs["cleanup.policy"] == "compact"
    assert configs["compression.type"] == ("uncompressed" if key_type else "producer")
    assert int(configs["segment.bytes"]) == segment_bytes
    assert {len(one.replicas) for one in image.topics.by_name[TOPICS[key_type]].partitions.values()} == {1}


@pytest.mark.parametrize("version", [1, 6])
@pytest.mark.parametrize("key_type", [2, 9])
def test_a_kind_of_key_that_is_not_served_is_invalid(broker, version, key_type):
    """INVALID_REQUEST in Kafka's words; share groups are among them."""
    request = FindCoordinatorRequest(key="g" if version < 4 else "", key_type=key_type, coordinator_keys=["g"])
    answer = broker.link().call(request, version)
    one = answer if version < 4 else answer.coordinators[0]
    assert one.error_code == ErrorCode.INVALID_REQUEST
    assert one.error_message.startswith("This most likely occurs because of a request being malformed")


@pytest.mark.parametrize("version", range(7))
def test_a_request_that_failed_is_answered_for_every_key(version):
    """With the code and message of the error, where the version has its place for them."""
    request = FindCoordinatorRequest(key="g", key_type=0, coordinator_keys=["g", "h"])
    answer = API.failure(request, version, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "why"))
    answers = [answer] if version < 4 else answer.coordinators
    assert [(one.error_code, one.error_message) for one in answers] == [(-1, "why")] * len(answers)
    assert encode_bytes(answer, version)


def test_a_key_that_no_record_can_hold_has_no_coordinator(broker):
    """The others of the request have theirs."""
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=["g", "g" * 32_768])
    answer = broker.link().call(request, 6)
    assert [one.error_code for one in answer.coordinators] == [0, ErrorCode.INVALID_REQUEST]


@pytest.mark.parametrize("version", [3, 6])
def test_a_forbidden_request_makes_no_topic(start_node, version):
    """A client that may not see the group gets GROUP_AUTHORIZATION_FAILED, and the topic of groups is not created."""
    broker = start_node(authorizer_class_name="org.apache.kafka.metadata.authorizer.StandardAuthorizer")
    request = FindCoordinatorRequest(key="g" if version < 4 else "", key_type=0, coordinator_keys=["g"])
    answer = broker.link().call(request, version)
    one = answer if version < 4 else answer.coordinators[0]
    assert one.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert TOPICS[0] not in broker.node.image.topics.by_name


class Asked(AtOnce):
    """A request at a broker whose image a test gives."""

    def __init__(self, image):
        self.broker = SimpleNamespace(image=image)
        self.connection = SimpleNamespace(listener=SimpleNamespace(name="L"))
        self.api_version = 6
        self.answer = None

    def allows(self, *_):
        return True

    def respond(self, answer):
        self.answer = answer


@pytest.mark.parametrize(
    ("listener", "fenced", "code"),
    [
        ("L", False, ErrorCode.NONE),
        ("L", True, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        ("M", False, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ],
)
def test_a_coordinator_that_clients_cannot_reach_is_not_available(listener, fenced, code):
    """It is fenced, and another will be chosen; or it has no such listener."""
    at = BrokerEndpoint(name=listener, host="h", port=9, security_protocol=0)
    state = PartitionRecord(
        partition_id=0, topic_id=bytes(16), replicas=[2], isr=[2], leader=2, leader_epoch=0, partition_epoch=0
    )
    broker = RegisterBrokerRecord(
        broker_id=2,
        broker_epoch=1,
        incarnation_id=bytes(16),
        end_points=[at],
        features=[],
        rack=None,
        fenced=fenced,
    )
    asked = Asked(EMPTY_IMAGE.apply([broker, TopicRecord(name=TOPICS[0], topic_id=bytes(16)), state]))
    API.handle(asked, FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]))
    (found,) = asked.answer.coordinators
    assert (found.error_code, found.node_id) == (code, -1 if code else 2)


def test_a_topic_that_is_deleted_between_two_keys_has_no_coordinators():
    """COORDINATOR_NOT_AVAILABLE: the client asks again, and the topic is made again. All keys got an unexpected error."""
    context = SimpleNamespace(allows=lambda *_: True, broker=SimpleNamespace(image=EMPTY_IMAGE))
    found = find_coordinator._find(context, 0, "g", TOPICS[0])
    assert found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
