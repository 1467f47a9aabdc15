"""A broker that is a cluster by itself."""

from stratalog.broker.node_cluster import BrokerState


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
