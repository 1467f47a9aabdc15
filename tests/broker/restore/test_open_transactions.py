"""Transactions whose records were archived and whose markers were not, in logs that a restore begins."""

from __future__ import annotations

import pytest

from stratalog.broker.restore.restorer import Restorer
from stratalog.hot.config import LogConfig
from stratalog.hot.directory import LogDirectory
from stratalog.hot.state.producer_state import ProducerStateManager
from stratalog.hot.storage.filesystem import RealFilesystem
from stratalog.tier.bucket.catalogue import ArchivedTopic
from stratalog.tier.care.restore_plan import ArchivedProducers, BucketState, PartitionState
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.manifest_store import read_manifest
from stratalog.tier.stores.memory_store import MemoryStore
from stratalog.tier.work.archive_writer import archive_log
from stratalog.wire.batch import Record, build_batch
from stratalog.wire.errors import Corrupt, ErrorCode, KafkaError
from stratalog.wire.topic import TopicPartition

NAME, TOPIC_ID = TopicPartition("t", 0), b"\1" * 16


def batch(base, producer_id, *, sequence=0):
    """Two records of a transaction of a producer with epoch 3."""
    records = [Record(base + n, 1000, None, b"v") for n in range(2)]
    return build_batch(
        records, leader_epoch=4, producer_id=producer_id, producer_epoch=3, base_sequence=sequence, transactional=True
    )


@pytest.fixture
def state():
    """An archive of offsets 0 to 5, with records of producers 7, 8 and 9."""
    store = MemoryStore("memory:restored")
    partition = PartitionId("t", TOPIC_ID, 0)
    archive_log(store, partition, [b"".join(bytes(batch(2 * n, 7 + n)) for n in range(3))], now_ms=1)
    topic = ArchivedTopic("t", TOPIC_ID, 1, {"remote.storage.enable": "true"}, "c1")
    manifest = read_manifest(store, partition).manifest
    return BucketState("c1", 0, topics=(topic,), partitions=(PartitionState(partition, manifest),))


def snapshot():
    """The producers at the archive's end: all three transactions are open."""
    producers = ProducerStateManager("t-0")
    for n in range(3):
        place = {"base_sequence": 0, "base_offset": 2 * n, "last_offset": 2 * n + 1, "timestamp_ms": 1000}
        producers.apply_batch(producer_id=7 + n, epoch=3, transactional=True, **place)
    return producers.to_bytes()


def restored(state, path, producers_of):
    """The log as a broker opens it first, and the problems that were told."""
    restorer = Restorer(state, str(path), node_id=1, incarnation=1, now_ms=5, producers_of=producers_of)
    report = restorer.run()
    directory = LogDirectory.load(str(path), RealFilesystem())
    return directory.open_log(NAME, TOPIC_ID, LogConfig(remote_storage_enable=True), now_ms=6), report.problems


def test_a_transaction_without_its_marker_ends_as_the_archive_says(state, tmp_path):
    """The markers stand behind the archive; another transaction of the same producer says nothing of the open one."""
    archived = ArchivedProducers(snapshot(), frozenset({(8, 2), (9, 1)}))
    log_, problems = restored(state, tmp_path / "data", lambda _: archived)
    assert problems == []
    assert (log_.log_start_offset, log_.active_base_offset, log_.log_end_offset) == (0, 6, 9)
    assert list(log_.producer_state.open_transactions()) == []
    assert [(one.producer_id, one.first_offset) for one in log_.aborted_transactions(0, 9)] == [(8, 2)]
    assert log_.leader_epochs.latest_epoch == 4


def test_a_producer_from_before_the_restore_writes_no_more(state, tmp_path):
    """It may live on with its epoch, and its coordinator has forgotten it."""
    log_, _ = restored(state, tmp_path / "data", lambda _: ArchivedProducers(snapshot()))
    with pytest.raises(KafkaError) as refusal:
        log_.append_as_leader(memoryview(batch(0, 7, sequence=2)), leader_epoch=5, now_ms=7)
    assert refusal.value.code is ErrorCode.INVALID_PRODUCER_EPOCH


def test_producers_that_cannot_be_read_leave_nothing_open(state, tmp_path):
    """They are forgotten as a whole: without the list of what was aborted no transaction may be committed."""

    def fail(_):
        raise Corrupt("damaged")

    log_, problems = restored(state, tmp_path / "data", fail)
    assert "its producers are forgotten: damaged" in problems[0]
    assert (log_.log_end_offset, log_.producer_state.entries) == (6, {})
