"""A broker that is a cluster by itself."""

import errno
import os

import pytest

from stratalog.broker.node_cluster import BrokerState
from stratalog.client.admin import create_topic
from stratalog.wire.errors import KafkaError
from tests.conftest import WatchedFilesystem


def test_it_registers_without_a_word_to_anybody_and_writes_the_first_records_once(start_node):
    """No request is forwarded; a second start finds features and topics, under a new broker epoch."""
    node = start_node()
    node.create("t")
    assert node.node.cluster.forwarding is None
    assert node.node.dispatcher.forwarding is None
    first = node.node.image
    node.restart()
    second = node.node.image
    assert first.features == second.features
    assert set(second.topics.by_name) == {"t"}
    assert second.brokers.brokers[1].epoch > first.brokers.brokers[1].epoch
    view = node.node.cluster_view(second)
    assert (view.image, view.index, view.heeds_directories) == (second, None, False)


def test_the_state_of_the_broker_is_a_figure(start_node):
    """Running from the end of the start to the stop, under Kafka's number."""
    node = start_node()
    cluster = node.node.cluster
    figures = node.run(node.node.metrics.render).decode()
    assert "kafka_server_kafkaserver_brokerstate 3.0" in figures
    assert "kafka_server_brokermetadatametrics_metadata_load_error_count 0.0" in figures
    node.stop()
    assert cluster.broker_state is BrokerState.SHUTTING_DOWN


class FullOnce(WatchedFilesystem):
    """``writes``: so many more writes to the metadata log until one finds no room; the next one has room again."""

    writes = 0

    def note(self, call, path):
        if call == "write" and "__cluster_metadata-0/" in path and path.endswith(".log") and self.writes:
            self.writes -= 1
            if not self.writes:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        super().note(call, path)


def test_a_disk_that_was_full_inside_a_large_command_costs_that_command_only(start_node):
    """Later commands hold over a restart when they are answered; so does the same one when the client tries it again."""
    files = FullOnce()
    node = start_node(files=files)
    for name in ("large", "larger"):
        files.writes = 2
        with pytest.raises(KafkaError, match="No space left"):
            create_topic(node.client(), name, partition_count=1200)
        assert files.writes == 0
        create_topic(node.client(), f"after-{name}")
    create_topic(node.client(), "large", partition_count=1200)
    node.restart()
    topics = node.node.image.topics.by_name
    assert set(topics) == {"after-large", "after-larger", "large"}
    assert len(topics["large"].partitions) == 1200
