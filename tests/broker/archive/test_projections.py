"""Documents of the bucket are written once, and again when something went wrong or has changed."""

from types import SimpleNamespace

from stratalog.broker.archive.projections import Projections
from stratalog.tier.messages import commands
from stratalog.wire.topic import TopicPartition


def test_documents_are_written_once_and_after_a_failure_again():
    """Format and cluster with the first topic, each topic once, changed ones again."""
    sent = []

    def submit(command, answered):
        sent.append((command.key, answered))

    def topic(unified):
        return commands.WriteProjection(unified.topic_partition.topic, {})

    projections = Projections(submit, "c", lambda: 3, topic)

    def write(name):
        sent.clear()
        projections.write(SimpleNamespace(topic_partition=TopicPartition(name, 0)))
        return [key for key, _ in sent]

    assert write("a") == ["format.json", "clusters/c/cluster.json", "a"]
    assert write("a") == []
    assert write("b") == ["b"]
    projections.topic_changed("a")
    assert write("a") == ["a"]
    sent[0][1](commands.FailedReport("down", retriable=True))
    assert write("a") == ["format.json", "clusters/c/cluster.json", "a"]
