"""The cluster's own log: durable before any answer, short by snapshots, whole after any stop."""

import errno
from pathlib import Path

import pytest

from stratalog.broker.quorum import snapshotting
from stratalog.broker.quorum.metadata_log import first_records
from stratalog.hot.storage.filesystem import RealFilesystem
from stratalog.metadata.image.features import bootstrap_records
from stratalog.metadata.image.snapshot import parse_snapshot_name
from stratalog.metadata.quorum.bootstrap import bootstrap_checkpoint, level_records
from stratalog.metadata.quorum.checkpoint import STATIC_QUORUM, build_checkpoint
from stratalog.metadata.quorum.quorum_state import QuorumState, QuorumStateLost, parse_quorum_state
from stratalog.wire.errors import Corrupt, ErrorCode, Invalid, KafkaError

SNAPSHOT_BYTES = "metadata.log.max.record.bytes.between.snapshots"


def metadata_directory(broker) -> Path:
    return Path(broker.directory, "data", "__cluster_metadata-0")


def snapshots(broker):
    """The snapshots on the disk, oldest first."""
    names = (parse_snapshot_name(path.name) for path in metadata_directory(broker).iterdir())
    return sorted(name for name in names if name is not None)


def quorum_state_file(broker) -> Path:
    return metadata_directory(broker) / "quorum-state"


def test_every_start_is_a_new_epoch(start_node):
    """Each start notes it, and begins it with a record of its own."""
    node = start_node()
    for epoch in (1, 2, 3):
        state = parse_quorum_state(quorum_state_file(node).read_bytes())
        assert (state.leader_epoch, state.leader_id, state.voters) == (epoch, 1, (1,))
        assert node.node.quorum.leader.epoch == epoch
        assert node.run(lambda: node.node.quorum.replica.log.leader_epochs.latest_epoch) == epoch
        node.restart()


def test_the_epoch_is_on_disk_before_the_first_record_of_it(start_node, watched_files):
    """A crash in between may cost an epoch number, and never gives one out twice."""
    start_node(files=watched_files)
    calls = [
        call
        for call in watched_files.calls
        if "quorum-state" in call[1] or call[1].endswith("a-0/" + "0" * 20 + ".log")
    ]
    first_write = next(at for at, (call, path) in enumerate(calls) if call == "write" and path.endswith(".log"))
    assert ("sync", f"{Path(calls[0][1]).parent}/quorum-state.tmp") in calls[:first_write]


def test_the_state_of_another_node_is_refused(start_node):
    """Its votes are not this node's."""
    node = start_node()
    node.stop()
    path = quorum_state_file(node)
    path.write_bytes(QuorumState(leader_epoch=4, voters=(1, 2)).to_bytes())
    with pytest.raises(Corrupt, match=r"lists the voters \[1, 2\], this node is 1"):
        node.start()


@pytest.mark.parametrize("lost", [True, False])
def test_an_epoch_is_never_below_those_of_the_log(start_node, lost):
    """The file has no checksum, and may be lost: a digit that changed must not make this start one of the past."""
    node = start_node()
    node.restart()
    node.restart()
    node.stop()
    if lost:
        quorum_state_file(node).unlink()
    else:
        quorum_state_file(node).write_bytes(QuorumState(leader_epoch=1, leader_id=1, voters=(1,)).to_bytes())
    node.start()
    assert node.node.quorum.leader.epoch == 4


def test_an_unreadable_quorum_state_stops_the_start(start_node):
    """It is a wipe, and the operator decides: nothing is written over it."""
    node = start_node()
    node.stop()
    quorum_state_file(node).write_bytes(b"{")
    with pytest.raises(QuorumStateLost, match="the whole quorum may go on: there, delete the file"):
        node.start()
    assert quorum_state_file(node).read_bytes() == b"{"


def test_a_new_log_begins_with_the_records_that_were_formatted(tmp_path, caplog):
    """Without the file, with the defaults; levels that cannot be run are lowered with a warning."""
    files, path = RealFilesystem(), tmp_path / "bootstrap.checkpoint"
    assert first_records(files, str(tmp_path)) == tuple(bootstrap_records())
    levels = level_records({"metadata.version": 30, "share.version": 1})
    path.write_bytes(bootstrap_checkpoint(levels, timestamp_ms=1))
    assert first_records(files, str(tmp_path)) == tuple(levels[:1])
    assert "share.version begins with level 0 instead of 1" in caplog.text
    path.write_bytes(bootstrap_checkpoint(level_records({"metadata.version": 21}), timestamp_ms=1))
    with pytest.raises(Invalid, match=r"bootstrap\.checkpoint: a new cluster with metadata\.version 21 cannot"):
        first_records(files, str(tmp_path))
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(Corrupt, match="copy the file from another log directory"):
        first_records(files, str(tmp_path))


def test_the_first_voters_must_be_readable(start_node):
    """The log does not repeat them: without the checkpoint of offset 0 a dynamic quorum would look like a static one."""
    node = start_node()
    node.create("t")
    node.stop()
    path = metadata_directory(node) / "00000000000000000000-0000000000.checkpoint"
    whole = build_checkpoint((), STATIC_QUORUM, last_contained_timestamp_ms=1, timestamp_ms=1)
    path.write_bytes(whole[:-1])
    with pytest.raises(Corrupt, match="is cut off"):
        node.start()
    node.stop()
    path.write_bytes(whole)
    node.start()
    assert node.produce("t", b"v") == [0]


@pytest.mark.parametrize("clean", [True, False])
def test_a_damaged_metadata_log_is_refused_and_nothing_is_changed(start_node, clean):
    """To go on above the damage would be to forget topics; the error names file and remedy."""
    node = start_node()
    node.create("t")
    node.stop()
    (path,) = metadata_directory(node).glob("*.log")
    good = path.read_bytes()
    damaged = bytearray(good)
    damaged[len(good) // 3] ^= 1
    path.write_bytes(damaged)
    if not clean:
        Path(node.directory, "data", ".kafka_cleanshutdown").unlink()
    with pytest.raises(Corrupt, match=r"restore|metadata log"):
        node.start()
    assert path.read_bytes() == damaged
    path.write_bytes(good)
    node.start()
    node.produce("t", b"v")


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("settings", [{}, {SNAPSHOT_BYTES.replace(".", "_"): 1000}])
def test_a_metadata_log_whose_segment_is_gone_is_refused(start_node, clean, settings):
    """It began anew: all topics were forgotten, and a vote of this node could elect a leader that lacks committed records."""
    node = start_node(**settings)
    for number in range(9):
        node.create(f"t{number}")
    node.settings[SNAPSHOT_BYTES] = "100000000"
    node.restart()
    node.create("later")
    node.stop()
    (path,) = metadata_directory(node).glob("*.log")
    good = path.read_bytes()
    path.unlink()
    if not clean:
        Path(node.directory, "data", ".kafka_cleanshutdown").unlink()
    with pytest.raises(
        Corrupt, match=r"\.log is gone, and had been flushed up to offset \d+: records are lost; restore"
    ):
        node.start()
    assert not path.exists()
    path.write_bytes(good)
    node.start()
    node.produce("later", b"v")


@pytest.mark.parametrize("flush_messages", [1, 9_223_372_036_854_775_807])
def test_cluster_metadata_is_fsynced_before_any_answer_whatever_log_flush_says(
    start_node, watched_files, flush_messages
):
    """The last thing that happens to the metadata log before the answer to CreateTopics is a sync of its file."""
    node = start_node(files=watched_files, log_flush_interval_messages=flush_messages)
    watched_files.calls.clear()
    node.create("t")
    calls = [(call, path) for call, path in watched_files.calls if "__cluster_metadata" in path]
    assert [call for call, _ in calls] == ["write", "sync"]
    assert calls[1][1].endswith(".log")
    opened = watched_files.calls.index(("open", f"{node.directory}/data/t-0/00000000000000000000.log"))
    assert watched_files.calls.index(calls[1]) < opened


def test_a_restart_reads_the_snapshot_and_the_tail(start_node):
    """Topics from before and behind the snapshot are there, the log below the snapshot is gone."""
    node = start_node(**{SNAPSHOT_BYTES.replace(".", "_"): 1500})
    ids = {f"t{number}": node.create(f"t{number}").topic_id for number in range(12)}
    log = node.node.quorum.replica.log
    node.wait_until(lambda: len(snapshots(node)) == 1 and snapshots(node)[0].end_offset == log.log_start_offset > 0)
    (newest,) = snapshots(node)
    assert newest.end_offset == log.log_start_offset
    assert newest.epoch == node.node.quorum.leader.epoch
    node.settings[SNAPSHOT_BYTES] = "100000000"
    for attempt in range(2):
        ids[f"later{attempt}"] = node.create(f"later{attempt}").topic_id
        node.restart()
        assert {topic.name: topic.topic_id for topic in node.node.image.topics.by_name.values()} == ids
    assert snapshots(node) == [newest]
    assert node.produce("t3", b"v") == [0]


def test_a_log_without_its_snapshot_is_refused_and_nothing_is_changed(start_node):
    """Data is never taken for orphaned because metadata is missing."""
    node = start_node(**{SNAPSHOT_BYTES.replace(".", "_"): 1000})
    for number in range(9):
        node.create(f"t{number}")
    node.produce("t1", b"kept")
    node.stop()
    kept = {path: path.read_bytes() for path in metadata_directory(node).glob("*.checkpoint")}
    for path in kept:  # one, or two if the older one was not yet removed
        path.unlink()
    with pytest.raises(Corrupt, match="no snapshot reaches"):
        node.start()
    node.stop()
    assert (Path(node.directory) / "data" / "t1-0").is_dir()
    for path, data in kept.items():
        path.write_bytes(data)
    node.start()
    assert node.values("t1") == [b"kept"]


def test_a_damaged_snapshot_is_passed_over_for_an_older_one(start_node):
    """As long as the log behind the older one is whole."""
    node = start_node()
    node.create("t")
    control = node.node.control
    directory = metadata_directory(node)

    def snapshot_without_trimming():
        from stratalog.metadata.image.snapshot import SnapshotId, build_snapshot, snapshot_name

        image = control.image
        name = snapshot_name(SnapshotId(image.provenance.offset + 1, image.provenance.epoch))
        directory.joinpath(name).write_bytes(b"".join(build_snapshot(image)))
        return directory / name

    node.run(snapshot_without_trimming)
    node.create("u")
    newest = node.run(snapshot_without_trimming)
    data = bytearray(newest.read_bytes())
    data[-5] ^= 1
    newest.write_bytes(data)
    node.restart()
    assert sorted(node.node.image.topics.by_name) == ["t", "u"]
    assert not newest.exists()  # no other node begins with it, and nothing is let go for its sake
    assert newest.with_name(newest.name + ".damaged").read_bytes() == data


def test_a_damaged_snapshot_ahead_of_the_log_is_refused_and_nothing_is_changed(start_node):
    """The records between are nowhere else in this directory."""
    node = start_node()
    node.create("t")
    node.stop()
    newest = metadata_directory(node) / "00000000000000000999-0000000009.checkpoint"
    newest.write_bytes(b"damaged")
    with pytest.raises(Corrupt, match="its snapshot up to offset 999 cannot be read"):
        node.start()
    assert newest.read_bytes() == b"damaged"


def test_a_failed_write_of_metadata_ends_the_broker(start_node, watched_files):
    """The command is answered KAFKA_STORAGE_ERROR, and the node asks to be ended: there is no cluster without it."""
    node = start_node(files=watched_files)
    node.create("t")
    watched_files.fail("sync", "__cluster_metadata")
    with pytest.raises(KafkaError) as refused:
        node.create("u")
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    node.wait_until(node.node.failed.is_set)
    assert "u" not in node.node.image.topics.by_name


def test_a_full_disk_refuses_commands_until_there_is_room(start_node, watched_files):
    """The refused command has no effect, before or after a restart."""
    node = start_node(files=watched_files)
    node.create("t")
    watched_files.fail("write", "__cluster_metadata", errno.ENOSPC)
    with pytest.raises(KafkaError) as refused:
        node.create("u")
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    watched_files.faults.clear()
    node.create("v")
    node.restart()
    assert sorted(node.node.image.topics.by_name) == ["t", "v"]


def test_a_snapshot_that_cannot_be_written_costs_no_answer(start_node, watched_files, monkeypatch):
    """The command is on disk already; the log is shortened when there is room again."""
    monkeypatch.setattr(snapshotting, "_AGAIN_SECONDS", 0.0)
    node = start_node(files=watched_files, **{SNAPSHOT_BYTES.replace(".", "_"): 10})
    watched_files.fail("write", ".checkpoint", errno.ENOSPC)
    node.create("t")
    before = snapshots(node)
    watched_files.faults.clear()
    node.create("u")
    node.wait_until(lambda: snapshots(node) > before)
    assert not node.node.failed.is_set()
    node.restart()
    assert sorted(node.node.image.topics.by_name) == ["t", "u"]
