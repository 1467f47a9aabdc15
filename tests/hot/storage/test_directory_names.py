"""Kafka's names of partition directories."""

import pytest

from stratalog.hot.storage.directory_names import directory_name, name_beside, parse_directory_name
from stratalog.wire.errors import Invalid
from stratalog.wire.topic import TopicPartition


@pytest.mark.parametrize(
    "partition", [TopicPartition("flights", 0), TopicPartition("orders", 11), TopicPartition("a-1", 0)]
)
def test_directory_names_are_kafkas(partition):
    """Topic, dash, partition; the last dash divides."""
    assert parse_directory_name(directory_name(partition)) == partition


@pytest.mark.parametrize(
    "name", ["flights", "-1", "flights-", "flights-x", "flights-00", "fl ights-1", "flights-0.x-delete"]
)
def test_other_names_are_no_partitions(name):
    """They are not guessed at."""
    assert parse_directory_name(name) is None


def test_a_negative_partition_has_no_directory():
    """Our own bug, caught early."""
    with pytest.raises(Invalid):
        directory_name(TopicPartition("flights", -1))


@pytest.mark.parametrize(("length", "kept"), [(1, 1), (213, 213), (249, 213)])
def test_a_name_beside_a_partitions_is_one_that_linux_takes(length, kept):
    """The longest topic names leave no room for an ending. Two partitions of one have two names all the same."""
    ending = f".{7:032x}-stray"
    name = name_beside(f"{'t' * length}-11", ending)
    assert name == f"{'t' * kept}-11{ending}"
    assert len(name) <= 255
