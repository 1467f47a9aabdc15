"""Requests that a broker begins to answer itself before it asks the active controller."""

from types import SimpleNamespace

import pytest

from stratalog.broker.coordinators.internal_topics import GROUP_TOPIC
from stratalog.broker.lifecycle.controller_channel import ControllerChannel
from stratalog.broker.quorum.leadership import LeaderAndEpoch
from stratalog.metadata.image.configs_image import ConfigResource
from stratalog.metadata.raft.voter_set import Endpoint
from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.alter_configs import AlterableConfig as Setting
from stratalog.wire.messages.alter_configs import AlterConfigsRequest
from stratalog.wire.messages.alter_configs import AlterConfigsResource as Resource
from stratalog.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from stratalog.wire.messages.envelope import EnvelopeResponse
from stratalog.wire.messages.find_coordinator import FindCoordinatorRequest
from stratalog.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from stratalog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic


def topics(*names):
    new = [
        CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[]) for name in names
    ]
    return CreateTopicsRequest(topics=new, timeout_ms=1000)


def test_a_topic_that_metadata_ask_for_is_created_by_the_controller(pair):
    """For the client; LEADER_NOT_AVAILABLE until this broker has heard of it, with the counts of its own settings."""
    link = pair.broker.link()
    request = MetadataRequest(topics=[MetadataRequestTopic(name="wished")], allow_auto_topic_creation=True)
    for _ in range(2):
        assert [each.error_code for each in link.call(request, 12).topics] == [ErrorCode.LEADER_NOT_AVAILABLE]
    assert len(pair.controller.image.topics.by_name["wished"].partitions) == 1
    envelopes = [request for request, _ in pair.channel.asked]
    assert [type(one).__name__ for one in envelopes] == ["EnvelopeRequest"] * 2


@pytest.mark.parametrize("code", [ErrorCode.NOT_CONTROLLER, ErrorCode.UNSUPPORTED_VERSION])
def test_metadata_answer_while_no_controller_does(pair, quick, code):
    """The topic has an error, the rest of the answer is as ever."""
    pair.channel.outcomes = [EnvelopeResponse(response_data=None, error_code=code)] * 10_000
    request = MetadataRequest(topics=[MetadataRequestTopic(name="wished")], allow_auto_topic_creation=True)
    answer = pair.broker.link().call(request, 12)
    wanted = ErrorCode.LEADER_NOT_AVAILABLE if code is ErrorCode.NOT_CONTROLLER else code
    assert [each.error_code for each in answer.topics] == [wanted]
    assert len(answer.brokers) == 1


def test_the_topic_of_groups_is_created_by_the_controller(pair):
    """In this node's own name, once for all who ask; COORDINATOR_NOT_AVAILABLE until this broker has heard of it."""
    links = [pair.broker.link() for _ in range(3)]
    for link in links:
        link.send(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 6)
    for link in links:
        answer = link.receive()
        assert [each.error_code for each in answer.coordinators] == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert GROUP_TOPIC in pair.controller.image.topics.by_name
    assert {type(request) for request, _ in pair.channel.asked} == {CreateTopicsRequest}


def alteration(resource_type, name, key, value):
    config = AlterableConfig(name=key, config_operation=0, value=value)
    return AlterConfigsResource(resource_type=resource_type, resource_name=name, configs=[config])


def test_settings_go_to_the_controller_and_loggers_stay(pair):
    """Names of other brokers are refused where the client asked; the answer has all of them."""
    pair.controller.running.link().call(topics("t"), 7)
    resources = [
        alteration(2, "t", "retention.ms", "1000"),
        alteration(8, str(pair.broker.node.node_id), "stratalog.x", "DEBUG"),
        alteration(4, "4711", "log.cleaner.threads", "2"),
    ]
    request = IncrementalAlterConfigsRequest(resources=resources, validate_only=False)
    answer = pair.broker.link().call(request, 1)
    codes = {(each.resource_type, each.resource_name): each.error_code for each in answer.responses}
    assert codes[2, "t"] == 0
    assert codes[4, "4711"] == ErrorCode.INVALID_REQUEST
    assert len(answer.responses) == 3
    assert pair.controller.image.configs.of(ConfigResource.topic("t")) == {"retention.ms": "1000"}
    assert len(pair.channel.asked) == 1
    only = IncrementalAlterConfigsRequest(resources=resources[1:], validate_only=False)
    assert len(pair.broker.link().call(only, 1).responses) == 2
    assert len(pair.channel.asked) == 1


def test_settings_that_are_replaced_as_a_whole_go_the_same_way(pair):
    """The older form, AlterConfigs."""
    pair.controller.running.link().call(topics("t"), 7)
    resources = [
        Resource(resource_type=2, resource_name="t", configs=[Setting(name="retention.ms", value="7")]),
        Resource(resource_type=4, resource_name="4711", configs=[]),
    ]
    answer = pair.broker.link().call(AlterConfigsRequest(resources=resources, validate_only=False), 2)
    codes = {each.resource_name: each.error_code for each in answer.responses}
    assert codes == {"t": 0, "4711": ErrorCode.INVALID_REQUEST}
    assert pair.controller.image.configs.of(ConfigResource.topic("t")) == {"retention.ms": "7"}


def test_a_request_waits_for_a_controller_to_be_known(pair):
    """Over the channel of the broker's life cycle: nothing is sent before there is a leader, and nothing is lost."""
    listeners = []
    quorum = SimpleNamespace(leader=LeaderAndEpoch(), on_leader_change=listeners.append)

    def use_real_channel():
        pair.forwarder._channel = ControllerChannel(
            quorum,
            listener="CONTROLLER",
            new_link=pair.channel.new_link,
            monotonic=pair.broker.node.clock.monotonic,
        )
        return pair.forwarder._channel

    channel = pair.broker.run(use_real_channel)
    link = pair.broker.link()
    link.send(topics("waited"), 7)
    pair.broker.wait_until(lambda: channel.requests == 1)

    def elect():
        quorum.leader = LeaderAndEpoch(1, 7, (Endpoint("CONTROLLER", "127.0.0.1", pair.controller.port),))
        for listener in listeners:
            listener(quorum.leader, False)

    pair.broker.run(elect)
    try:
        assert link.receive().topics[0].error_code == 0
    finally:
        pair.broker.run(channel.close)
    assert "waited" in pair.controller.image.topics.by_name
