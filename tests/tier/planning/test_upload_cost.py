"""Requests of an upload, against those that the worker makes."""

from __future__ import annotations

from typing import Any

from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.manifest import Claimant
from stratalog.tier.messages.commands import Claim, Commit, ReadBack, Upload
from stratalog.tier.objects.segment_object import SegmentRequest
from stratalog.tier.planning.prices import NOTHING_USED, Usage
from stratalog.tier.planning.upload_cost import removal_usage, upload_usage
from stratalog.tier.stores.memory_store import MemoryStore
from stratalog.tier.stores.store import ConfirmedVersion
from stratalog.tier.stores.wrappers import CountingStore
from stratalog.tier.work.work import Worker
from stratalog.wire.batch import Record, build_batch

PARTITION = PartitionId("t", bytes(16), 0)
US = Claimant(0, 0, bytes(15) + b"\1", 1)
MIB = 1 << 20


class Confirming(MemoryStore):
    """Says what it holds, as S3 does."""

    def put_if_absent(self, *args: Any, **options: Any) -> ConfirmedVersion:
        """As any store's."""
        return ConfirmedVersion(super().put_if_absent(*args, **options))


def test_a_small_object_costs_what_the_worker_asks_for() -> None:
    """Upload, commit and read-back of one range."""
    store = CountingStore(Confirming())
    worker = Worker(store)
    worker.execute(Claim(PARTITION, US, 0, 0))
    before = len(store.requests)
    batch = bytes(build_batch([Record(0, 0, None, b"v" * 1000)], leader_epoch=0))
    request = SegmentRequest(PARTITION, bytes(16), 0, 1, 0, [batch])
    done = worker.execute(Upload(request, US))
    worker.execute(Commit(PARTITION, US, (done.uploaded,), 0))  # type: ignore[union-attr]
    worker.execute(ReadBack(PARTITION, 0, 1, 0, US))
    made = [one.operation for one in list(store.requests)[before:]]
    reads = sum(name in {"get", "head", "get_range", "get_suffix"} for name in made)
    usage = upload_usage(len(batch), 16 * MIB)
    assert (usage.reads, usage.writes) == (reads, len(made) - reads)
    assert usage.sent_bytes == len(batch)


def test_a_large_object_is_sent_in_parts() -> None:
    """With its beginning and its end; parts are not smaller than S3 takes."""
    assert upload_usage(64 * MIB, 16 * MIB).writes == 2
    assert upload_usage(65 * MIB, 16 * MIB).writes == 5 + 2 + 1
    assert upload_usage(100 * MIB, 1).writes == 20 + 2 + 1


def test_removal_goes_through_the_trash() -> None:
    """A thousand keys by one request."""
    assert removal_usage(0) == NOTHING_USED
    assert removal_usage(1) == Usage(reads=3, writes=3, lists=1, deletes=1)
    assert removal_usage(1001).deletes == 2
