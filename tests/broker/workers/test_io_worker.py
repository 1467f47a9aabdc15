"""Commands for a bucket: tried out before the first write, counted, and held to a byte rate."""

import asyncio
import time

import pytest
from msgspec.structs import replace

from stratalog.broker.workers.io_worker import RatedUpload, ask, io_patience, io_worker, unanswered_seconds
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.leases import write_lease
from stratalog.tier.manifests.manifest import Claimant
from stratalog.tier.messages import commands
from stratalog.tier.objects.segment_object import SegmentRequest
from stratalog.tier.stores import opening
from stratalog.tier.stores.checked_read import READS_MAX
from stratalog.tier.stores.faulty_store import Fault, FaultRule, FaultyStore
from stratalog.tier.stores.memory_store import MemoryStore
from stratalog.tier.stores.store import FileRange
from stratalog.tier.stores.throttled_store import ThrottledStore
from stratalog.tier.work.archive_writer import archive_log
from stratalog.tier.work.work import Worker
from stratalog.wire.batch import Record, build_batch

PARTITION = PartitionId("t", bytes(16), 0)
CLAIM = commands.Claim(PARTITION, Claimant(0, 1, b"c" * 16), 0, start_offset=0)
READ = commands.ReadManifest(PARTITION)
UNLIMITED = (1 << 63) - 1


@pytest.fixture
def bucket(request):
    """A failing bucket in memory, under a URL of its own."""
    store = FaultyStore(MemoryStore(f"memory:io-{time.time_ns()}"))
    opening._memory_stores[store.url] = store
    return store


@pytest.fixture
def worker(bucket):
    return io_worker(bucket.url, {})


class Careless(MemoryStore):
    """Ignores conditions, as several look-alikes of S3 do."""

    def put_if_absent(self, key, data, **options):
        return self.put(key, data, **options)


def test_the_store_is_tried_out_before_the_first_write_only(worker):
    """Reads need no trial, and one trial is enough."""
    assert "put_if_absent" not in worker.execute(READ).requests
    first = worker.execute(CLAIM)
    assert isinstance(first.report, commands.ManifestRead)
    second = worker.execute(commands.Claim(PARTITION, Claimant(0, 2, b"d" * 16), 0, start_offset=0))
    assert isinstance(second.report, commands.ManifestRead)
    assert sum(second.requests.values()) < sum(first.requests.values())


def test_a_store_that_ignores_conditions_is_not_written_to(bucket, worker):
    """With the reason; it may still be read."""
    bucket.inner.put_if_absent = Careless(bucket.url).put_if_absent
    for _ in range(2):
        report = worker.execute(CLAIM).report
        assert isinstance(report, commands.FailedReport)
        assert not report.retriable
        assert "If-None-Match" in report.message
    assert isinstance(worker.execute(READ).report, commands.ManifestRead)
    assert list(bucket.inner.list("topics/")) == []


def test_a_store_that_was_refused_is_tried_again_less_and_less_often(bucket, worker):
    """A wrong read may be right tomorrow; an unsafe store costs little."""
    bucket.set_rules([FaultRule(Fault.TRUNCATE, "get_range", count=READS_MAX)])
    refused = worker.execute(CLAIM)
    assert isinstance(refused.report, commands.FailedReport)
    assert worker.execute(CLAIM) == replace(refused, requests={}, received_bytes=0, sent_bytes=0)
    assert isinstance(worker.execute(CLAIM).report, commands.ManifestRead)


@pytest.mark.parametrize("operation", ["get", "get_range", "get_suffix"])
def test_one_bad_answer_refuses_no_store(bucket, worker, operation):
    """The probe reads it again: the first write goes through, and no report says that the service is unfit."""
    bucket.set_rules([FaultRule(Fault.CORRUPT, operation, "probe", count=1)])
    assert isinstance(worker.execute(CLAIM).report, commands.ManifestRead)
    assert bucket.injected


def test_an_unsafe_store_is_tried_a_dozen_times_in_a_thousand_writes(bucket, worker):
    """Each time after twice as many refusals."""
    bucket.inner.put_if_absent = Careless(bucket.url).put_if_absent
    assert sum(bool(worker.execute(CLAIM).requests) for _ in range(1000)) == 10


@pytest.mark.parametrize("fault", [Fault.FAIL_BEFORE, Fault.DROP_AFTER_COMMIT])
def test_a_trial_that_the_network_ended_is_repeated(bucket, worker, fault):
    """It proves nothing about the store."""
    bucket.set_rules([FaultRule(fault, "put_if_absent", count=1)])
    report = worker.execute(CLAIM).report
    if isinstance(report, commands.FailedReport):
        assert report.retriable
    bucket.set_rules([])
    assert isinstance(worker.execute(CLAIM).report, commands.ManifestRead)


def test_the_cost_of_a_command_is_counted(worker):
    """Requests by operation and bytes in both directions, of this command alone."""
    worker.execute(CLAIM)
    read = worker.execute(READ)
    assert read.requests == {"get": 1}
    assert read.received_bytes > 100
    assert read.sent_bytes == 0


def test_uploads_share_the_rate_that_they_name(worker):
    """One account for a rate, a new one for another, none for Kafka's default."""
    slow = worker._at_rate(1000)
    assert worker._at_rate(1000) is slow
    assert isinstance(slow._uploads, ThrottledStore)
    assert worker._at_rate(2000) is not slow
    assert worker._at_rate(UNLIMITED)._uploads is worker._at_rate(UNLIMITED)._store


def test_a_rated_upload_is_an_upload(worker, monkeypatch):
    """Carried out by the worker of its rate, after the store was tried out."""
    executed = []
    monkeypatch.setattr(Worker, "execute", lambda self, command: executed.append((self, command)))
    upload = commands.Upload(*commands.Upload.__struct_fields__)
    worker.execute(RatedUpload(upload, 1000))
    worker.execute(RatedUpload(upload, UNLIMITED))
    assert executed == [(worker._at_rate(1000), upload), (worker._worker, upload)]
    assert worker._probed


def test_a_worker_that_only_reads_changes_nothing(bucket):
    """A claim is refused before it is tried; reading goes on."""
    worker = io_worker(bucket.url, {}, read_only=True)
    assert isinstance(worker.execute(CLAIM).report, commands.FailedReport)
    assert isinstance(worker.execute(READ).report, commands.ManifestRead)
    assert list(bucket.inner.list("")) == []


def test_a_single_writer_may_use_a_store_without_conditions():
    """The operator answers for it: a store without any promise is written to, and otherwise refused."""
    url = f"memory://io-{time.time_ns()}/archive"
    refused = io_worker(url, {}).execute(CLAIM).report
    assert isinstance(refused, commands.FailedReport)
    assert "stratalog.bucket.single.writer" in refused.message
    promised = io_worker(url, {"single_writer": True}).execute(CLAIM).report
    assert isinstance(promised, commands.ManifestRead)


def test_tolerated_lacks_of_a_store_are_logged_once(bucket, worker, caplog):
    """A store that takes any checksum is used; the log says so."""
    put = bucket.inner.put
    bucket.inner.put = lambda key, data, *, crc32c=None, metadata=None: put(key, data, metadata=metadata)
    for _ in range(2):
        worker.execute(CLAIM)
    assert len([one for one in caplog.records if "may be used, but: checksums" in one.getMessage()]) == 1


async def test_a_caller_waits_for_the_report_and_may_stop_waiting():
    """An answer that comes after that is dropped."""
    sent = []
    waiting = [asyncio.create_task(ask(lambda *asked: sent.append(asked), commands.ReadCatalogue())) for _ in range(2)]
    await asyncio.sleep(0)
    assert [command for command, _ in sent] == [commands.ReadCatalogue()] * 2
    waiting[1].cancel()
    await asyncio.gather(*waiting[1:], return_exceptions=True)
    report = commands.FailedReport("away", retriable=True)
    for _, answered in sent:
        answered(report)
    assert await waiting[0] is report
    assert waiting[1].cancelled()


def test_patience_grows_with_the_bytes_moved():
    """A gigabyte at 256 KiB/s, or at a share of the rate that all uploads have; five minutes for anything else."""
    partition = PartitionId("t", bytes(16), 0)
    request = SegmentRequest(partition, bytes(16), 0, 1, 0, [FileRange("a.log", 0, 1 << 30)])
    upload = commands.Upload(request, Claimant(0, 0, bytes(16)))
    assert io_patience(commands.ReadManifest(partition)) == 300
    assert io_patience(upload) == 300 + 4096
    assert io_patience(RatedUpload(upload, 1 << 40)) == 300 + 4096
    assert io_patience(RatedUpload(upload, 1 << 20)) == 300 + 8192
    merge = commands.MergeObjects(partition, Claimant(0, 0, bytes(16)), bytes(16), 2, 64 << 20, 0, 0)
    assert io_patience(RatedUpload(merge, 1 << 40)) == 300 + 256


def test_every_answer_of_the_store_is_progress(bucket, worker):
    """Answers with errors, too."""
    calls = []
    worker.on_progress = lambda: calls.append(1)
    executed = worker.execute(READ)
    assert len(calls) == sum(executed.requests.values()) > 0


def test_silence_counts_where_an_answer_was_due():
    """An upload that takes its time says nothing, nor does a look at files; one that got on a moment ago says it is well."""
    upload = commands.Upload(SegmentRequest(PARTITION, bytes(16), 0, 1, 0, [b"x" * 1000]), CLAIM.claimant)
    scan = commands.ScanCache("/cache")
    assert unanswered_seconds([]) == unanswered_seconds([(upload, 9.0), (scan, 9.0)]) == 0.0
    assert unanswered_seconds([(CLAIM, 7.0), (READ, 5.0), (upload, 0.0)]) == 5.0
    assert unanswered_seconds([(CLAIM, 7.0), (READ, 0.0)]) == 0.0


def test_trash_of_a_command_that_waited_through_an_outage_is_kept_for_readers_that_came_meanwhile(worker, bucket):
    """Its bucket was away for two hours, for this broker alone: a reader took a lease, and saw the object live."""
    hour_ms, us = 3_600_000, CLAIM.claimant
    batch = bytes(build_batch([Record(0, 1000, None, b"v")], leader_epoch=1))
    archive_log(bucket, PARTITION, [batch], now_ms=0, claimant=us)
    made = [
        commands.SetLogStart(PARTITION, us, 1, 0, "deleted records"),
        replace(CLAIM, claimant=us._replace(leader_epoch=2)),
    ]
    write_lease(bucket, b"l" * 16, 100 * hour_ms, hour_ms)
    for command in made:
        assert isinstance(worker.execute(worker.aged(command, 2 * hour_ms)).report, commands.ManifestRead)
    emptying = commands.EmptyTrash(PARTITION, made[1].claimant, 27 * hour_ms, 24 * hour_ms, None)
    report = worker.execute(worker.aged(emptying, 0)).report
    assert (report.removed_count, report.left_count, report.leased_count) == (0, 1, 1)


def test_a_merge_that_waited_has_all_of_its_time(worker):
    """It is struck off when that is over."""
    merge = commands.MergeObjects(PARTITION, CLAIM.claimant, b"m" * 16, 2, 100, 5, 10)
    aged = worker.aged(RatedUpload(merge, UNLIMITED), 1000).upload
    assert (aged.now_ms, aged.expires_ms) == (1005, 1010)
    assert worker.aged(READ, 1000) == READ
