"""DescribeLogDirs: bytes on the disk, bytes in the bucket."""

import os
from pathlib import Path

import pytest

from stratalog.broker.api.describe_log_dirs import API, REMOTE
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest


def ask(broker, *topics, version=5):
    named = [DescribableLogDirTopic(topic=name, partitions=list(each)) for name, each in topics] or None
    return broker.link().call(DescribeLogDirsRequest(topics=named), version)


def sizes(result):
    return {
        (topic.name, one.partition_index): one.partition_size for topic in result.topics for one in topic.partitions
    }


def du(path):
    """The bytes of the segments below a path."""
    return sum(entry.stat().st_size for entry in Path(path).rglob("*.log"))


@pytest.mark.parametrize("version", range(1, 6))
def test_sizes_are_those_of_the_files(broker, version):
    """Each partition counts its segments, without indexes and snapshots; the volume's bytes from version 4 on."""
    broker.create("t", 2, internal_segment_bytes=5000)
    for _ in range(5):
        broker.produce("t", b"x" * 3000, partition=1)
    (result,) = ask(broker, version=version).results
    assert (result.error_code, result.log_dir) == (0, str(Path(broker.directory, "data").resolve()))
    data = Path(broker.directory, "data")
    assert sizes(result) == {("t", number): du(data / f"t-{number}") for number in (0, 1)}
    assert sizes(result)["t", 1] > 15_000
    assert all((one.offset_lag, one.is_future_key) == (0, False) for one in result.topics[0].partitions)
    if version >= 4:
        assert 0 < result.usable_bytes <= result.total_bytes
        volume = os.statvfs(data)
        assert result.total_bytes == volume.f_blocks * volume.f_frsize
    else:
        assert (result.total_bytes, result.usable_bytes) == (-1, -1)


def test_only_the_partitions_asked_for_are_answered(broker):
    """Unknown ones are left out, a directory without any of them stays."""
    broker.create("t", 2)
    broker.create("u")
    (result,) = ask(broker, ("t", [1, 1, 7]), ("absent", [0])).results
    assert list(sizes(result)) == [("t", 1)]
    (result,) = ask(broker, ("absent", [0])).results
    assert result.topics == []


def test_each_directory_has_its_partitions(start_node, tmp_path):
    """A partition stands where its files are; the metadata log's own directory is none of log.dirs."""
    paths = [tmp_path / name for name in ("one", "two", "meta")]
    node = start_node(log_dirs=f"{paths[0]},{paths[1]}", metadata_log_dir=str(paths[2]))
    node.create("t", 2)
    found = {result.log_dir: list(sizes(result)) for result in ask(node).results}
    assert set(found) == {str(path.resolve()) for path in paths[:2]}
    assert sorted(one for each in found.values() for one in each) == [("t", 0), ("t", 1)]
    for path, partitions in found.items():
        assert all(Path(path, f"t-{number}").is_dir() for _, number in partitions)


@pytest.mark.story
def test_the_bucket_is_an_entry_of_its_own(broker):
    """Bytes of the archive, and the records that it lacks; topics that are not tiered are not in it.

    Kafka's tool for moves names partitions and takes the last entry with one for its directory.
    """
    broker.create("plain")
    broker.create("t", remote_storage_enable="true", internal_segment_bytes=5000)
    for _ in range(5):
        broker.produce("t", b"x" * 3000)
    unified = broker.partition("t")
    broker.wait_until(lambda: broker.node.tiering.describe(unified).end_offset == unified.log.active_base_offset)
    remote = {result.log_dir: result for result in ask(broker).results}[REMOTE]
    ((topic, row),) = [(topic.name, one) for topic in remote.topics for one in topic.partitions]
    figures = broker.run(lambda: broker.node.tiering.describe(unified))
    assert (topic, row.partition_size, row.offset_lag) == ("t", figures.size_bytes, 5 - figures.end_offset)
    assert row.partition_size > 10_000
    assert (remote.total_bytes, remote.usable_bytes) == (-1, -1)
    assert REMOTE not in [result.log_dir for result in ask(broker, ("plain", [0]), ("t", [0])).results]


def test_a_failed_directory_says_so(start_node, watched_files):
    """KAFKA_STORAGE_ERROR, and nothing about its partitions."""
    node = start_node(files=watched_files, directory="d", log_dirs="", start=False)
    node.settings = {"log.dirs": f"{node.directory}/one", "metadata.log.dir": f"{node.directory}/meta"}
    node.start()
    node.create("t")
    watched_files.fail("write", "/t-0/")
    with pytest.raises(KafkaError):
        node.produce("t", b"x")
    (result,) = ask(node).results
    assert (ErrorCode(result.error_code), result.topics) == (ErrorCode.KAFKA_STORAGE_ERROR, [])


def test_a_failure_as_a_whole_has_a_code_where_there_is_room():
    """From version 3 on; older answers are empty."""
    answer = API.failure(DescribeLogDirsRequest(topics=None), 3, KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    assert (answer.error_code, answer.results) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, [])
