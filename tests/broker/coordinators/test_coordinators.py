"""All coordinators together, as the node drives them."""


def test_a_fresh_broker_is_ready_and_has_no_failures(broker):
    """No partition of a coordinator is damaged."""
    assert broker.node.coordinators.failures() == []
    assert broker.node.not_ready() == []


def test_a_start_that_is_repeated_finds_the_coordinators_topics(start_node):
    """They are led again like any topic, and made only once."""
    node = start_node(offsets_topic_num_partitions=2)
    ensure = node.node.coordinators.internal_topics.ensure
    node.run(ensure, "__consumer_offsets")
    topic_id = node.node.image.topics.by_name["__consumer_offsets"].topic_id
    node.restart()
    node.run(node.node.coordinators.internal_topics.ensure, "__consumer_offsets")
    assert node.node.image.topics.by_name["__consumer_offsets"].topic_id == topic_id
