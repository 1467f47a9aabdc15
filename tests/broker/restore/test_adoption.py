"""A data directory changes its bucket only on purpose, and loses nothing that was not named."""

import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace

from stratalog.broker.archive import bucket_gate
from stratalog.broker.archive.known_bucket import KnownBucket, write_known_bucket
from stratalog.broker.restore.adoption import Adoption, MovedPartition, adopt_bucket, plan_adoption
from stratalog.hot.storage import checkpoint
from stratalog.hot.storage.checkpoint import RemoteLogState
from stratalog.hot.storage.filesystem import RealFilesystem
from stratalog.tier import open_store
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.manifest import REPAIR, Claimant, Manifest, successor
from stratalog.tier.manifests.manifest_store import read_manifest
from stratalog.tier.stores.memory_store import MemoryStore
from stratalog.wire.errors import Invalid
from stratalog.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from stratalog.wire.topic import TopicPartition

FILES = RealFilesystem()
TIERED = {
    "remote_storage_enable": "true",
    "internal_segment_bytes": 2000,
    "local_retention_bytes": 1,
    "retention_ms": -1,
}


@pytest.fixture
def broker(start_node, monkeypatch):
    """A stopped broker: topic ``t`` is archived and mostly evicted, ``k`` is archived and all on the disk."""
    monkeypatch.setattr(bucket_gate, "START_SECONDS", 60.0)  # a machine that does much else starts workers late
    node = start_node(log_flush_offset_checkpoint_interval_ms="100", log_retention_check_interval_ms="100")
    for name, configs in (("t", TIERED), ("k", {**TIERED, "local_retention_bytes": -2})):
        node.create(name, **configs)
        for number in range(8):
            node.produce(name, *[f"{number}-{one}".encode() + b"v" * 90 for one in range(5)])
    node.wait_until(lambda: node.partition("t").log.first_base_offset == node.partition("t").log.active_base_offset > 0)
    node.wait_until(lambda: node.partition("k").remote.end_offset == node.partition("k").log.active_base_offset > 0)
    node.stop()
    return node


def replaced(node):
    """An empty bucket in the place of the right one, which is kept."""
    bucket = Path(node.directory, "bucket")
    bucket.rename(Path(node.directory, "right"))
    bucket.mkdir()
    return open_store(f"file://{bucket}")


def adopt(node, store, *given_up):
    """The command's two steps."""
    data = f"{node.directory}/data"
    return adopt_bucket(FILES, plan_adoption(FILES, [data], store), store, store.url, home=data, given_up=given_up)


@pytest.mark.story
def test_a_start_on_another_bucket_is_refused(broker):
    """The sentence names the directory, the bucket and the command; nothing was written there."""
    store = replaced(broker)
    with pytest.raises(Invalid, match=r"is not the one that .*data archives to.*stratalog tier adopt --data"):
        broker.start()
    assert list(store.list("")) == []
    shutil.rmtree(Path(broker.directory, "bucket"))
    Path(broker.directory, "right").rename(Path(broker.directory, "bucket"))
    broker.start()
    assert len(broker.values("t")) == 40


@pytest.mark.story
def test_records_held_by_the_old_bucket_alone_are_not_lost_unasked(broker):
    """The refusal names topic, partition and offsets; neither disk nor bucket has changed."""
    store = replaced(broker)
    before = {path: path.read_bytes() for path in Path(broker.directory, "data").glob("*") if path.is_file()}
    with pytest.raises(Invalid, match=r"t-0 \[0, \d+\).*--give-up"):
        adopt(broker, store, "k")
    assert before == {path: path.read_bytes() for path in before}
    assert list(store.list("")) == []


@pytest.mark.story
def test_a_topic_that_is_given_up_begins_with_its_local_records(broker):
    """Everything else is archived anew from its first offset, and the next start is as any other."""
    adopt(broker, replaced(broker), "t")
    broker.start()
    broker.wait_until(lambda: broker.partition("t").partition.held_back is None)
    assert broker.partition("t").log_start_offset == broker.partition("t").log.first_base_offset > 0
    assert len(broker.values("k")) == 40
    for name in "tk":
        for _ in range(6):
            broker.produce(name, *[b"n" * 100] * 5)
    broker.wait_until(lambda: broker.partition("k").remote.end_offset == broker.partition("k").log.active_base_offset)
    broker.wait_until(lambda: broker.partition("t").remote.end_offset == broker.partition("t").log.active_base_offset)
    broker.restart()
    assert len(broker.values("k")) == 70


@pytest.mark.story
def test_a_copy_of_the_bucket_is_the_same_bucket(broker):
    """It carries the identity: no command is needed; one without its documents needs the command and loses nothing."""
    bucket, copy = Path(broker.directory, "bucket"), Path(broker.directory, "copy")
    shutil.copytree(bucket, copy)
    bucket.rename(Path(broker.directory, "right"))
    copy.rename(bucket)
    broker.start()
    broker.stop()
    (bucket / "format.json").unlink()
    with pytest.raises(Invalid, match="no identity"):
        broker.start()
    adopt(broker, open_store(f"file://{bucket}"))
    broker.start()
    assert len(broker.values("t")) == 40


@pytest.mark.story
def test_a_copy_that_ends_below_the_local_start_loses_everything(broker):
    """A log has no hole: what such a copy holds is behind the new log start, so the refusal names it with the hole."""
    copy, data = Path(broker.directory, "copy"), f"{broker.directory}/data"
    shutil.copytree(Path(broker.directory, "bucket"), copy)
    broker.start()
    log = broker.partition("t").log
    copied_end = log.log_end_offset
    for _ in range(8):
        broker.produce("t", *[b"n" * 100] * 5)
    broker.wait_until(lambda: log.first_base_offset == log.active_base_offset > copied_end)
    first = log.first_base_offset
    broker.stop()
    store = open_store(f"file://{copy}")
    assert [one.lost for one in plan_adoption(FILES, [data], store).losses] == [(0, first)]
    with pytest.raises(Invalid, match=rf"t-0 \[0, {first}\)"):
        adopt(broker, store)


@pytest.mark.story
def test_an_archive_that_begins_above_the_log_start_is_not_there_unasked(broker):
    """Its log start was moved by a time that the disk does not know: the log would follow it."""
    data, kept = Path(broker.directory, "data"), Path(broker.directory, "kept")
    shutil.copytree(data, kept)
    broker.start()
    partition = DeleteRecordsPartition(partition_index=0, offset=12)
    topics = [DeleteRecordsTopic(name=name, partitions=[partition]) for name in "tk"]
    answer = broker.link().call(DeleteRecordsRequest(topics=topics, timeout_ms=20_000), 2)
    assert [one.partitions[0].error_code for one in answer.topics] == [0, 0]
    for name in "tk" * 4:
        broker.produce(name, *[b"n" * 100] * 5)  # the archive hears of it with the next claim
    store = open_store(f"file://{broker.directory}/bucket")
    names = {name: PartitionId(name, broker.partition(name).topic_id, 0) for name in "tk"}
    broker.wait_until(lambda: {read_manifest(store, one).manifest.log_start_offset for one in names.values()} == {12})
    broker.stop()
    shutil.rmtree(data)
    kept.rename(data)
    with pytest.raises(Invalid, match=r"k-0 \[0, 12\), as the archive there begins at 12; t-0 .*--give-up"):
        adopt(broker, store)
    adopt(broker, store, "t", "k")
    broker.start()
    for name in "tk":
        broker.wait_until(lambda: broker.partition("t").partition.held_back is None)
        assert broker.partition(name).log_start_offset == 12
        assert len(broker.values(name, offset=12)) >= 28


def test_directories_of_no_broker_are_refused(tmp_path):
    """They have no owner."""
    with pytest.raises(Invalid, match="not the log directories of one broker"):
        plan_adoption(FILES, [str(tmp_path)], open_store("memory:adoption"))


@pytest.mark.parametrize("ours", [-1, 0, 1], ids=["not noted", "taken over", "our own"])
def test_archives_that_another_cluster_has_taken_over_are_refused(tmp_path, ours):
    """The broker would be fenced there for good; its own incarnation, or one that was not noted, is no reason."""
    name = TopicPartition("t", 0)
    manifest = replace(
        Manifest(PartitionId("t", bytes(16), 0)), seq=5, remote_end=30, claimant=Claimant(1, 2, b"o" * 16)
    )
    row = MovedPartition(name, 20, 0, RemoteLogState(0, 30, 1, 4), manifest)
    home, memory_store = str(tmp_path), MemoryStore()
    write_known_bucket(FILES, home, KnownBucket("id", "file:///old", 0, (), ours))
    checkpoint.write_remote_log(FILES, home, {name: row.known})
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def adopt_it():
        adoption = Adoption("c", 1, {home: [row]})
        return adopt_bucket(FILES, adoption, memory_store, "file:///new", home=home, given_up=["t"])

    if ours != 0:
        assert (adopt_it().url, adopt_it().incarnation) == ("file:///new", ours)
        return
    with pytest.raises(Invalid, match="archives of t-0 those of another cluster, of incarnation 1, and this one has 0"):
        adopt_it()
    assert (list(memory_store.list("")), {path.name: path.read_bytes() for path in tmp_path.iterdir()}) == ([], before)


@pytest.mark.parametrize("kind", ["repair", "deleted"])
def test_an_archive_that_may_end_earlier_leaves_a_hole_all_the_same(tmp_path, kind):
    """It was repaired in the copy, or is on its way out there: offsets of the old bucket would be lost unasked."""
    there = replace(Manifest(PartitionId("t", bytes(16), 0)), seq=8, remote_end=15, claimant=Claimant(0, 2, b"o" * 16))
    there = successor(there, REPAIR, 9) if kind == "repair" else replace(there, deleted_ms=9)
    row = MovedPartition(TopicPartition("t", 0), 20, 3, RemoteLogState(0, 30, 1, 4), there)
    assert (row.is_there, row.lost) == (True, (3, 20))
    home = str(tmp_path)
    write_known_bucket(FILES, home, KnownBucket("id", "file:///old", 0, (), 0))
    checkpoint.write_remote_log(FILES, home, {row.name: row.known})

    def adopt_it(*given_up):
        adoption = Adoption("c", 1, {home: [row]})
        return adopt_bucket(FILES, adoption, MemoryStore(), "file:///new", home=home, given_up=given_up)

    with pytest.raises(Invalid, match=r"t-0 \[3, 20\), as the archive there ends at 15"):
        adopt_it()
    adopt_it("t")
    assert checkpoint.read_offsets(FILES, home, checkpoint.LOG_START_OFFSETS)[row.name] == 20
    whole = row._replace(local_start=3)
    assert whole.lost == (0, 0)
