"""A controller that is not the active one, and one that is."""

import pytest

from stratalog.broker.quorum.leadership import LeaderAndEpoch
from stratalog.client.link import BrokerLink
from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from stratalog.wire.records.metadata import ConfigRecord
from tests.broker.nodes_of_a_cluster import RunningNodes
from tests.broker.test_joined_cluster import active, started_together


@pytest.fixture
def nodes(tmp_path):
    """Two controllers and a broker."""
    made = RunningNodes(tmp_path, {100: "controller", 101: "controller", 1: "broker"})
    started_together(made)
    yield made
    made.stop()


def test_only_the_active_controller_decides_and_all_follow(nodes):
    """The other one says NOT_CONTROLLER, and has the same image a moment later."""
    request = CreateTopicsRequest(
        topics=[CreatableTopic(name="t", num_partitions=2, replication_factor=1, assignments=[], configs=[])],
        timeout_ms=5000,
    )
    leader = active(nodes)
    codes = {}
    for node_id in (100, 101):
        with BrokerLink("127.0.0.1", nodes.ports[node_id]) as link:
            answer = link.call(request, 7)
        codes[node_id] = answer.topics[0].error_code
    passive = 101 if leader is nodes[100] else 100
    assert codes == {leader.node.node_id: ErrorCode.NONE, passive: ErrorCode.NOT_CONTROLLER}
    nodes[passive].wait_until(lambda: "t" in nodes[passive].node.image.topics.by_name)
    roles = [nodes[one].node.controller for one in (100, 101)]
    for role in roles:
        assert role.cluster_view(role.image).image is role.image
        assert role.topic_rules().default_partition_count == 1
        assert role.random_int(1) == 0
    assert [role.cluster.index.partition_count for role in roles] == [2, 2]


def test_controllers_stand_in_the_image_with_their_addresses(nodes):
    """Each registers with the active one, itself too."""
    leader = active(nodes)
    leader.wait_until(lambda: set(leader.node.image.brokers.controllers) == {100, 101})
    found = leader.node.image.brokers.controllers
    assert {one: found[one].listeners["CONTROLLER"].port for one in found} == nodes.ports


def test_the_last_leader_is_named_until_there_is_another(nodes):
    """Before the first there is none."""
    leader = active(nodes)
    left = nodes[101 if leader is nodes[100] else 100]
    role = left.node.controller
    left.wait_until(lambda: role.last_leader_id == leader.node.node_id)
    left.run(lambda: role._leader_changed(LeaderAndEpoch(epoch=99), is_active=False))
    assert role.last_leader_id == leader.node.node_id


def test_a_controller_decides_by_the_settings_of_its_node_above_those_of_all(nodes):
    """As Kafka's do: a setting of another node says nothing about topics."""
    role = active(nodes).node.controller
    name = "unclean.leader.election.enable"

    def allows(**values):
        records = [
            ConfigRecord(resource_type=4, resource_name=holder.strip("_"), name=name, value=value)
            for holder, value in values.items()
        ]
        return role.cluster_view(role.image.apply(records)).allows_unclean("t")

    own = f"_{role.node_id}"
    assert [allows(), allows(_="true"), allows(**{own: "true"}), allows(_7="true")] == [False, True, True, False]
    assert not allows(**{"_": "true", own: "false"})


def test_a_controller_that_starts_again_gives_out_no_producer_id_of_before(nodes):
    """Its disk may have gone back in time, and those of the whole quorum with it."""
    first = active(nodes).node.image.next_producer_id
    nodes.stop()
    nodes.start()
    assert active(nodes).node.image.next_producer_id > first
