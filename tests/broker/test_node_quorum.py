"""The links and the first records with which a node opens its replica of the metadata log."""

import pytest

from stratalog.broker.quorum.quorum_links import QuorumLinks
from stratalog.broker.quorum.quorum_peers import NoPeers
from stratalog.client.admin import delete_topics
from stratalog.hot.storage.checkpoint import HIGH_WATERMARKS, read_offsets
from stratalog.hot.storage.filesystem import RealFilesystem
from stratalog.metadata.image.features import bootstrap_records
from stratalog.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from tests.broker.nodes_of_a_cluster import RunningNodes


def parts(member):
    """The things that the quorum of a running node works with."""
    return member.node.quorum._parts


def test_a_node_of_one_has_no_links(start_node):
    """Its settings name no other."""
    assert isinstance(parts(start_node()).peers, NoPeers)


@pytest.mark.parametrize("setting", ["controller.quorum.bootstrap.servers", "controller.quorum.voters"])
def test_a_node_of_several_asks_the_servers_of_its_settings(tmp_path, setting):
    """Or the static voters, which are servers as well."""
    nodes = RunningNodes(tmp_path, {100: "controller", 1: "broker"})
    if setting.endswith("voters"):
        for member in nodes.members.values():
            del member.settings["controller.quorum.bootstrap.servers"]
            member.settings[setting] = f"100@127.0.0.1:{nodes.ports[100]}"
    nodes.start()
    try:
        for member in nodes.members.values():
            peers = parts(member).peers
            assert isinstance(peers, QuorumLinks)
            assert peers.servers == [("127.0.0.1", nodes.ports[100])]
        assert tuple(nodes[100].node.quorum.image.features) == tuple(
            record.name for record in bootstrap_records() if hasattr(record, "feature_level")
        )
    finally:
        nodes.stop()


def test_checkpoints_that_a_request_waits_for_have_the_rows_of_the_metadata_log(start_node):
    """Its mark says how much of its end was synced: what is missing of that is damage, and no torn tail."""
    broker = start_node()
    metadata = broker.node.quorum.replica

    def marks():
        return read_offsets(RealFilesystem(), f"{broker.directory}/data", HIGH_WATERMARKS)

    broker.create("t")
    broker.produce("t", b"a", b"b")
    asked = DeleteRecordsTopic(name="t", partitions=[DeleteRecordsPartition(partition_index=0, offset=1)])
    broker.client().call(DeleteRecordsRequest(topics=[asked], timeout_ms=9999))
    assert marks()[metadata.topic_partition] == metadata.high_watermark > 0
    delete_topics(broker.client(), ["t"])
    broker.create("t")
    assert broker.produce("t", b"new") == [0]
    assert marks()[metadata.topic_partition] > 0
