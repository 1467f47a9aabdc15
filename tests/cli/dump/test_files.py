"""The small files of a data directory are shown, and told when they are something else."""

from __future__ import annotations

import pytest

from stratalog.cli.dump.dump import dump
from stratalog.hot.state.leader_epochs import EpochEntry, LeaderEpochCache
from stratalog.hot.storage import checkpoint
from stratalog.hot.storage.filesystem import RealFilesystem
from stratalog.metadata.quorum.quorum_state import QuorumState
from stratalog.wire.topic import TopicPartition, uuid_text

TOPIC_ID = bytes(range(16))


def rows(target, **options) -> list[dict]:
    """All rows of a dump."""
    return list(dump(str(target), **options))


def test_small_files_are_shown(tmp_path) -> None:
    """Checkpoints, identities, quorum state and the mark of a clean stop."""
    files, folder = RealFilesystem(), str(tmp_path)
    checkpoint.write_offsets(files, folder, checkpoint.RECOVERY_POINTS, {TopicPartition("orders", 3): 42})
    checkpoint.write_remote_log(files, folder, {TopicPartition("orders", 3): checkpoint.RemoteLogState(1, 2, 3)})
    checkpoint.write_meta_properties(files, folder, checkpoint.MetaProperties("cluster", 1, TOPIC_ID))
    checkpoint.write_topic_id(files, folder, TOPIC_ID)
    checkpoint.write_clean_shutdown(files, folder, 5)
    (tmp_path / checkpoint.LEADER_EPOCHS).write_bytes(LeaderEpochCache([EpochEntry(4, 100)]).to_bytes())
    (tmp_path / "quorum-state").write_bytes(QuorumState(leader_epoch=3, leader_id=1, voters=(1,)).to_bytes())

    def only(name: str) -> dict:
        (row,) = rows(tmp_path / name)
        return row

    assert only(checkpoint.RECOVERY_POINTS) == {"what": "partition", "topic": "orders", "partition": 3, "offset": 42}
    assert only(checkpoint.REMOTE_LOG)["remote_end_offset"] == 2
    assert only(checkpoint.META_PROPERTIES)["directory_id"] == uuid_text(TOPIC_ID)
    assert only(checkpoint.PARTITION_METADATA)["topic_id"] == uuid_text(TOPIC_ID)
    assert only(checkpoint.CLEAN_SHUTDOWN)["broker_epoch"] == 5
    assert only(checkpoint.LEADER_EPOCHS) == {"what": "leader_epoch", "epoch": 4, "start_offset": 100}
    assert only("quorum-state")["leader_epoch"] == 3
    (tmp_path / ".stratalog-offline").write_text('{"version": 0, "reason": "disk full"}')
    assert only(".stratalog-offline") == {"what": "offline", "version": 0, "reason": "disk full"}


@pytest.mark.parametrize(
    "name",
    [
        checkpoint.RECOVERY_POINTS,
        checkpoint.REMOTE_LOG,
        checkpoint.META_PROPERTIES,
        checkpoint.PARTITION_METADATA,
        checkpoint.CLEAN_SHUTDOWN,
        checkpoint.LEADER_EPOCHS,
        "quorum-state",
        ".stratalog-offline",
    ],
)
def test_a_small_file_of_something_else_is_a_problem(tmp_path, name) -> None:
    """Never an exception, never an empty answer."""
    (tmp_path / name).write_bytes(b"\x00 nonsense")
    assert [row["what"] for row in rows(tmp_path / name)] == ["problem"]
