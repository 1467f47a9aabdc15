"""From static voters to voters that change, by UpdateFeatures, on running nodes."""

import time

import pytest
from kafka.admin import KafkaAdminClient

from stratalog.broker.replicas.directory_format import format_node, identity_of
from stratalog.client.admin import create_topic
from stratalog.hot.storage.filesystem import RealFilesystem
from stratalog.metadata.formatting.node_format import FormatOptions
from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.api_versions import ApiVersionsRequest
from stratalog.wire.messages.describe_quorum import DescribeQuorumRequest, RequestedPartition, RequestedTopic
from stratalog.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.broker.nodes_of_a_cluster import CLUSTER_ID, RunningNodes

pytestmark = pytest.mark.story

CONTROLLERS = (101, 102, 103)


class StaticNodes(RunningNodes):
    """Nodes whose settings name the voters, by id alone."""

    def _settings(self, node_id, role, more):
        found = super()._settings(node_id, role, more)
        del found["controller.quorum.bootstrap.servers"]
        voters = ",".join(f"{one}@127.0.0.1:{port}" for one, port in self.ports.items())
        return {**found, "controller.quorum.voters": voters}

    def format(self, node_id):
        """Without voters: the settings name them."""
        config = self.members[node_id].config()
        format_node(identity_of(config), FormatOptions(cluster_id=CLUSTER_ID), files=RealFilesystem(), now_ms=1)


@pytest.fixture
def nodes(tmp_path):
    """Two brokers and three controllers; the third does not run."""
    made = StaticNodes(tmp_path, {1: "broker", 2: "broker", **dict.fromkeys(CONTROLLERS, "controller")})
    yield made.start(101, 102, 1, 2)
    made.stop()


def update(member, level, *, kind=1, validate_only=False, **others):
    wanted = {"kraft.version": level, **{name.replace("_", "."): value for name, value in others.items()}}
    keys = [
        FeatureUpdateKey(feature=name, max_version_level=value, upgrade_type=kind) for name, value in wanted.items()
    ]
    request = UpdateFeaturesRequest(feature_updates=keys, validate_only=validate_only)
    answer = member.link().call(request, 2)
    return ErrorCode(answer.error_code), answer.error_message


def finalized(member):
    answer = member.link().call(ApiVersionsRequest(client_software_name="c", client_software_version="1"), 4)
    supported = {one.name: (one.min_version, one.max_version) for one in answer.supported_features}
    assert supported["kraft.version"] == (0, 1)
    return {one.name: one.max_version_level for one in answer.finalized_features}


def voters(member):
    request = DescribeQuorumRequest(
        topics=[RequestedTopic(topic_name="__cluster_metadata", partitions=[RequestedPartition(partition_index=0)])]
    )
    (partition,) = member.link().call(request, 2).topics[0].partitions
    return {one.replica_id: one.replica_directory_id for one in partition.current_voters}


def until_voters_have_told(member, *, but=None):
    """Wait until the leader knows the directories of all voters, or of all but one, which a refusal then names."""
    end = time.monotonic() + 30
    while (found := update(member, 1, validate_only=True))[0] is not ErrorCode.NONE:
        if but is not None and f"voters [{but}]" in found[1]:
            return
        assert time.monotonic() < end, found
        time.sleep(0.05)
    assert but is None, f"{but} has told its directory, too"


def test_a_static_quorum_becomes_one_whose_voters_change(nodes):
    """Each running voter has to have told its directory; then level and voters are written, and stay over a restart."""
    broker = nodes[1]
    assert "kraft.version" not in finalized(broker)
    assert set(voters(broker).values()) == {bytes(16)}
    until_voters_have_told(broker, but=103)
    assert update(broker, 1)[0] is ErrorCode.INVALID_UPDATE_VERSION
    assert update(broker, 2)[0] is ErrorCode.INVALID_UPDATE_VERSION
    nodes[103].start()
    until_voters_have_told(broker)
    assert "kraft.version" not in finalized(broker)
    code, message = update(broker, 1, metadata_version=99)
    assert (code, "metadata.version" in message) == (ErrorCode.INVALID_UPDATE_VERSION, True)
    assert "kraft.version" not in finalized(broker)
    assert update(nodes[2], 1) == (ErrorCode.NONE, None)
    for member in nodes.members.values():
        member.wait_until(lambda member=member: member.node.quorum.kraft_version == 1)
        assert finalized(member)["kraft.version"] == 1
    directories = {one: nodes[one].node.quorum.directory_id for one in CONTROLLERS}
    assert voters(broker) == directories
    assert update(broker, 1) == (ErrorCode.NONE, None)
    code, message = update(broker, 0, kind=2)
    assert (code, "downgrade" in message) == (ErrorCode.INVALID_UPDATE_VERSION, True)
    for one in CONTROLLERS:
        nodes[one].restart()
    create_topic(broker.client(), "after", partition_count=1)
    assert finalized(broker)["kraft.version"] == 1
    end = time.monotonic() + 30
    while (found := voters(broker)) != directories:  # while another leader is elected there is none to be asked
        assert time.monotonic() < end, found
        time.sleep(0.05)


def test_kafka_python_upgrades_it(nodes):
    """A foreign client's UpdateFeatures and its list of finalized features."""
    nodes[103].start()
    until_voters_have_told(nodes[1])
    client = KafkaAdminClient(bootstrap_servers=nodes[1].address)
    client.update_features({"kraft.version": 1})
    nodes[1].wait_until(lambda: nodes[1].node.quorum.kraft_version == 1)
    assert "kraft.version" in str(client.describe_features())
    client.close()
