"""A broker's registration, seen from a broker that has lost it."""

import asyncio
from collections import Counter

import pytest

from stratalog.client.admin import create_topic
from stratalog.client.link import BrokerLink
from stratalog.hot.storage.checkpoint import take_clean_shutdown
from stratalog.hot.storage.filesystem import RealFilesystem
from stratalog.hot.storage.registration_mark import read_registration
from stratalog.wire.messages.broker_registration import BrokerRegistrationRequest
from stratalog.wire.messages.unregister_broker import UnregisterBrokerRequest
from tests.broker.nodes_of_a_cluster import RunningNodes


@pytest.fixture
def nodes(tmp_path):
    """One controller, one broker."""
    made = RunningNodes(tmp_path, {100: "controller", 1: "broker"}).start()
    yield made
    made.stop()


def test_a_broker_that_was_unregistered_registers_anew_and_leads_again(nodes):
    """Under a new epoch and a new incarnation; its records are there."""
    broker = nodes[1]
    broker.create("t")
    broker.wait_until(lambda: "t" in broker.node.image.topics.by_name)
    broker.produce("t", b"kept")
    before = broker.node.image.brokers.brokers[1]
    leader_epoch = broker.partition("t").partition.leader_epoch
    with BrokerLink("127.0.0.1", nodes.ports[100]) as link:
        answer = link.call(UnregisterBrokerRequest(broker_id=1), 0)
    assert answer.error_code == 0

    def back():
        mine = broker.node.image.brokers.brokers.get(1)
        return mine is not None and mine.epoch > before.epoch and not mine.is_fenced

    broker.wait_until(back)
    broker.wait_until(lambda: broker.partition("t").partition.leader_epoch > leader_epoch)
    assert broker.node.image.brokers.brokers[1].incarnation_id != before.incarnation_id
    assert broker.values("t") == [b"kept"]


def test_an_idle_copy_counts_again_after_its_broker_has_registered_anew(tmp_path, new_batch):
    """The image that ends its memberships may come before the answer to its registration, and the copy gets its role then.

    Where acks=all is refused nothing is appended, so no append would ever make the leader look at the copy.
    """
    roles = {100: "controller", 1: "broker", 2: "broker"}
    nodes = RunningNodes(tmp_path, roles, **{"replica.lag.time.max.ms": "1000"}).start()
    try:
        one, two = nodes[1], nodes[2]
        create_topic(one.client(), "t", partition_count=4, replication_factor=2, configs={"min.insync.replicas": "2"})

        def are_in_sync(beyond=-1):
            image = one.node.image
            topic = image.topics.by_name.get("t")
            is_anew = image.brokers.brokers[2].epoch > beyond
            return (
                is_anew and topic is not None and all(len(it.in_sync_replicas) == 2 for it in topic.partitions.values())
            )

        one.wait_until(are_in_sync)
        lifecycle = two.node.cluster.membership.lifecycle
        answered, before = lifecycle._answered, lifecycle.broker_epoch

        def late(number, kind, asked):
            if kind is BrokerRegistrationRequest:
                asyncio.get_running_loop().call_later(0.3, answered, number, kind, asked)
            else:
                answered(number, kind, asked)

        lifecycle._answered = late
        two.run(lifecycle.data_lost)
        one.wait_until(lambda: are_in_sync(before))
        states = one.node.image.topics.by_name["t"].partitions
        number = next(number for number, state in states.items() if state.leader == 1)
        assert one.append("t", new_batch(b"v", timestamp_ms=one.node.clock.wall_ms()), partition=number).error_code == 0
    finally:
        nodes.stop()


@pytest.mark.parametrize("is_orderly", [True, False])
def test_lost_data_is_not_forgotten_where_the_controller_is_away(nodes, is_orderly):
    """The next start is a clean one only if the controller has heard of the loss, however this process ends."""
    broker = nodes[1]
    broker.create("t")
    broker.wait_until(lambda: "t" in broker.node.image.topics.by_name)
    before = broker.node.cluster.membership.lifecycle.broker_epoch
    path, files = broker.node.directories.all[0].path, RealFilesystem()
    assert read_registration(files, path) == before
    nodes[100].stop()
    broker.run(broker.node.data_lost)
    if is_orderly:
        broker.stop()
    assert read_registration(files, path) == -1
    left = take_clean_shutdown(files, path)
    assert left == (-1 if is_orderly else None)


def test_a_broker_is_in_contact_while_its_controller_answers(nodes):
    """Its session can be over once the controller has been silent for long enough."""
    broker = nodes[1]
    lifecycle = broker.node.cluster.membership.lifecycle
    assert broker.run(lambda: lifecycle.in_contact)
    nodes[100].stop()
    broker.wait_until(lambda: not lifecycle.in_contact)


def test_the_controller_learns_in_which_of_several_directories_a_replica_lies(tmp_path):
    """Only then a directory that fails takes the leadership of its partitions with it."""
    two = f"{tmp_path}/one,{tmp_path}/two"
    nodes = RunningNodes(tmp_path, {100: "controller", 1: "broker"})
    nodes[1].settings["log.dirs"] = two
    nodes.format(1)
    try:
        nodes.start()
        broker = nodes[1]
        create_topic(broker.client(), "t", partition_count=4)
        broker.wait_until(lambda: "t" in broker.node.image.topics.by_name)

        def named():
            topic = broker.node.image.topics.by_name["t"]
            return {number: state.directory_of(1) for number, state in topic.partitions.items()}

        ids = {one.path: one.directory_id for one in broker.node.directories.all}
        broker.wait_until(lambda: Counter(named().values()) == dict.fromkeys(ids.values(), 2))
        for number, directory in named().items():
            assert ids[broker.partition("t", number).partition.directory.path] == directory
        assert broker.node.cluster.placements.waiting == 0
    finally:
        nodes.stop()


def test_brokers_join_a_node_whose_settings_name_only_itself(tmp_path):
    """It is formatted as the only voter and has a controller's listener, as Kafka's documentation begins.

    Started again, its controller waits for no session of the broker of before, which was in this process's place.
    """
    nodes = RunningNodes(tmp_path, {1: "broker,controller", 2: "broker"}, **{"broker.session.timeout.ms": "60000"})
    first = nodes[1]
    try:
        nodes.start()
        first.wait_until(lambda: {one.is_fenced for one in first.node.image.brokers.brokers.values()} == {False})
        assert set(first.node.image.brokers.brokers) == {1, 2}
        create_topic(nodes[2].client(), "t", partition_count=2)
        first.wait_until(lambda: "t" in first.node.image.topics.by_name)
        states = first.node.image.topics.by_name["t"].partitions.values()
        assert {state.leader for state in states} == {1, 2}
        first.run(first.node.cluster.membership.close)  # it ends without a farewell
        before = first.node.image.brokers.brokers[1].epoch
        first.stop()
        first.start(20)
        assert first.node.image.brokers.brokers[1].epoch > before
    finally:
        nodes.stop()
