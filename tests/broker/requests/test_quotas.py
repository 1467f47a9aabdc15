"""Quotas at work: throttle times, muted clients, and how much gets through a client that does not listen."""

import math
from types import SimpleNamespace

import pytest

from stratalog.broker.requests.authorizer import Operation
from stratalog.broker.requests.quotas import Quotas
from stratalog.broker.runtime.metrics import Metrics
from stratalog.broker.settings.config import load_config
from stratalog.client.link import BrokerUnavailable
from stratalog.metadata.image.quotas_image import QuotasImage, entity_of, record_of
from stratalog.wire.batch import iter_headers
from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from stratalog.wire.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from stratalog.wire.messages.api_versions import ApiVersionsRequest
from stratalog.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from stratalog.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from stratalog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from stratalog.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ReplicaState
from stratalog.wire.messages.list_offsets import ListOffsetsRequest
from stratalog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from stratalog.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from stratalog.wire.messages.write_txn_markers import WriteTxnMarkersRequest

_MUTED = 8


def limit(broker, key, value, **names):
    """Set a quota through the API, for a client id unless ``names`` say otherwise; None removes it."""
    names = names or {"client-id": "limited"}
    entity = [EntityData(entity_type=kind.replace("_", "-"), entity_name=name) for kind, name in names.items()]
    operation = OpData(key=key, value=value or 0.0, remove=value is None)
    request = AlterClientQuotasRequest(entries=[EntryData(entity=entity, ops=[operation])], validate_only=False)
    (entry,) = broker.client().call(request).entries
    assert (entry.error_code, entry.error_message) == (0, None)


def connection_of(broker, client_id="limited"):
    """The broker's side of a client's only connection."""
    return next(one for one in broker.node.server.connections if one.client_id == client_id)


def produce(batch, acks=1):
    """A request with one batch for partition 0 of t."""
    data = PartitionProduceData(index=0, records=batch)
    topic = TopicProduceData(name="t", partition_data=[data])
    return ProduceRequest(acks=acks, timeout_ms=9999, topic_data=[topic])


def fetch(broker, **options):
    """A fetch of t from its beginning."""
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    topic = FetchTopic(topic="t", topic_id=broker.partition("t").topic_id, partitions=[partition])
    return FetchRequest(max_wait_ms=0, min_bytes=1, topics=[topic], **options)


def batches(answer):
    """How many batches an answer has."""
    return sum(len(list(iter_headers(part.records or b""))) for topic in answer.responses for part in topic.partitions)


@pytest.mark.parametrize("acks", [0, 1, -1])
def test_a_producer_beyond_its_quota_is_not_heard(broker, new_batch, acks):
    """The first request is answered with the time; what was sent behind it stays in the socket, ignored or not."""
    broker.create("t")
    limit(broker, "producer_byte_rate", 1000)
    link = broker.link(client_id="limited")
    batch = new_batch(b"x" * 20_000)
    for _ in range(3):
        link.send(produce(batch, acks), 12)
    if acks:
        answer = link.receive()
        assert 9000 < answer.throttle_time_ms <= 11_000
    broker.wait_until(lambda: broker.partition("t").partition.high_watermark == 1)
    connection = connection_of(broker)
    assert connection.stalled & _MUTED
    assert broker.run(lambda: connection.muted_until - broker.node.clock.monotonic()) > 8
    assert broker.partition("t").log.log_end_offset == 1
    figures = broker.run(broker.node.metrics.render).decode()
    line = next(line for line in figures.splitlines() if line.startswith("kafka_server_produce_byte_rate{"))
    assert 'client_id="limited"' in line
    assert float(line.rsplit(" ", 1)[1]) > 1000
    assert 'stratalog_quota_throttles_total{client_id="limited",quota="producer_byte_rate",user=""} 1.0' in figures


def test_a_muted_client_is_heard_again(broker, new_batch):
    """After the time everything sent meanwhile is handled, in its order."""
    broker.create("t")
    limit(broker, "producer_byte_rate", 400_000)
    link = broker.link(client_id="limited")
    batch = new_batch(b"x" * 500_000)
    for _ in range(9):
        link.send(produce(batch), 12)
    answers = [link.receive() for _ in range(9)]
    assert [one.responses[0].partition_responses[0].base_offset for one in answers] == list(range(9))
    assert answers[0].throttle_time_ms == 0
    assert answers[-1].throttle_time_ms > 0


@pytest.mark.parametrize("bound", [1, 5e-324])
def test_a_wait_that_no_answer_can_hold_becomes_the_longest(broker, new_batch, bound):
    """The batch is in the log: without an answer the producer would send it again."""
    broker.create("t", max_message_bytes=8 << 20)
    image = broker.node.image.quotas.with_record(
        record_of(entity_of({"client-id": "limited"}), "producer_byte_rate", bound)
    )
    broker.run(broker.node.quotas.follow, image)  # the smallest value is not asked for with the API
    link = broker.link(client_id="limited")
    answer = link.call(produce(new_batch(b"x" * (3 << 20))), 12)
    assert (1 << 31) - 60_000 < answer.throttle_time_ms < 1 << 31
    assert answer.responses[0].partition_responses[0].base_offset == 0
    assert connection_of(broker).stalled & _MUTED
    figures = broker.run(broker.node.metrics.render).decode()
    assert not [line for line in figures.splitlines() if line.endswith((" inf", " Inf", " +Inf")) and "limited" in line]


@pytest.mark.parametrize("kind", ["fetch", "mutation"])
def test_no_wait_of_a_client_is_longer_than_an_answer_can_tell(kind):
    """Fetched bytes, and changes of the cluster."""
    key = {"fetch": "consumer_byte_rate", "mutation": "controller_mutation_rate"}[kind]
    quotas, client, until = quotas_of(key, 1e-9)
    if kind == "fetch":
        assert quotas.may_fetch(client, 1 << 20)
        assert not quotas.may_fetch(client, 1 << 20)
    else:
        quotas.permit(client, strict=False)(1000)
    response = FetchResponse(responses=[])
    quotas.mark(client, response)
    assert response.throttle_time_ms == (1 << 31) - 1
    assert max(until) <= 100 + 2147483.647


def quotas_of(key, bound):
    """The quotas of a client with a bound, the client, and until when it was muted; at 100 s of the clock."""
    config = load_config(environment={}, assignments=["node.id=1", "log.dirs=/tmp/none"], host_name="localhost")
    clock = SimpleNamespace(monotonic=lambda: 100.0, wall_ms=lambda: 0)
    until = []
    quotas = Quotas(config, clock, Metrics(), SimpleNamespace(use_quotas=lambda *_: None, limit_anew=lambda: None))
    quotas.follow(QuotasImage().with_record(record_of(entity_of({"client-id": "limited"}), key, bound)))
    client = SimpleNamespace(principal="User:ANONYMOUS", client_id="limited", muted_until=0.0)

    def mute_until(deadline):
        until.append(deadline)
        client.muted_until = max(client.muted_until, deadline)

    client.mute_until = mute_until
    return quotas.of(client), client, until


def test_others_are_not_limited(broker, new_batch):
    """Another client id, and everybody after the quota has gone."""
    broker.create("t")
    limit(broker, "producer_byte_rate", 1)
    free = broker.link(client_id="free")
    assert free.call(produce(new_batch(b"x")), 12).throttle_time_ms == 0
    limit(broker, "producer_byte_rate", None)
    link = broker.link(client_id="limited")
    assert [link.call(produce(new_batch(b"x" * 999)), 12).throttle_time_ms for _ in range(3)] == [0, 0, 0]
    assert connection_of(broker).quota is None


def test_a_quota_holds_for_connections_that_are_there(broker, new_batch):
    """Also for those whose requests took the short way."""
    broker.create("t")
    link = broker.link(client_id="limited")
    for _ in range(3):
        assert link.call(produce(new_batch(b"x")), 9).throttle_time_ms == 0
    assert connection_of(broker).shortcut is not None
    limit(broker, "producer_byte_rate", 1)
    assert connection_of(broker).shortcut is None
    assert link.call(produce(new_batch(b"x")), 9).throttle_time_ms > 1000


def test_all_clients_of_a_user_share_his_quota(broker, new_batch):
    """Names of users do not count: clients are not authenticated here, so each is ANONYMOUS."""
    broker.create("t")
    limit(broker, "producer_byte_rate", 1000, user="ANONYMOUS")
    first, second = (broker.link(client_id=name) for name in ("a", "b"))
    assert first.call(produce(new_batch(b"x" * 9000)), 12).throttle_time_ms == 0
    assert second.call(produce(new_batch(b"x" * 9000)), 12).throttle_time_ms > 7000


@pytest.mark.parametrize("in_session", [False, True])
def test_a_consumer_beyond_its_quota_gets_nothing_for_a_while(broker, new_batch, in_session):
    """An answer may be too much; the next is empty and says for how long, and is not counted."""
    broker.create("t")
    broker.append("t", new_batch(b"x" * 30_000))
    limit(broker, "consumer_byte_rate", 2000)
    link = broker.link(client_id="limited")
    opened = link.call(fetch(broker, session_epoch=0 if in_session else -1), 18)
    assert (batches(opened), opened.session_id > 0) == (1, in_session)
    assert 4000 < opened.throttle_time_ms <= 6000
    connection = connection_of(broker)
    clock = broker.node.clock.monotonic

    def unmute():
        connection.muted_until = clock() - 1
        connection._unstall(_MUTED)

    broker.run(unmute)
    session = {"session_id": opened.session_id, "session_epoch": 1} if in_session else {}
    again = link.call(fetch(broker, **session), 18)
    assert (again.responses, again.error_code, again.session_id) == ([], 0, opened.session_id)
    assert again.throttle_time_ms > 0
    meter = connection.quota.fetch
    assert broker.run(lambda: meter.windows.total(clock())) < 32_000


def test_answers_are_cut_to_what_a_quota_allows_at_once(broker, new_batch):
    """Ten windows' worth; min_bytes cannot ask for more either."""
    broker.create("t")
    for _ in range(5):
        broker.append("t", new_batch(b"x" * 1000))
    limit(broker, "consumer_byte_rate", 250)
    link = broker.link(client_id="limited")
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    topic = FetchTopic(topic="t", topic_id=broker.partition("t").topic_id, partitions=[partition])
    answer = link.call(FetchRequest(max_wait_ms=25_000, min_bytes=1 << 20, topics=[topic]), 18)
    assert (batches(answer), answer.throttle_time_ms) == (2, 0)


def test_the_time_of_requests_is_limited_too(broker):
    """A percentage of one core; no client waits for more than one window."""
    limit(broker, "request_percentage", 0.000001)
    link = broker.link(client_id="limited")
    answer = link.call(MetadataRequest(topics=[]), 12)
    assert 0 < answer.throttle_time_ms <= 1000
    assert connection_of(broker).stalled & _MUTED


NO_PARTITION = {"max_wait_ms": 0, "min_bytes": 0, "isolation_level": 0, "topics": [], "forgotten_topics_data": []}


@pytest.mark.parametrize("may_act", [True, False])
@pytest.mark.parametrize(
    ("request_", "version"),
    [
        (AddPartitionsToTxnRequest(transactions=[]), 4),
        (WriteTxnMarkersRequest(markers=[]), 1),
        (FetchRequest(replica_state=ReplicaState(replica_id=2, replica_epoch=7), **NO_PARTITION), 17),
        (FetchRequest(replica_id=2, **NO_PARTITION), 12),
        (ListOffsetsRequest(replica_id=2, isolation_level=0, topics=[]), 7),
    ],
    ids=["add", "markers", "fetch", "fetch of an older follower", "ends"],
)
def test_requests_of_other_nodes_are_not_limited(broker, request_, version, may_act):
    """As in Kafka, as far as who asks may act as a node; the same client's own requests are."""
    limit(broker, "request_percentage", 0.000001)
    link = broker.link(client_id="limited")
    if not may_act:
        allowed = 1 << Operation.DESCRIBE
        broker.node.dispatcher.authorizer = SimpleNamespace(permitted=lambda *_: allowed, version=1)
    link.call(request_, version)
    assert bool(connection_of(broker).stalled & _MUTED) is not may_act
    heard(broker)
    assert link.call(MetadataRequest(topics=[]), 12).throttle_time_ms > 0


def creation(name, partitions):
    """A request for a new topic."""
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, assignments=[], configs=[])
    return CreateTopicsRequest(topics=[topic], timeout_ms=9999)


def heard(broker):
    """Let a client's connection be read again at once, and forget nothing of what it used."""
    connection = connection_of(broker)

    def unmute():
        connection.muted_until = 0.0
        connection._unstall(_MUTED)

    broker.run(unmute)


def test_changes_beyond_the_quota_are_refused(start_node):
    """One may take the bucket below zero; then each kind of change is refused, topic by topic, until it has filled."""
    broker = start_node(controller_quota_window_num=2)
    broker.create("old", 3)
    limit(broker, "controller_mutation_rate", 0.001)
    link = broker.link(client_id="limited")
    made = link.call(creation("new", 5), 7)
    assert (made.topics[0].error_code, made.throttle_time_ms) == (0, 0)
    more = CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name="old", count=4, assignments=None)], timeout_ms=9999, validate_only=False
    )
    gone = DeleteTopicsRequest(topics=[DeleteTopicState(name="old", topic_id=bytes(16))], timeout_ms=9999)
    for request, version in ((creation("newer", 1), 7), (creation("newer", 1), 6), (more, 3), (gone, 6)):
        answer = link.call(request, version)
        results = answer.results if request is more else answer.responses if request is gone else answer.topics
        assert [one.error_code for one in results] == [ErrorCode.THROTTLING_QUOTA_EXCEEDED]
        assert answer.throttle_time_ms > 1_000_000
        heard(broker)
    assert {topic for topic in broker.node.image.topics.by_name if not topic.startswith("__")} == {"old", "new"}
    assert len(broker.node.image.topics.by_name["old"].partitions) == 3


def test_older_clients_are_throttled_instead(broker):
    """Versions that do not know the error succeed, and are not heard for a while."""
    limit(broker, "controller_mutation_rate", 0.001)
    link = broker.link(client_id="limited")
    made = link.call(creation("new", 5), 5)
    assert made.topics[0].error_code == 0
    assert made.throttle_time_ms > 1_000_000
    heard(broker)
    auto = link.call(MetadataRequest(topics=[MetadataRequestTopic(name="asked-for")]), 9)
    assert auto.throttle_time_ms > 1_000_000
    assert "asked-for" in broker.node.image.topics.by_name


def test_connections_too_many_of_an_address_are_held_and_closed(start_node):
    """They are not heard, then closed; those that were there stay."""
    broker = start_node(quota_window_num=2)
    stay = broker.link(client_id="stay")
    stay.call(ApiVersionsRequest(client_software_name="t", client_software_version="1"), 3)
    limit(broker, "connection_creation_rate", 2, ip="127.0.0.1")
    refused = broker.node.metrics.network.connections_refused
    links = []
    while broker.node.metrics.network.connections_refused == refused:
        links.append(broker.link())
        broker.wait_until(
            lambda: (
                broker.node.metrics.network.connections_accepted + broker.node.metrics.network.connections_refused
                >= len(links)
            )
        )
        assert len(links) < 50
    broker.wait_until(lambda: not broker.node.server._held)
    with pytest.raises(BrokerUnavailable):
        links[-1].call(ApiVersionsRequest(client_software_name="t", client_software_version="1"), 3)
    assert stay.call(ApiVersionsRequest(client_software_name="t", client_software_version="1"), 3).error_code == 0


def test_quotas_outlive_a_restart(broker, new_batch):
    """They are in the metadata log."""
    broker.create("t")
    limit(broker, "producer_byte_rate", 1)
    broker.restart()
    assert broker.link(client_id="limited").call(produce(new_batch(b"x")), 12).throttle_time_ms > 1000


class Client:
    """A client in virtual time that sends as fast as it is heard, whatever the answers say; connections are its own."""

    def __init__(self, quotas, clock, client_id="limited"):
        self.connection = SimpleNamespace(
            principal="User:ANONYMOUS", client_id=client_id, muted_until=0.0, mute_until=self.mute_until
        )
        self.clock, self.delivered = clock, 0
        self.quota = quotas.of(self.connection)

    def mute_until(self, deadline):
        """As a connection does."""
        self.connection.muted_until = max(self.connection.muted_until, deadline)

    def produce(self, size_bytes):
        """One request, as soon as it is heard."""
        self.clock.now = max(self.clock.now, self.connection.muted_until)
        answer = ProduceResponse(responses=[])
        assert self.quota.handle(self.connection, 0, size_bytes, lambda: answer) is answer
        wait_ms = (self.connection.muted_until - self.clock.now) * 1000
        assert answer.throttle_time_ms == max(math.ceil(wait_ms), 0)
        self.delivered += size_bytes

    def fetch(self, size_bytes):
        """One fetch, as soon as it is heard."""
        self.clock.now = max(self.clock.now, self.connection.muted_until)
        if self.quota.may_fetch(self.connection, size_bytes):
            self.delivered += size_bytes
        answer = FetchResponse(responses=[])
        self.quota.mark(self.connection, answer)
        assert (answer.throttle_time_ms > 0) == (self.connection.muted_until > self.clock.now)


@pytest.fixture
def world():
    """Quotas of 100,000 bytes a second for a client id, and a clock that is moved by hand."""
    clock = SimpleNamespace(now=50.0)
    clock.monotonic = lambda: clock.now
    server = SimpleNamespace(use_quotas=lambda quota_of, connection_wait: None, limit_anew=lambda: None)
    config = load_config(assignments=["quota.window.num=11"], environment={}, host_name="localhost")
    quotas = Quotas(config, clock, Metrics(), server)
    image = QuotasImage()
    for key in ("producer_byte_rate", "consumer_byte_rate"):
        image = image.with_record(record_of(entity_of({"client-id": "limited"}), key, 100_000.0))
    quotas.follow(image)
    return SimpleNamespace(quotas=quotas, clock=clock)


@pytest.mark.parametrize("kind", ["produce", "fetch"])
@pytest.mark.parametrize("size_bytes", [1000, 17_000, 400_000, 3_000_000])
@pytest.mark.parametrize("count", [1, 3])
def test_delivered_bytes_of_clients_that_ignore_the_throttle_time(world, kind, size_bytes, count):
    """Over ten minutes they get their quota: no more than that, a burst and a request of each, and hardly less."""
    clients = [Client(world.quotas, world.clock) for _ in range(count)]
    begun, turn = world.clock.now, 0
    while world.clock.now < begun + 600:
        turn += 1
        one = min(clients, key=lambda client: client.connection.muted_until)
        getattr(one, kind)(size_bytes)
        world.clock.now += 0.0005
    delivered = sum(client.delivered for client in clients)
    seconds = world.clock.now - begun
    assert delivered <= 100_000 * (seconds * 1.001 + 10) + count * size_bytes
    assert delivered >= 100_000 * 600 * 0.99 - size_bytes


@pytest.mark.story
def test_memory_for_clients_is_bounded(world):
    """Names that come once are forgotten when nothing is left of what they used."""
    image = QuotasImage().with_record(record_of(entity_of({"client-id": None}), "producer_byte_rate", 1000.0))
    world.quotas.follow(image)
    for number in range(40_000):
        Client(world.quotas, world.clock, f"c{number}").produce(100)
        world.clock.now += 0.1
        assert len(world.quotas._meters._rates) <= 4 * 4096  # a round of looks takes half as many clients
    assert len(world.quotas._clients) <= 4096
