"""A broker that is asked, and a controller elsewhere that decides, over a real link."""

from types import SimpleNamespace

import pytest

from stratalog.broker.forwarding import forwarder as module
from stratalog.broker.forwarding.forwarder import ForwardingLimits
from stratalog.broker.peers.peer_errors import Peer, PeerTimeout, PeerUnavailable
from stratalog.client.link import BrokerUnavailable
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.api_versions import ApiVersionsRequest
from stratalog.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from stratalog.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from stratalog.wire.messages.delete_topics import DeleteTopicsRequest
from stratalog.wire.messages.describe_quorum import DescribeQuorumRequest
from stratalog.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from stratalog.wire.messages.envelope import EnvelopeResponse
from stratalog.wire.messages.metadata import MetadataRequest


def topics(*names, partition_count=1, configs=()):
    new = [
        CreatableTopic(
            name=name,
            num_partitions=partition_count,
            replication_factor=1,
            assignments=[],
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs],
        )
        for name in names
    ]
    return CreateTopicsRequest(topics=new, timeout_ms=1000)


def test_a_topic_is_created_where_the_controller_is(pair):
    """The client hears the controller's answer; the broker's own metadata do not change by it."""
    answer = pair.broker.link().call(topics("t", partition_count=3), 7)
    assert [(each.name, each.error_code, each.num_partitions) for each in answer.topics] == [("t", 0, 3)]
    assert len(pair.controller.image.topics.by_name["t"].partitions) == 3
    assert "t" not in pair.broker.node.image.topics.by_name


@pytest.mark.parametrize("version", range(2, 8))
def test_each_version_is_forwarded_as_it_is(pair, version):
    """Also the header of the answer is that of the version."""
    link = pair.broker.link()
    assert link.call(topics("t"), version).topics[0].error_code == 0
    assert link.call(topics("t"), version).topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS


def test_requests_of_one_client_are_answered_in_order(pair):
    """Forwarded ones, and those that the broker answers at once."""
    link = pair.broker.link()
    numbers = []
    for n in range(10):
        numbers.append(link.send(topics(f"t{n}"), 7))
        numbers.append(link.send(MetadataRequest(topics=None), 12))
    answers = [link.receive() for _ in numbers]
    assert [one.topics[0].name for one in answers[::2]] == [f"t{n}" for n in range(10)]
    assert all(one.cluster_id == pair.broker.node.cluster_id for one in answers[1::2])


def test_other_requests_stay_at_the_broker(pair):
    """No row but those of the controller's decisions asks the channel."""
    link = pair.broker.link()
    link.call(MetadataRequest(topics=None), 12)
    link.call(DescribeUserScramCredentialsRequest(users=None), 0)
    assert pair.channel.asked == []


def test_a_large_request_and_its_large_answer_come_whole(pair):
    """Thousands of topics that there are not."""
    names = [f"none-{n:04}" for n in range(9_000)]
    answer = pair.broker.link().call(DeleteTopicsRequest(topic_names=names, timeout_ms=1000), 5)
    assert [each.name for each in answer.responses] == names


def test_while_the_controller_is_here_nothing_is_forwarded(pair):
    """The broker decides itself."""
    pair.active = True
    assert pair.broker.link().call(topics("mine"), 7).topics[0].error_code == 0
    assert "mine" in pair.broker.node.image.topics.by_name
    assert pair.channel.asked == []


def test_a_broker_announces_the_versions_that_both_serve(pair, monkeypatch):
    """As soon as the controller has told its own; of what the broker serves itself, its own alone."""

    def announced():
        answer = pair.broker.link().call(ApiVersionsRequest(client_software_name="c", client_software_version="1"), 4)
        return {one.api_key: (one.min_version, one.max_version) for one in answer.api_keys}

    whole = announced()
    assert (whole[19], whole[20], whole[0]) == ((2, 7), (1, 6), (0, 13))
    pair.broker.link().call(topics("first"), 7)
    controllers = pair.channel.link.versions
    assert controllers[19] == (2, 7)
    assert announced() == whole
    older = {key: versions for key, versions in controllers.items() if key != 37} | {19: (3, 5), 20: (7, 9), 0: (0, 1)}
    monkeypatch.setattr(type(pair.channel.link), "versions", older)
    known = announced()
    assert {key: known.get(key) for key in whole if known.get(key) != whole[key]} == {19: (3, 5), 20: None, 37: None}
    pair.active = True
    assert announced() == whole


def test_a_controller_that_ceases_to_be_active_here_is_followed_elsewhere(pair, monkeypatch):
    """The client hears nothing of it."""

    async def execute(*_, **__):
        pair.active = False
        raise KafkaError(ErrorCode.NOT_CONTROLLER)

    monkeypatch.setattr(pair.broker.node.control, "execute", execute)
    for request, version in ((topics("followed"), 7), (DeleteTopicsRequest(topic_names=["followed"], timeout_ms=1), 5)):
        pair.active = True
        answer = pair.broker.link().call(request, version)
        assert [each.error_code for each in getattr(answer, "topics", None) or answer.responses] == [0]
    assert len(pair.channel.asked) == 2


def test_a_handler_that_says_at_once_that_it_is_not_active_is_followed(pair, monkeypatch):
    """Before its request was parked."""
    row = next(row for row in pair.broker.node.dispatcher._rows.values() if row.api.key == 19 and row.version == 7)

    def handle(context, request):
        pair.active = False
        raise KafkaError(ErrorCode.NOT_CONTROLLER)

    monkeypatch.setattr(row, "handle", handle)
    pair.active = True
    assert pair.broker.link().call(topics("t"), 7).topics[0].error_code == 0


def test_another_controller_is_asked_after_not_controller(pair, quick):
    """The channel hears of the epoch in which it was said; the client only has to wait."""
    refused = EnvelopeResponse(response_data=None, error_code=ErrorCode.NOT_CONTROLLER)
    pair.channel.outcomes = [refused, PeerUnavailable(Peer(1, "h", 9), "gone"), refused]
    assert pair.broker.link().call(topics("t"), 7).topics[0].error_code == 0
    assert pair.channel.refused == [7, 7]
    assert len(pair.channel.asked) == 4


def test_a_controller_that_has_come_to_be_known_meanwhile_is_asked_at_once(pair, monkeypatch):
    """Without a pause; so is the next one, whatever the last attempt ended with."""
    monkeypatch.setattr(module, "BACKOFF_MS", 15_000)
    pair.leader_epochs = [7, 8, 9]
    refused = EnvelopeResponse(response_data=None, error_code=ErrorCode.NOT_CONTROLLER)
    pair.channel.outcomes = [refused, PeerUnavailable(Peer(1, "h", 1), "gone")]
    assert pair.broker.link().call(topics("t"), 7).topics[0].error_code == 0
    assert len(pair.channel.asked) == 3
    assert pair.channel.refused == [7]


def test_without_an_active_controller_a_request_times_out(pair, quick):
    """REQUEST_TIMED_OUT in the words of the API."""
    refused = EnvelopeResponse(response_data=None, error_code=ErrorCode.NOT_CONTROLLER)
    pair.channel.outcomes = [refused] * 10_000
    answer = pair.broker.link().call(topics("t", "u"), 7)
    assert [each.error_code for each in answer.topics] == [ErrorCode.REQUEST_TIMED_OUT] * 2


def test_an_answer_that_does_not_come_is_a_time_out(pair):
    """And is not asked for again: it may have been carried out."""
    pair.channel.outcomes = [PeerTimeout(Peer(1, "h", 9), "silent")]
    answer = pair.broker.link().call(topics("t"), 7)
    assert [each.error_code for each in answer.topics] == [ErrorCode.REQUEST_TIMED_OUT]
    assert len(pair.channel.asked) == 1


def test_an_error_of_the_envelope_is_an_unknown_server_error(pair):
    """The client could do nothing about CLUSTER_AUTHORIZATION_FAILED of its broker."""
    pair.channel.outcomes = [EnvelopeResponse(response_data=None, error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)]
    answer = pair.broker.link().call(topics("t"), 7)
    assert [each.error_code for each in answer.topics] == [ErrorCode.UNKNOWN_SERVER_ERROR]


def test_a_version_that_the_controller_does_not_know_closes_the_clients_connection(pair):
    """The client connects anew."""
    pair.channel.outcomes = [EnvelopeResponse(response_data=None, error_code=ErrorCode.UNSUPPORTED_VERSION)]
    with pytest.raises(BrokerUnavailable):
        pair.broker.link().call(topics("t"), 7)


def test_an_answer_that_is_too_short_is_an_unknown_server_error(pair):
    """The client's answers stay readable."""
    pair.channel.outcomes = [EnvelopeResponse(response_data=b"\0\0", error_code=0)]
    answer = pair.broker.link().call(topics("t"), 7)
    assert [each.error_code for each in answer.topics] == [ErrorCode.UNKNOWN_SERVER_ERROR]


def test_the_clients_correlation_id_is_its_own(pair):
    """The number in the controller's answer does not count."""
    body = bytes(4 + 1 + 4) + b"\1\0"
    pair.channel.outcomes = [EnvelopeResponse(response_data=b"\7\7\7\7" + body[4:], error_code=0)]
    assert pair.broker.link().call(topics(), 7).topics == []


def test_a_client_that_goes_leaves_nothing_behind(pair):
    """Its request is withdrawn."""
    pair.channel.outcomes = [None]
    link = pair.broker.link()
    link.send(topics("t"), 7)
    pair.broker.wait_until(lambda: pair.forwarder.waiting == 1)
    link.close()
    pair.broker.wait_until(lambda: pair.forwarder.waiting == 0)


def test_requests_that_wait_are_bounded_for_an_address(new_pair):
    """The next one is answered with REQUEST_TIMED_OUT at once; one that is too large with INVALID_REQUEST."""
    limits = ForwardingLimits(requests_max=8, request_bytes_max=100_000, frame_bytes_max=100_000, on_the_way_max=2)
    pair = new_pair(limits=limits)
    pair.channel.outcomes = [None] * 4
    waiting = pair.broker.link()
    for n in range(4):
        waiting.send(topics(f"t{n}"), 7)
    pair.broker.wait_until(lambda: pair.forwarder.waiting == 4)
    assert len(pair.channel.asked) == 2
    assert pair.broker.link().call(topics("u"), 7).topics[0].error_code == ErrorCode.REQUEST_TIMED_OUT
    waiting.close()
    pair.broker.wait_until(lambda: pair.forwarder.waiting == 0)
    large = topics(*("x" * 240 + f"{n:05}" for n in range(200)))
    assert pair.broker.link().call(large, 7).topics[0].error_code == ErrorCode.INVALID_REQUEST
    pair.channel.outcomes = []
    assert pair.broker.link().call(topics("v"), 7).topics[0].error_code == 0


def test_a_throttle_time_of_the_controller_mutes_the_client(pair):
    """It is the broker that does not read its connection meanwhile."""
    body = b"\0\0\0\0" + b"\0" + (250).to_bytes(4, "big") + b"\1\0"
    pair.channel.outcomes = [EnvelopeResponse(response_data=body, error_code=0)]
    link = pair.broker.link()
    begun = pair.broker.node.clock.monotonic()
    assert link.call(topics(), 7).throttle_time_ms == 250
    link.call(MetadataRequest(topics=[]), 12)
    assert pair.broker.node.clock.monotonic() - begun >= 0.2


def test_the_client_is_named_to_the_controller(pair):
    """Its principal and its address."""
    link = pair.broker.link()
    link.call(MetadataRequest(topics=[]), 12)

    def rename():
        for connection in pair.broker.node.server.connections:
            connection.principal = "User:alice"

    pair.broker.run(rename)
    seen = []

    async def execute(*_, source, **__):
        seen.append((source.principal, source.host, source.client_id))
        raise KafkaError(ErrorCode.POLICY_VIOLATION)

    pair.controller.control.execute, before = execute, pair.controller.control.execute
    try:
        answer = link.call(topics("t"), 7)
    finally:
        pair.controller.control.execute = before
    assert answer.topics[0].error_code == ErrorCode.POLICY_VIOLATION
    assert seen == [("User:alice", "127.0.0.1", "stratalog")]


@pytest.mark.parametrize("active", [False, True])
def test_the_quorum_is_described_by_its_leader(pair, active):
    """Also one in this process is asked over its own listener."""
    pair.active = active
    request = DescribeQuorumRequest(topics=[])
    answer = pair.broker.link().call(request, 2)
    assert (answer.error_code, answer.topics) == (0, [])
    assert len(pair.channel.asked) == 1


def test_this_node_asks_in_its_own_name(pair):
    """Without an envelope: the controller sees the broker."""
    answer = pair.broker.run(lambda: pair.forwarder.ask(topics("own"), CreateTopicsResponse))
    assert answer.topics[0].error_code == 0
    assert isinstance(pair.channel.asked[0][0], CreateTopicsRequest)
    assert "own" in pair.controller.image.topics.by_name


def test_this_node_asks_for_a_client(pair):
    """In an envelope, in the client's version of the same API."""
    context = SimpleNamespace(
        row=SimpleNamespace(version=5, api=SimpleNamespace(request=CreatePartitionsRequest)),
        connection=SimpleNamespace(principal="User:a", host="127.0.0.1", mute_until=lambda _: None),
        correlation_id=3,
        client_id="c",
    )
    answer = pair.broker.run(lambda: pair.forwarder.ask(topics("hers"), CreateTopicsResponse, context))
    assert answer.topics[0].error_code == 0
    assert pair.channel.asked[0][0].request_data[:4] == b"\0\x13\0\7"


def test_partitions_are_added_through_the_broker(pair):
    """The topic is the controller's."""
    link = pair.broker.link()
    link.call(topics("t"), 7)
    more = CreatePartitionsTopic(name="t", count=4, assignments=None)
    answer = link.call(CreatePartitionsRequest(topics=[more], timeout_ms=1000, validate_only=False), 3)
    assert answer.results[0].error_code == 0
    assert len(pair.controller.image.topics.by_name["t"].partitions) == 4
