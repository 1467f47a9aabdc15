"""A disk fails at the end of a move to it: the replica that does not come to lie there is not lost with it."""

import pytest

from stratalog.client.admin import create_topic
from stratalog.metadata.image.topics_image import LeaderRecovery
from stratalog.wire.errors import ErrorCode
from stratalog.wire.topic import TopicPartition
from tests.broker.nodes_of_a_cluster import RunningNodes
from tests.conftest import WatchedFilesystem

NAME = TopicPartition("t", 0)


@pytest.mark.story
def test_the_last_replica_in_sync_leads_on_when_the_disk_that_it_moves_to_fails(tmp_path):
    """The controller has heard that it comes to lie there. It was without leader for good, its log whole where it lay."""
    nodes = RunningNodes(tmp_path, {1: "controller", 2: "broker", 3: "broker"})
    member = nodes[2]
    member.settings["log.dirs"] = f"{member.directory}/data,{member.directory}/second"
    nodes.format(2, ignore_formatted=True)
    files = member.ports["files"] = WatchedFilesystem()
    try:
        nodes.start()
        create_topic(member.client(), "t", partition_count=1, replication_factor=2)
        member.wait_until(lambda: "t" in member.node.image.topics.by_name and member.node.hosted.table.get(NAME))

        def state():
            return member.node.image.topics.by_name["t"].partitions[0]

        nodes[3].stop()
        member.wait_until(lambda: state().in_sync_replicas == (2,) and state().leader == 2)
        member.produce("t", b"a", b"b")
        epoch = state().leader_epoch
        home = member.node.hosted.table.get(NAME).partition.directory.path
        target = next(one for one in member.node.directories.all if one.path != home)
        files.fail("open", ".stratalog-moved-from")
        assert member.run(lambda: member.node.moves.ask(NAME, target.path)) is ErrorCode.NONE
        member.wait_until(lambda: target.writer.offline is not None)
        registered = lambda: member.node.image.brokers.brokers[2].directories  # noqa: E731 - as the image is then
        member.wait_until(lambda: target.directory_id not in registered())
        assert (state().leader, state().in_sync_replicas, state().leader_epoch) == (2, (2,), epoch)
        assert state().leader_recovery is LeaderRecovery.RECOVERED
        assert member.produce("t", b"c") == [2]
    finally:
        nodes.stop()
