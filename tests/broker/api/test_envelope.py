"""Envelope: requests of clients that a broker forwards, handled as if the clients had sent them here."""

import socket

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stratalog.client.link import BrokerUnavailable
from stratalog.wire.errors import ErrorCode
from stratalog.wire.frame import decode_response_header, encode_request
from stratalog.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from stratalog.wire.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from stratalog.wire.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from stratalog.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from stratalog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from stratalog.wire.messages.envelope import EnvelopeRequest
from stratalog.wire.messages.metadata import MetadataRequest
from stratalog.wire.records.principal import DefaultPrincipalData, encode_principal
from stratalog.wire.schema import decode, encode_bytes

LOCAL = bytes([127, 0, 0, 1])
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
LARGE = 40_000


def frame(request, version, *, correlation_id=77, client_id="c"):
    """A request as a client sends it, without its length."""
    flexible = version >= request.flexible_since
    body = [encode_bytes(request, version)]
    return b"".join(encode_request(request.api_key, version, correlation_id, client_id, body, flexible=flexible))[4:]


def enveloped(data, *, principal="alice", kind="User", address=LOCAL):
    """An envelope around the bytes of a request."""
    data_of = DefaultPrincipalData(type=kind, name=principal, token_authenticated=False)
    return EnvelopeRequest(request_data=data, request_principal=encode_principal(data_of), client_host_address=address)


def opened(answer, response, version):
    """The answer in an envelope: its correlation id and message."""
    assert answer.error_code == 0
    flexible = version >= response.flexible_since
    correlation_id, position = decode_response_header(memoryview(answer.response_data), flexible=flexible)
    return correlation_id, decode(response, version, answer.response_data, position)


def topics(*names, partition_count=1):
    new = [
        CreatableTopic(name=name, num_partitions=partition_count, replication_factor=1, assignments=[], configs=[])
        for name in names
    ]
    return CreateTopicsRequest(topics=new, timeout_ms=1000)


@pytest.mark.parametrize("version", range(2, 8))
def test_a_topic_is_created_by_an_envelope(shared_controller, version):
    """The answer has the client's own correlation id, and is that of the version in which the client asked."""
    answer = shared_controller.link().call(enveloped(frame(topics(f"v{version}"), version, correlation_id=5)), 0)
    correlation_id, created = opened(answer, CreateTopicsResponse, version)
    assert correlation_id == 5
    assert [(each.name, each.error_code) for each in created.topics] == [(f"v{version}", 0)]
    assert f"v{version}" in shared_controller.image.topics.by_name


def test_a_request_without_a_client_id_is_served(shared_controller):
    """Its header has no name."""
    answer = shared_controller.link().call(enveloped(frame(topics("nameless"), 7, client_id=None)), 0)
    assert opened(answer, CreateTopicsResponse, 7)[1].topics[0].error_code == 0


@pytest.fixture
def guarded(start_controller):
    """A controller at which brokers may do everything, and others what the rules say."""
    return start_controller(**{"authorizer.class.name": AUTHORIZER, "super.users": "User:ANONYMOUS"})


def rule(principal, resource_type, name, operation, host="*"):
    return AclCreation(
        resource_type=resource_type,
        resource_name=name,
        principal=principal,
        host=host,
        operation=operation,
        permission_type=3,
    )


def create_as(link, principal, name, address=LOCAL):
    answer = link.call(enveloped(frame(topics(name), 7), principal=principal, address=address), 0)
    return opened(answer, CreateTopicsResponse, 7)[1].topics[0].error_code


def test_the_forwarded_client_is_judged_not_the_broker(guarded):
    """By its principal and its address; the broker alone needs CLUSTER_ACTION."""
    link = guarded.link()
    assert create_as(link, "alice", "t1") == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    allowed = CreateAclsRequest(creations=[rule("User:alice", 2, "t1", 5, host="10.1.2.3")])
    refused = link.call(enveloped(frame(allowed, 3)), 0)
    codes = [each.error_code for each in opened(refused, CreateAclsResponse, 3)[1].results]
    assert codes == [ErrorCode.CLUSTER_AUTHORIZATION_FAILED]
    accepted = link.call(enveloped(frame(allowed, 3), principal="ANONYMOUS"), 0)
    assert [each.error_code for each in opened(accepted, CreateAclsResponse, 3)[1].results] == [0]
    assert [one.principal for one in guarded.image.acls.by_id.values()] == ["User:alice"]
    assert create_as(link, "alice", "t1") == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert create_as(link, "alice", "t1", bytes([10, 1, 2, 3])) == 0
    assert create_as(link, "alice", "t2", bytes([10, 1, 2, 3])) == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert create_as(link, "bob", "t2", bytes([10, 1, 2, 3])) == ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_an_ipv4_address_in_sixteen_bytes_is_an_ipv4_address(guarded):
    """Rules name hosts as text."""
    allowed = CreateAclsRequest(creations=[rule("User:alice", 2, "t1", 5, host="10.1.2.3")])
    guarded.link().call(enveloped(frame(allowed, 3), principal="ANONYMOUS"), 0)
    mapped = bytes(10) + b"\xff\xff" + bytes([10, 1, 2, 3])
    assert create_as(guarded.link(), "alice", "t1", mapped) == 0


def test_a_stranger_may_not_send_envelopes(start_controller):
    """To speak for others takes CLUSTER_ACTION: an envelope could name any principal."""
    controller = start_controller(**{"authorizer.class.name": AUTHORIZER, "super.users": "User:root"})
    answer = controller.link().call(enveloped(frame(topics("t"), 7), principal="root"), 0)
    assert (answer.error_code, answer.response_data) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None)
    assert "t" not in controller.image.topics.by_name


def test_quotas_of_the_forwarded_client_hold_at_the_controller(start_controller):
    """CreateTopics beyond controller_mutation_rate is refused to it, and not to others; the carrier is not muted."""
    controller = start_controller()
    link = controller.link()
    entry = EntryData(
        entity=[EntityData(entity_type="user", entity_name="alice")],
        ops=[OpData(key="controller_mutation_rate", value=0.1, remove=False)],
    )
    request = AlterClientQuotasRequest(entries=[entry], validate_only=False)
    assert link.call(enveloped(frame(request, 1)), 0).error_code == 0
    controller.running.run(controller.listener.follow, controller.image, controller.config)

    def create(principal, name):
        answer = link.call(enveloped(frame(topics(name, partition_count=5), 7), principal=principal), 0)
        created = opened(answer, CreateTopicsResponse, 7)[1]
        return created.topics[0].error_code, created.throttle_time_ms

    assert create("alice", "a1")[0] == 0
    code, throttle_ms = create("alice", "a2")
    assert code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert throttle_ms > 0
    assert create("bob", "b1") == (0, 0)


def test_a_large_request_and_its_large_answer(shared_controller):
    """An answer that is made in slices comes whole."""
    wanted = [DeleteTopicState(name=f"none-{n:05}") for n in range(LARGE)]
    request = DeleteTopicsRequest(topics=wanted, topic_names=[], timeout_ms=1000)
    answer = shared_controller.link().call(enveloped(frame(request, 6)), 0)
    results = opened(answer, DeleteTopicsResponse, 6)[1].responses
    assert [each.name for each in results] == [each.name for each in wanted]
    assert {each.error_code for each in results} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def test_envelopes_that_follow_each_other_are_answered_in_order(shared_controller):
    """One connection carries requests of many clients."""
    link = shared_controller.link()
    for n in range(20):
        link.send(enveloped(frame(topics(f"row{n}"), 7, correlation_id=n), principal=f"p{n % 3}"), 0)
    answers = [opened(link.receive(), CreateTopicsResponse, 7) for _ in range(20)]
    assert [number for number, _ in answers] == list(range(20))
    assert [answer.topics[0].name for _, answer in answers] == [f"row{n}" for n in range(20)]


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (frame(MetadataRequest(topics=None), 12), ErrorCode.INVALID_REQUEST),
        (frame(enveloped(frame(topics("x"), 7)), 0), ErrorCode.INVALID_REQUEST),
        (b"\x03\xe7" + frame(topics("x"), 7)[2:], ErrorCode.UNSUPPORTED_VERSION),
        (frame(topics("x"), 7)[:2] + b"\0\x63" + frame(topics("x"), 7)[4:], ErrorCode.UNSUPPORTED_VERSION),
        (frame(topics("x"), 7)[:-9], ErrorCode.UNSUPPORTED_VERSION),
        (frame(topics("x"), 7)[:9], ErrorCode.UNSUPPORTED_VERSION),
        (b"", ErrorCode.UNSUPPORTED_VERSION),
        (frame(AlterUserScramCredentialsRequest(deletions=[], upsertions=[]), 0)[:-1], ErrorCode.UNSUPPORTED_VERSION),
    ],
    ids=["metadata", "nested", "unknown key", "unknown version", "cut off", "no header", "nothing", "one byte short"],
)
def test_a_request_that_has_no_place_in_an_envelope_is_refused(shared_controller, data, code):
    """The error is the envelope's; the connection of the broker goes on."""
    link = shared_controller.link()
    answer = link.call(enveloped(data), 0)
    assert (answer.error_code, answer.response_data) == (code, None)
    assert link.call(enveloped(frame(topics("x"), 7)), 0).error_code == 0


@pytest.mark.parametrize("principal", [None, b"", b"\0", b"\0\x09", b"\0\0\x02", b"\0\0\xff\xff\xff\xff\xff\x0f"])
def test_a_principal_that_cannot_be_read_is_refused(shared_controller, principal):
    """PRINCIPAL_DESERIALIZATION_FAILURE: the brokers of this cluster speak of principals otherwise."""
    request = EnvelopeRequest(
        request_data=frame(topics("x"), 7), request_principal=principal, client_host_address=LOCAL
    )
    answer = shared_controller.link().call(request, 0)
    assert answer.error_code == ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE


@pytest.mark.parametrize("address", [b"", b"\x7f", bytes(5), bytes(17)])
def test_an_address_that_is_none_is_refused(shared_controller, address):
    """INVALID_REQUEST: rules about hosts could not be judged."""
    answer = shared_controller.link().call(enveloped(frame(topics("x"), 7), address=address), 0)
    assert answer.error_code == ErrorCode.INVALID_REQUEST


@settings(deadline=None)  # a request takes as long as the machine lets it
@given(data=st.binary(max_size=300), cut=st.integers(0, 80), position=st.integers(0, 60), value=st.integers(0, 255))
def test_hostile_envelopes_end_in_an_answer(shared_controller, data, cut, position, value):
    """Any bytes, and requests with a byte changed, get an error of the envelope or an answer; nothing breaks."""
    good = bytearray(frame(topics("fuzz"), 7))
    good[position % len(good)] = value
    link = shared_controller.link()
    try:
        for inside in (data, bytes(good), bytes(good[:cut])):
            answer = link.call(enveloped(inside), 0)
            assert (answer.response_data is None) == (answer.error_code != 0)
            assert answer.error_code in {0, ErrorCode.UNSUPPORTED_VERSION, ErrorCode.INVALID_REQUEST}
    finally:
        link.close()


def test_a_controller_that_is_not_active_says_so(shared_controller):
    """NOT_CONTROLLER is the envelope's error: the broker looks for another one."""
    shared_controller.quorum.is_active = False
    try:
        answer = shared_controller.link().call(enveloped(frame(topics("late"), 7)), 0)
    finally:
        shared_controller.quorum.is_active = True
    assert (answer.error_code, answer.response_data) == (ErrorCode.NOT_CONTROLLER, None)


def test_a_controller_that_ceases_to_be_active_says_so(shared_controller, monkeypatch):
    """Also where the request has been begun: the answer inside would be NOT_CONTROLLER."""
    from stratalog.wire.errors import KafkaError

    async def execute(*_, **__):
        raise KafkaError(ErrorCode.NOT_CONTROLLER)

    monkeypatch.setattr(shared_controller.control, "execute", execute)
    for request, version in ((topics("late"), 7), (DeleteTopicsRequest(topic_names=["t"], timeout_ms=1), 5)):
        answer = shared_controller.link().call(enveloped(frame(request, version)), 0)
        assert (answer.error_code, answer.response_data) == (ErrorCode.NOT_CONTROLLER, None)


def test_work_ends_with_the_connection_that_carries_it(shared_controller, monkeypatch):
    """A broker that is gone waits for no answer: a command that has had no turn is withdrawn."""
    import asyncio

    begun, ended = [], []

    async def execute(*_, **__):
        begun.append(True)
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            ended.append(True)
            raise

    monkeypatch.setattr(shared_controller.control, "execute", execute)
    link = shared_controller.link()
    link.send(enveloped(frame(topics("gone"), 7)), 0)
    shared_controller.running.wait_until(lambda: begun)
    link.close()
    shared_controller.running.wait_until(lambda: ended)


def test_settings_of_any_registered_broker_are_taken_in_an_envelope(shared_controller):
    """The broker that was asked has refused the names of others; the controller knows which there are."""
    from stratalog.wire.messages.incremental_alter_configs import (
        AlterableConfig,
        AlterConfigsResource,
        IncrementalAlterConfigsRequest,
        IncrementalAlterConfigsResponse,
    )

    def alter(name):
        config = AlterableConfig(name="log.cleaner.threads", config_operation=0, value="2")
        resource = AlterConfigsResource(resource_type=4, resource_name=name, configs=[config])
        request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=True)
        answer = shared_controller.link().call(enveloped(frame(request, 1)), 0)
        return opened(answer, IncrementalAlterConfigsResponse, 1)[1].responses[0].error_code

    assert alter(str(shared_controller.node_id)) == 0
    assert alter("4711") == ErrorCode.BROKER_ID_NOT_REGISTERED
    assert alter("x") == ErrorCode.INVALID_REQUEST


def test_an_envelope_on_the_listener_of_clients_closes_the_connection(shared_controller):
    """Clients do not speak for others."""
    with pytest.raises(BrokerUnavailable):
        shared_controller.running.link().call(enveloped(frame(topics("x"), 7)), 0)


def test_an_envelope_that_is_cut_off_costs_the_connection_alone(shared_controller):
    """The envelope itself cannot be decoded."""
    with socket.create_connection(("127.0.0.1", shared_controller.port), timeout=30) as raw:
        whole = encode_request(58, 0, 1, "b", [b"\xff\xff\xff\xff\x0f"], flexible=True)
        raw.sendall(b"".join(whole))
        assert raw.recv(10) == b""
    assert shared_controller.link().call(enveloped(frame(topics("y"), 7)), 0).error_code == 0
