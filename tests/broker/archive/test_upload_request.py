"""The input of an upload."""

import pytest
from crc32c import crc32c

from stratalog.broker.archive.upload_request import upload_request
from stratalog.hot.config import LogConfig
from stratalog.hot.log.log import Log
from stratalog.hot.storage.filesystem import RealFilesystem
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.manifest import Claimant
from stratalog.tier.planning.plan_events import RangeRef
from stratalog.tier.stores.source import source_length
from stratalog.wire.batch import Record, assign_offset, build_batch
from stratalog.wire.errors import KafkaError
from stratalog.wire.topic import TopicPartition


@pytest.fixture
def log(tmp_path):
    """Four batches of five records."""
    name, files = TopicPartition("t", 0), RealFilesystem()
    log_ = Log.open(str(tmp_path / "t-0"), name, bytes(16), LogConfig(), files=files, now_ms=0, clean=True)
    log_.assign_leader_epoch(7)
    for _ in range(4):
        batch = build_batch([Record(n, 1000, None, b"v") for n in range(5)])
        log_.append_as_leader(memoryview(batch), leader_epoch=7, now_ms=0)
    log_.write_queued()
    log_.sync()
    return log_


class Unified:
    """As much of a led partition as is looked at."""

    def __init__(self, log_):
        self.log = log_


def request(log_, base, end):
    """The request for a range under the claim of epoch 7."""
    claimant = Claimant(0, 7, b"u" * 16, 3)
    partition = PartitionId("t", bytes(16), 0)
    return upload_request(Unified(log_), partition, RangeRef(base, end, 1), claimant=claimant, cluster_id="c", now_ms=9)


def test_a_request_carries_the_range_and_its_history(log):
    """Bytes of whole batches, the epochs up to the end, who uploads; no two requests share a key."""
    one, two = request(log, 5, 15), request(log, 5, 15)
    assert source_length(one.source) == log.size_bytes // 2
    assert (one.base, one.end, one.epoch, one.broker_id, one.uploaded_ms) == (5, 15, 7, 3, 9)
    assert [tuple(each) for each in one.leader_epochs] == [(7, 0)]
    assert one.uuid != two.uuid


def test_a_range_that_the_log_does_not_have_is_an_error(log):
    """It was evicted, or never written."""
    with pytest.raises(KafkaError):
        request(log, 15, 25)


@pytest.mark.parametrize("has_hole", [False, True], ids=["between batches", "inside a batch"])
def test_a_copy_that_its_leader_cleaned_may_have_gaps(log, has_hole):
    """Though the topic is compacted no longer, and this broker never cleaned it; else its archive would stop here."""
    end = log.log_end_offset
    assert not request(log, 0, end).compacted
    batch = build_batch([Record(0, 1, None, b"v")])
    if has_hole:
        batch[23:27] = (1).to_bytes(4, "big")
        batch[17:21] = crc32c(batch[21:]).to_bytes(4, "big")
    assign_offset(batch, 0, end if has_hole else end + 3, len(batch) - 12, 7)
    assert log.append_as_follower(memoryview(batch), leader_epoch=7, now_ms=0)
    log.write_queued()
    log.sync()
    assert request(log, 0, log.log_end_offset).compacted
