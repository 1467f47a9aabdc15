"""The table of the controller's listener."""

import pytest

from stratalog.broker.api import BROKER_APIS
from stratalog.broker.api.controller_apis import CONTROLLER_APIS
from stratalog.broker.requests.dispatch_row import Row
from stratalog.broker.runtime.metrics import ApiMetrics
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from stratalog.wire.messages.describe_cluster import DescribeClusterRequest
from stratalog.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from stratalog.wire.messages.registry import APIS
from stratalog.wire.schema import Struct

RANGES = ((1, 1), (17, 20), (29, 33), (36, 41), (43, 46), (49, 60), (62, 64), (67, 67), (70, 70), (73, 73), (80, 82))
KAFKAS_KEYS = frozenset(key for first, last in RANGES for key in range(first, last + 1))
FORWARDED = frozenset([19, 20, 30, 31, 33, 37, 43, 44, 45, 46, 49, 51, 55, 57, 64, 80, 81])


def test_every_key_of_kafkas_controllers_is_served_but_those_of_delegation_tokens():
    """In the versions that brokers announce, and each once."""
    assert len(KAFKAS_KEYS) == 41
    keys = [api.key for api in CONTROLLER_APIS]
    assert len(keys) == len(set(keys))
    assert KAFKAS_KEYS - set(keys) == {38, 39, 40, 41}
    assert set(keys) <= KAFKAS_KEYS
    versions = {api.key: api.advertised for api in BROKER_APIS}
    assert all(api.advertised == versions.get(api.key, api.advertised) for api in CONTROLLER_APIS if api.key != 1)


def test_brokers_forward_just_those_requests_that_kafkas_do():
    """And each of them has a row at the controller, which takes it in an envelope."""
    forwarded = {api.key for api in BROKER_APIS if api.forwarded}
    assert forwarded == FORWARDED & {api.key for api in BROKER_APIS}
    assert forwarded <= {api.key for api in CONTROLLER_APIS if api.forwarded}
    assert {api.key for api in CONTROLLER_APIS if api.forwarded} <= FORWARDED
    assert not any(api.handled_first for api in CONTROLLER_APIS)


def emptied(kind):
    """A message of a class with nothing in it."""
    values = {spec.name: [] if isinstance(spec.default, list) else "" for spec in kind.fields_declared if spec.required}
    return kind(**values)


@pytest.mark.parametrize("api", [api for api in BROKER_APIS if api.forwarded], ids=lambda api: api.name)
def test_each_forwarded_request_can_fail_as_a_whole_in_every_version(api):
    """There is an answer for a controller that does not answer: no client's connection is closed for it."""
    for version in range(api.versions[0], api.versions[1] + 1):
        row = Row(api, version, ApiMetrics(api.name, version))
        answer = row.failure(emptied(api.request), KafkaError(ErrorCode.REQUEST_TIMED_OUT, "late"))
        assert isinstance(answer, APIS[api.key].response)
        assert isinstance(answer, Struct)
        row.compile()
        assert row.encode(answer)


@pytest.fixture
def passive(shared_controller):
    """A controller that is not the active one."""
    shared_controller.quorum.is_active = False
    yield shared_controller
    shared_controller.quorum.is_active = True


def test_a_controller_that_is_not_active_decides_nothing(passive):
    """NOT_CONTROLLER, also for those who only ask."""
    topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1, assignments=[], configs=[])
    created = passive.link().call(CreateTopicsRequest(topics=[topic], timeout_ms=1000), 7)
    assert [each.error_code for each in created.topics] == [ErrorCode.NOT_CONTROLLER]
    listed = passive.link().call(ListPartitionReassignmentsRequest(timeout_ms=1000, topics=None), 0)
    assert listed.error_code == ErrorCode.NOT_CONTROLLER
    assert "t" not in passive.image.topics.by_name


def test_an_administrator_may_ask_the_active_controller_directly(shared_controller):
    """Without an envelope (KIP-919)."""
    topic = CreatableTopic(name="direct", num_partitions=2, replication_factor=1, assignments=[], configs=[])
    answer = shared_controller.link().call(CreateTopicsRequest(topics=[topic], timeout_ms=1000), 7)
    assert [each.error_code for each in answer.topics] == [0]
    assert len(shared_controller.image.topics.by_name["direct"].partitions) == 2


@pytest.mark.parametrize(
    ("endpoint", "code"), [(1, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (9, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)]
)
def test_brokers_are_not_described_by_a_controller(shared_controller, endpoint, code):
    """The error says so, and nothing is listed."""
    request = DescribeClusterRequest(include_cluster_authorized_operations=False, endpoint_type=endpoint)
    answer = shared_controller.link().call(request, 1)
    assert (answer.error_code, answer.brokers) == (code, [])
    assert "CONTROLLER" in answer.error_message or endpoint == 9
