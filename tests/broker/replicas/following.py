"""Gives partitions roles by a topic that may be none of the image's."""

from stratalog.wire.topic import TopicPartition


def follow_and_open(hosted, image, topic) -> None:
    """Give the partitions of ``topic`` their roles, and open those that are due by that."""
    for number, state in topic.partitions.items():
        hosted._follow(image, topic, number, state)
        if hosted.table.due.holds(topic.name, number):
            hosted.table.due.discard(topic.name, number)
            hosted._open(topic, TopicPartition(topic.name, number), state, hosted.settings(image, topic.name))
