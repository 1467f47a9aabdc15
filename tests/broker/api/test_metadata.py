"""Metadata: brokers, topics, ids, leaders, and creation on the way."""

import errno

import pytest

from stratalog.broker.api import metadata
from stratalog.client.admin import delete_topics
from stratalog.client.client import BrokerUnavailable
from stratalog.metadata.controller.controller import NewTopic, create_topics
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.describe_cluster import DescribeClusterRequest
from stratalog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from stratalog.wire.topic import ZERO_UUID


def named(*names, create=False, **options):
    """Ask for topics by name."""
    topics = [MetadataRequestTopic(name=name) for name in names]
    return MetadataRequest(topics=topics, allow_auto_topic_creation=create, **options)


@pytest.mark.parametrize("version", range(14))
def test_a_topic_and_its_leaders_in_every_version(broker, version):
    """The broker at the address that was bound, the topic with its id, the partitions with their only replica."""
    topic_id = broker.create("t", 3).topic_id
    answer = broker.link().call(named("t"), version)
    (node,) = answer.brokers
    assert (node.node_id, node.host, node.port) == (broker.node.node_id, "127.0.0.1", broker.port)
    assert answer.controller_id == (node.node_id if version >= 1 else -1)
    assert answer.cluster_id == (broker.node.cluster_id if version >= 2 else None)
    (topic,) = answer.topics
    assert (topic.error_code, topic.name) == (0, "t")
    assert topic.topic_id == (topic_id if version >= 10 else ZERO_UUID)
    assert sorted(one.partition_index for one in topic.partitions) == [0, 1, 2]
    for one in topic.partitions:
        me = node.node_id
        assert (one.error_code, one.leader_id, one.replica_nodes, one.isr_nodes) == (0, me, [me], [me])
        assert one.leader_epoch == (0 if version >= 7 else -1)
        assert one.offline_replicas == []


@pytest.mark.parametrize(("version", "topics"), [(0, []), (1, None), (13, None)])
def test_everything_is_asked_for_by_an_empty_list_at_first_and_by_null_later(broker, version, topics):
    """Version 0 cannot say null."""
    for name in ("a", "b"):
        broker.create(name)
    answer = broker.link().call(MetadataRequest(topics=topics), version)
    assert sorted(topic.name for topic in answer.topics) == ["a", "b"]


@pytest.mark.parametrize("version", [1, 13])
def test_an_empty_list_asks_for_no_topic(broker, version):
    """The answer holds the brokers alone."""
    broker.create("a")
    answer = broker.link().call(MetadataRequest(topics=[]), version)
    assert (answer.topics, len(answer.brokers)) == ([], 1)


def test_topics_beside_a_view_are_as_they_are_when_it_is_open(broker, monkeypatch):
    """The bucket may take its time; leaders are named by the image of the answer, not by that of before."""
    name, views, node = "t@2020-01-01T00:00:00Z", broker.node.views, broker.node

    async def open_late(_name):
        wanted, made = [NewTopic("u", 1, 1)], {"new_topic_id": node.new_topic_id, "next_int": node.random_int}
        await node.control.execute(lambda image: create_topics(image, wanted, node.topic_rules(), **made))
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    monkeypatch.setattr(views, "open", open_late)
    monkeypatch.setattr(views, "to_open", lambda asked: asked == name)
    answer = broker.link().call(named(name, "u"), 12)
    expected = {name: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "u": ErrorCode.NONE}
    assert {topic.name: topic.error_code for topic in answer.topics} == expected


def test_a_topic_is_found_by_its_id(broker):
    """From version 12 on; an unknown id is UNKNOWN_TOPIC_ID and stays in the answer."""
    topic_id = broker.create("t").topic_id
    wanted = [MetadataRequestTopic(topic_id=one, name=None) for one in (topic_id, b"y" * 16)]
    known, unknown = broker.link().call(MetadataRequest(topics=wanted), 12).topics
    assert (known.error_code, known.name, known.topic_id) == (0, "t", topic_id)
    assert (unknown.error_code, unknown.topic_id) == (ErrorCode.UNKNOWN_TOPIC_ID, b"y" * 16)


@pytest.mark.parametrize("version", [10, 11])
@pytest.mark.parametrize("name", [None, "t"])
def test_ids_are_refused_where_kafka_does_not_serve_them(broker, version, name):
    """Versions 10 and 11 carry them, and answer INVALID_REQUEST; the connection goes on."""
    topic_id = broker.create("t").topic_id
    link = broker.link()
    (topic,) = link.call(MetadataRequest(topics=[MetadataRequestTopic(topic_id=topic_id, name=name)]), version).topics
    assert (topic.error_code, topic.name, topic.topic_id) == (ErrorCode.INVALID_REQUEST, name or "", topic_id)
    assert link.call(named("t"), version).topics[0].error_code == 0


@pytest.mark.parametrize("version", [0, 3, 4, 13])
def test_a_missing_topic_is_created_on_demand(broker, version):
    """With the broker's defaults, writable as soon as the answer is there."""
    (topic,) = broker.link().call(named("fresh", create=True), version).topics
    assert (topic.error_code, len(topic.partitions)) == (0, 1)
    assert broker.produce("fresh", b"v") == [0]


def test_no_topic_is_created_if_the_client_or_the_broker_forbids_it(start_node):
    """The client's flag from version 4 on, and auto.create.topics.enable."""
    allowed, forbidden = start_node(directory="a"), start_node(directory="b", auto_create_topics_enable=False)
    for node, create in ((allowed, False), (forbidden, True)):
        (topic,) = node.link().call(named("fresh", create=create), 13).topics
        assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert node.node.image.topics.by_name == {}


def test_a_name_that_no_topic_can_have_is_refused(broker):
    """INVALID_TOPIC_EXCEPTION, whether or not it may be created."""
    for create in (True, False):
        (topic,) = broker.link().call(named("a/b", create=create), 13).topics
        assert topic.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize(
    ("name", "prefix"), [("__consumer_offsets", "offsets_topic"), ("__transaction_state", "transaction_state_log")]
)
def test_a_coordinators_topic_that_is_asked_for_is_made_as_its_own_settings_say(start_node, name, prefix):
    """Compacted, with its own number of partitions: made like any other it would lose offsets by retention."""
    node = start_node(**{f"{prefix}_num_partitions": 7})
    (topic,) = node.link().call(named(name, create=True), 13).topics
    assert (topic.error_code, len(topic.partitions), topic.is_internal) == (0, 7, True)
    assert node.node.image.topic_configs(name)["cleanup.policy"] == "compact"


def test_a_topic_made_again_has_another_id(broker):
    """Clients that remember the old one get UNKNOWN_TOPIC_ID."""
    first = broker.create("t").topic_id
    delete_topics(broker.client(), ["t"])
    second = broker.create("t").topic_id
    assert first != second
    old = MetadataRequest(topics=[MetadataRequestTopic(topic_id=first, name=None)])
    assert broker.link().call(old, 13).topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_internal_topics_are_marked(broker):
    """Clients hide them from their users."""
    broker.create("__consumer_offsets")
    broker.create("plain")
    answer = broker.link().call(named("__consumer_offsets", "plain"), 13)
    assert [topic.is_internal for topic in answer.topics] == [True, False]


def test_an_internal_topic_is_marked_before_it_exists(broker):
    """As in Kafka."""
    (topic,) = broker.link().call(named("__transaction_state"), 13).topics
    assert (topic.error_code, topic.is_internal) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, True)


@pytest.mark.parametrize("version", [8, 9, 10])
def test_operations_on_the_cluster_are_listed_when_asked_for(broker, version):
    """In the versions in which Metadata has them: how older admin clients describe the cluster."""
    answer = broker.link().call(MetadataRequest(topics=[], include_cluster_authorized_operations=True), version)
    cluster = broker.link().call(DescribeClusterRequest(include_cluster_authorized_operations=True), 0)
    assert answer.cluster_authorized_operations == cluster.cluster_authorized_operations > 0
    assert broker.link().call(MetadataRequest(topics=[]), version).cluster_authorized_operations == -(1 << 31)


def test_operations_are_listed_when_asked_for(broker):
    """From version 8 on, as a bit set; without the question it is the smallest number."""
    broker.create("t")
    asked = named("t", include_topic_authorized_operations=True)
    assert broker.link().call(asked, 9).topics[0].topic_authorized_operations > 0
    assert broker.link().call(named("t"), 9).topics[0].topic_authorized_operations == -(1 << 31)


def test_the_leader_epoch_rises_with_every_start(broker):
    """As after any other election, so that old clients and old leaders can be recognised."""
    broker.create("t")
    epochs = []
    for _ in range(3):
        epochs.append(broker.link().call(named("t"), 13).topics[0].partitions[0].leader_epoch)
        broker.restart()
    assert epochs == sorted(set(epochs))


def test_so_many_topics_are_created_for_one_request(broker, monkeypatch):
    """The others are unknown, which clients ask for again, until all are there."""
    monkeypatch.setattr(metadata, "_CREATED_MAX", 3)
    names = [f"t{number}" for number in range(8)]
    link, unknown = broker.link(), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    for there in (3, 6, 8):
        topics = link.call(named(*names, create=True), 13).topics
        assert [topic.name for topic in topics] == names
        assert [topic.error_code for topic in topics] == [0] * there + [unknown] * (8 - there)


def test_a_name_asked_for_twice_is_created_once(broker):
    """And told once, as in Kafka."""
    (topic,) = broker.link().call(named("twin", "twin", create=True), 13).topics
    assert (topic.error_code, topic.name) == (0, "twin")


def test_a_topic_that_cannot_be_encoded_is_left_out(start_node, watched_files):
    """The others of the same request are."""
    node = start_node(files=watched_files)
    node.create("there")
    watched_files.fail("write", "__cluster_metadata", errno.ENOSPC)
    there, fresh = node.link().call(named("there", "fresh", create=True), 13).topics
    watched_files.faults.clear()
    assert (there.error_code, fresh.error_code) == (0, ErrorCode.KAFKA_STORAGE_ERROR)


@pytest.mark.parametrize("version", [0, 9, 10, 13])
def test_an_unexpected_failure_is_answered_for_every_topic(broker, monkeypatch, version):
    """UNKNOWN_SERVER_ERROR for each topic asked for, and for the whole since version 13; the connection goes on."""
    broker.create("t")
    link = broker.link()
    with monkeypatch.context() as patch:
        patch.setattr(metadata._Answer, "build", lambda self, failed: 1 / 0)
        answer = link.call(named("t", "u"), version)
    assert [(one.name, one.error_code) for one in answer.topics] == [
        (name, ErrorCode.UNKNOWN_SERVER_ERROR) for name in ("t", "u")
    ]
    assert answer.error_code == (ErrorCode.UNKNOWN_SERVER_ERROR if version >= 13 else 0)
    assert link.call(named("t"), version).topics[0].error_code == 0


@pytest.mark.parametrize("version", [0, 12, 13])
def test_no_cluster_looks_empty_because_something_failed(broker, monkeypatch, version):
    """A request for everything has no place for the error before version 13: the connection is closed."""
    monkeypatch.setattr(metadata._Answer, "build", lambda self, failed: 1 / 0)
    link = broker.link()
    everything = MetadataRequest(topics=None if version else [])
    if version >= 13:
        assert link.call(everything, version).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        return
    with pytest.raises(BrokerUnavailable):
        link.call(everything, version)


def test_an_answer_that_was_kept_is_still_true(start_node, watched_files):
    """After topics came and went, and after their log directory has failed."""
    node = start_node(files=watched_files, start=False)
    node.settings |= {"log.dirs": f"{node.directory}/one", "metadata.log.dir": f"{node.directory}/meta"}
    node.start()
    node.create("a")
    node.create("b", 2)
    link = node.link()

    def told(version=12, topics=None):
        answer = link.call(MetadataRequest(topics=topics, allow_auto_topic_creation=False), version)
        return {
            topic.name: [(one.partition_index, one.leader_id, ErrorCode(one.error_code)) for one in topic.partitions]
            for topic in answer.topics
        }

    well = ErrorCode.NONE
    for _ in range(2):
        assert told() == told(1) == {"a": [(0, 1, well)], "b": [(0, 1, well), (1, 1, well)]}
    delete_topics(node.client(), ["b"])
    node.create("c")
    assert told() == {"a": [(0, 1, well)], "c": [(0, 1, well)]}
    watched_files.fail("write", "/a-0/")
    with pytest.raises(KafkaError):
        node.produce("a", b"x")
    ill = ErrorCode.LEADER_NOT_AVAILABLE
    assert told() == told(1) == {"a": [(0, -1, ill)], "c": [(0, -1, ill)]}
    assert told(topics=[MetadataRequestTopic(name="a")]) == {"a": [(0, -1, ill)]}
