"""AlterReplicaLogDirs: replicas move between the log directories of a broker."""

import os
from pathlib import Path

import pytest

from stratalog.broker.api.alter_replica_log_dirs import API
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from stratalog.wire.messages.describe_log_dirs import DescribeLogDirsRequest


def request_for(path: str, topic: str = "t", number: int = 0) -> AlterReplicaLogDirsRequest:
    """One replica into one directory."""
    return AlterReplicaLogDirsRequest(
        dirs=[AlterReplicaLogDir(path=path, topics=[AlterReplicaLogDirTopic(name=topic, partitions=[number])])]
    )


@pytest.fixture
def disks(start_node, tmp_path):
    """A broker with two log directories and a topic in one of them; it has the paths as ``home`` and ``other``."""
    folders = [str(tmp_path / name) for name in ("one", "two")]
    node = start_node(log_dirs=",".join(folders))
    node.create("t", internal_segment_bytes=5000)
    node.home = node.partition("t").partition.directory.path
    (node.other,) = set(folders) - {node.home}
    return node


def ask(node, path, topic="t", number=0, version=2):
    """The code of one answer."""
    ((topic_result,),) = [node.link().call(request_for(path, topic, number), version).results]
    (answer,) = topic_result.partitions
    assert (topic_result.topic_name, answer.partition_index) == (topic, number)
    return answer.error_code


def rows(node):
    """(directory, is future, lag) of every row of a description."""
    results = node.link().call(DescribeLogDirsRequest(topics=None), 4).results
    return {
        (result.log_dir, one.is_future_key, one.offset_lag)
        for result in results
        for topic in result.topics
        for one in topic.partitions
    }


def lies_in(node, path):
    """Whether the replica lies in a directory now."""
    return node.partition("t").partition.directory.path == path


@pytest.mark.parametrize("version", [1, 2])
def test_a_replica_moves_and_is_served_meanwhile_and_after_a_restart(disks, version):
    """Its files are those of before in the other directory; appends go on; the next start finds it there."""
    sent = [os.urandom(3000) for _ in range(8)]
    for value in sent[:4]:
        disks.produce("t", value)
    assert ask(disks, disks.other, version=version) == ErrorCode.NONE
    disks.wait_until(lambda: lies_in(disks, disks.other))
    for value in sent[4:]:
        disks.produce("t", value)
    assert disks.values("t") == sent
    assert not Path(disks.home, "t-0").exists()
    assert rows(disks) == {(disks.other, False, 0)}
    disks.restart()
    assert lies_in(disks, disks.other)
    assert disks.values("t") == sent
    assert not disks.node.directories.settled.unfinished_moves


def test_errors_are_those_of_kafka(disks):
    """LOG_DIR_NOT_FOUND for a strange directory; its own is none; unknown partitions are unknown."""
    wanted = {
        (disks.home, "t", 0): ErrorCode.NONE,
        ("/nowhere", "t", 0): ErrorCode.LOG_DIR_NOT_FOUND,
        ("relative", "t", 0): ErrorCode.LOG_DIR_NOT_FOUND,
        (disks.home, "t", 7): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        (disks.home, "absent", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        (disks.other, "x" * 249, 0): ErrorCode.INVALID_TOPIC_EXCEPTION,
    }
    for named, code in wanted.items():
        assert ask(disks, *named) == code, named


def test_no_replica_moves_while_a_directory_is_offline(disks):
    """KAFKA_STORAGE_ERROR, whether it is the target or where the replica lies."""
    writer = disks.run(lambda: next(one for one in disks.node.directories.all if one.path == disks.other).writer)
    disks.run(lambda: writer.fail(OSError(5, "Input/output error")))
    assert ask(disks, disks.other) == ErrorCode.KAFKA_STORAGE_ERROR
    assert ask(disks, disks.home) == ErrorCode.NONE
    assert lies_in(disks, disks.home)


def test_a_move_that_has_not_ended_is_seen_and_cancelled(disks):
    """With a rate of 0 it stands still: the copy is the future log, with what it lacks; its own directory cancels it."""
    disks.produce("t", *[b"value"] * 3)
    disks.run(lambda: disks.node.config.values.__setitem__("replica.alter.log.dirs.io.max.bytes.per.second", 0))
    assert ask(disks, disks.other) == ErrorCode.NONE
    assert ask(disks, disks.other) == ErrorCode.NONE
    assert rows(disks) == {(disks.home, False, 0), (disks.other, True, 3)}
    assert ask(disks, disks.home) == ErrorCode.NONE
    assert rows(disks) == {(disks.home, False, 0)}
    disks.wait_until(lambda: not any(one.name.endswith("-future") for one in Path(disks.other).iterdir()))


def test_a_request_that_failed_is_answered_for_every_partition():
    """The response has no place for an error of the whole."""
    answer = API.failure(request_for("/x"), 2, KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    assert answer.results[0].partitions[0].error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
