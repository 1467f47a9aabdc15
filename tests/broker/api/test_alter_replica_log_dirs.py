"""AlterReplicaLogDirs: staying is no error, moving is not served."""

import pytest

from stratalog.broker.api.alter_replica_log_dirs import API
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)


def request_for(path: str, topic: str = "t", number: int = 0) -> AlterReplicaLogDirsRequest:
    """One replica into one directory."""
    return AlterReplicaLogDirsRequest(
        dirs=[AlterReplicaLogDir(path=path, topics=[AlterReplicaLogDirTopic(name=topic, partitions=[number])])]
    )


@pytest.mark.parametrize("version", [1, 2])
def test_where_a_replica_is_it_may_stay_and_nowhere_else_may_it_go(start_node, tmp_path, version):
    """NONE for its own directory, INVALID_REQUEST for another of ours, LOG_DIR_NOT_FOUND for a strange one."""
    folders = [str(tmp_path / name) for name in ("one", "two")]
    node = start_node(log_dirs=",".join(folders))
    node.create("t")
    home = node.partition("t").partition.directory.path
    (other,) = set(folders) - {home}
    wanted = {
        (home, "t", 0): ErrorCode.NONE,
        (other, "t", 0): ErrorCode.INVALID_REQUEST,
        ("/nowhere", "t", 0): ErrorCode.LOG_DIR_NOT_FOUND,
        ("relative", "t", 0): ErrorCode.LOG_DIR_NOT_FOUND,
        (home, "t", 7): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        (home, "absent", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    for named, code in wanted.items():
        ((topic,),) = [node.link().call(request_for(*named), version).results]
        (answer,) = topic.partitions
        assert (topic.topic_name, answer.partition_index, answer.error_code) == (named[1], named[2], code), named


def test_a_request_that_failed_is_answered_for_every_partition():
    """The response has no place for an error of the whole."""
    answer = API.failure(request_for("/x"), 2, KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    assert answer.results[0].partitions[0].error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
