"""Reading one partition's archive: asked for when needed, once, and never in a circle."""

import random
from types import SimpleNamespace

import pytest

from stratalog.broker.cold.admission import ColdAdmission
from stratalog.broker.cold.chunk_files import ChunkFiles
from stratalog.broker.cold.fill_gate import FILLS_MAX
from stratalog.broker.cold.reader import RemotePartition
from stratalog.hot.storage.checkpoint import RemoteLogState
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.jobs import list_job, swap
from stratalog.tier.manifests.manifest_store import change_manifest
from stratalog.tier.manifests.parts import Job
from stratalog.tier.messages import commands
from stratalog.tier.messages.commands import ReadManifest
from stratalog.tier.objects.segment_object import SegmentRequest, build_segment
from stratalog.tier.objects.segment_upload import put_segment
from stratalog.tier.reading.cache import CacheLimits
from stratalog.tier.reading.fetch_budgets import FetchRates
from stratalog.tier.stores.memory_store import MemoryStore
from stratalog.tier.work.archive_commands import read_view
from stratalog.tier.work.archive_writer import archive_log
from stratalog.tier.work.work import Worker
from stratalog.wire.batch import Record, build_batch, iter_headers
from stratalog.wire.errors import ErrorCode, KafkaError

PARTITION = PartitionId("t", bytes(16), 0)


class Rig:
    """An archive of three objects of four batches with five records each, and a reader whose commands wait for `run`."""

    def __init__(self, tmp_path, checkpoint=None) -> None:
        self.store = MemoryStore()
        self.worker = Worker(self.store)
        self.queue = []
        self.at_once = False
        self.sent = []
        self.now_ms = 1_000_000
        self.woken = 0
        self.metrics = SimpleNamespace(remote_fetch_errors=0, remote_log_size_bytes=0)
        self.rates = FetchRates()
        self.woken_readers = []
        admission = ColdAdmission(
            lambda: self.rates,
            client_of=str,
            wake=self.wake_reader,
            now_ms=lambda: self.now_ms,
            later=lambda seconds, call: SimpleNamespace(cancel=lambda: None),
        )
        limits = CacheLimits(1 << 20)
        self.chunks = chunks = ChunkFiles(
            str(tmp_path / "cache"), limits, self.submit, lambda: self.now_ms, admission=admission
        )
        self.manifest = archive_log(self.store, PARTITION, [self.segment(20 * n) for n in range(3)], now_ms=0)
        self.remote = RemotePartition(
            PARTITION,
            submit=self.submit,
            chunks=chunks,
            metrics=self.metrics,
            wake=self.wake,
            now_ms=lambda: self.now_ms,
            checkpoint=checkpoint,
        )

    @staticmethod
    def segment(base):
        batches = [[Record(base + 5 * b + n, base + 5 * b + n, None, b"v" * 50) for n in range(5)] for b in range(4)]
        return b"".join(bytes(build_batch(records, leader_epoch=1)) for records in batches)

    def wake(self) -> None:
        self.woken += 1

    def wake_reader(self, reader) -> None:
        self.woken_readers.append(reader)

    def submit(self, command, answered) -> None:
        self.sent.append(type(command).__name__)
        self.queue.append((command, answered))
        if self.at_once:
            self.run()

    def run(self) -> None:
        """Carry out everything that was asked for, also what follows from it."""
        while self.queue:
            command, answered = self.queue.pop(0)
            answered(self.worker.execute(command))

    def read(self, offset, max_bytes=1 << 20, **options):
        """Read until there is an answer."""
        for _ in range(5):
            found = self.remote.read("r", offset, max_bytes, **options)
            if found is not None:
                return found
            self.run()
        raise AssertionError("no answer")


@pytest.fixture
def rig(tmp_path):
    return Rig(tmp_path)


def offsets(found):
    data = b"".join(part.file.pread(part.length, part.position) for part in found.parts)
    return [header.base_offset for _, header in iter_headers(data)]


@pytest.mark.parametrize("offset", range(60))
def test_every_offset_is_found(rig, offset):
    """Inside batches, at their ends, and where one object follows another."""
    found = rig.read(offset, 1)
    assert offsets(found) == [offset - offset % 5]
    assert found.next_offset == offset - offset % 5 + 5


def test_a_missing_chunk_is_asked_for_once(rig):
    """Manifest, footer and chunk, however often one tries meanwhile."""
    for step in ("ReadManifest", "ReadFooter", "ScanCache", "FillChunks"):
        assert rig.remote.read("a", 3, 1000) is None
        assert rig.remote.read("b", 4, 1000) is None
        assert rig.sent.pop() == step
        assert rig.sent == []
        rig.run()
        rig.sent.clear()
    assert rig.woken == 2
    assert rig.woken_readers == ["a", "b", "a", "b"]
    assert rig.remote.read("a", 3, 1000) is not None


def test_the_first_chunk_comes_with_its_table(rig):
    """One command where a reader begins in an object that is new to the cache, and one answer for all who waited."""
    rig.read(3)
    rig.sent.clear()
    assert rig.remote.read("a", 23, 1000) is None
    assert rig.remote.read("b", 33, 1000) is None
    rig.run()
    assert rig.sent == ["ReadFooter"]
    assert rig.woken_readers[-1] == "a"
    assert offsets(rig.remote.read("a", 23, 1)) == [20]
    assert offsets(rig.remote.read("b", 33, 1)) == [30]
    assert rig.sent == ["ReadFooter"]


def test_a_table_that_cannot_be_read_leaves_no_place_taken(rig):
    """Readers get the error, and the next chunk is fetched as ever."""
    rig.read(3)
    gone = rig.manifest.entries[1].key
    data, _ = rig.store.get(gone)
    rig.store.delete_many([gone])
    for _ in range(2 * FILLS_MAX):
        with pytest.raises(KafkaError):
            rig.read(22)
        rig.now_ms += 10_000
    rig.store.put(gone, data)
    rig.now_ms += 10_000
    rig.sent.clear()
    assert offsets(rig.read(22, 1)) == [20]
    assert "FillChunks" not in rig.sent


def test_one_answer_crosses_objects(rig):
    """Once they are cached."""
    rig.read(5)
    rig.read(25)
    assert offsets(rig.read(15)) == [15, 20, 25, 30, 35]


def test_offsets_that_are_nowhere_are_an_error_and_no_storm(rig):
    """Beyond the archive's ends the manifest is read again, but once in a while."""
    rig.read(0)
    rig.sent.clear()
    for offset in (60, 1000):
        with pytest.raises(KafkaError) as refused:
            rig.remote.read("r", offset, 1)
        assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        assert str(offset) in str(refused.value)
    rig.run()
    assert rig.sent == []
    rig.now_ms += 5_000
    assert rig.remote.read("r", 60, 1) is None
    rig.run()
    assert rig.sent == ["ReadManifest"]
    with pytest.raises(KafkaError):
        rig.remote.read("r", 60, 1)


def test_a_manifest_that_ends_before_what_was_archived_is_not_believed(tmp_path):
    """It was lost or replaced: the checkpoint's end stands, and readers have to come again."""
    rig = Rig(tmp_path, checkpoint=RemoteLogState(0, 75, 1000))
    assert rig.remote.read("r", 3, 1) is None
    rig.run()
    with pytest.raises(KafkaError) as refused:
        rig.remote.read("r", 3, 1)
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert "ends at offset 60" in str(refused.value)
    assert (rig.remote.end_offset, rig.remote.entries) == (75, None)


def test_a_damaged_object_hides_no_other(rig):
    """Its readers get the error for five seconds without asking again; then it is tried anew."""
    entry = rig.manifest.entries[1]
    data, _ = rig.store.get(entry.key)
    rig.store.delete_many([entry.key])
    rig.store.put(entry.key, data[:70] + b"\0" + data[71:])
    with pytest.raises(KafkaError) as refused:
        rig.read(22)
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE
    assert entry.key in str(refused.value)
    assert "t" in str(refused.value)
    rig.sent.clear()
    with pytest.raises(KafkaError):
        rig.remote.read("r", 22, 1)
    assert rig.sent == []
    assert offsets(rig.read(3, 1)) == [0]
    assert offsets(rig.read(41, 1)) == [40]
    rig.store.delete_many([entry.key])
    rig.store.put(entry.key, data)
    rig.now_ms += 5_000
    assert offsets(rig.read(22, 1)) == [20]


def test_a_bucket_that_is_down_is_waited_for(rig):
    """A failure that passes is no answer to a reader: the next try asks again."""
    answered = []
    assert rig.remote.read("r", 3, 1) is None
    answered.append(rig.queue.pop())
    answered[0][1](commands.FailedReport("503", retriable=True))
    assert offsets(rig.read(3, 1)) == [0]


def test_only_waiting_readers_are_woken(rig):
    """A chunk that has come is of interest to those who asked for it."""
    rig.read(3, 1)
    rig.woken_readers.clear()
    assert rig.remote.read("a", 23, 1) is None
    rig.run()
    assert rig.woken_readers == ["a"]
    assert rig.remote.read("b", 43, 1) is None
    rig.run()
    assert rig.woken_readers == ["a", "b"]


def test_a_reader_over_its_budget_gets_its_throttle_time(rig):
    """Cached chunks it gets all the same."""
    rig.rates = FetchRates(broker=10)
    rig.read(3, 1)
    assert rig.remote.read("r", 23, 1) is None
    rig.run()
    assert rig.remote.read("r", 23, 1) is None
    assert rig.remote.throttle_ms("r") > 1000
    assert rig.remote.read("r", 3, 1) is not None
    rig.now_ms += 600_000
    assert offsets(rig.read(23, 1)) == [20]
    assert rig.remote.throttle_ms("r") == 0


def test_a_limit_is_kept_where_something_was_found_before(rig):
    """Only the first partition of an answer may exceed it by a batch."""
    rig.read(0)
    found = rig.read(3, 0, min_one_batch=False)
    assert (found.parts, found.size_bytes, found.next_offset) == ([], 0, 3)
    assert rig.read(3, 0, min_one_batch=True).size_bytes > 0


def test_chunks_are_let_go_when_they_were_read_past(rig):
    """A reader holds what it is reading and what is ahead of it, nothing behind."""
    for offset in (0, 20, 40):
        rig.read(offset, 1)
    books = rig.remote._chunks.books
    pinned = len(books._pins.chunks("r"))
    assert (pinned, len(books)) == (1, 3)
    rig.remote.crossed("r", 60)
    assert not books._pins.reads("r")


def test_chunks_are_let_go_when_the_partition_is_read_here_no_more(rig):
    """The connections of its readers may last: after a change of the leader nothing else ends their pins."""
    rig.read(0, 1)
    books = rig.remote._chunks.books
    assert books._pins.reads("r")
    rig.remote.end_reads()
    assert not books._pins.reads("r")


def test_a_reader_that_goes_on_locally_has_crossed_the_border(rig):
    """Counted once; a reader that begins there has not."""
    position = 0
    while position < 60:
        position = rig.read(position).next_offset
    rig.remote.crossed("other", 60)
    assert rig.remote.border_reads == 0
    rig.remote.crossed("r", 60)
    rig.remote.crossed("r", 65)
    assert rig.remote.border_reads == 1


def test_read_ahead_of_a_sequential_reader_crosses_objects(rig):
    """After the second read the whole archive is on its way, each object by one GET; no object is asked for twice."""
    rig.read(0, 1)
    rig.sent.clear()
    assert offsets(rig.read(5, 1)) == [5]
    rig.run()
    assert offsets(rig.read(10, 1)) == [10]
    rig.run()
    assert offsets(rig.read(15, 1)) == [15]
    rig.run()
    assert sorted(rig.sent) == ["FillChunks", "FillChunks", "ReadFooter", "ReadFooter"]
    for offset in range(20, 60, 5):
        assert offsets(rig.remote.read("r", offset, 1)) == [offset]
    assert len(rig.sent) == 4


async def test_times_are_looked_up_within_bounds(rig):
    """The first record at or after a time, not before the first nor behind the last offset asked for."""
    rig.at_once = True
    assert (await rig.remote.find_timestamp(33, 0, 60)).offset == 33
    assert (await rig.remote.find_timestamp(10, 33, 60)).offset == 33
    assert await rig.remote.find_timestamp(33, 0, 33) is None
    assert await rig.remote.find_timestamp(60, 0, 60) is None
    assert (await rig.remote.find_max_timestamp(60)).offset == 59


def merged(rig, first, last):
    """Replace archived ranges by one object, as a merge does; the old objects are gone at once."""
    inputs = rig.manifest.entries[first:last]
    uuid = b"m" * 16
    change_manifest(
        rig.store, PARTITION, lambda m: list_job(m, Job(uuid, "merge", 1, 2, tuple(e.uuid for e in inputs)), now_ms=1)
    )
    request = SegmentRequest(
        partition=PARTITION,
        uuid=uuid,
        base=inputs[0].base,
        end=inputs[-1].end,
        epoch=1,
        source=[b"".join(rig.segment(entry.base) for entry in inputs)],
    )
    output = put_segment(rig.store, build_segment(request))
    change_manifest(rig.store, PARTITION, lambda m: swap(m, uuid, inputs, output, now_ms=2))
    rig.store.delete_many([entry.key for entry in inputs])


def test_a_reader_goes_on_when_its_objects_are_replaced(rig):
    """It finds them gone, reads the manifest again and is answered from the new object: no error reaches it."""
    assert offsets(rig.read(0, 1)) == [0]
    merged(rig, 1, 3)
    assert rig.remote.read("r", 20, 1) is None
    command, answered = rig.queue.pop(0)
    answered(rig.worker.execute(command))
    assert rig.remote.read("r", 20, 1) is None
    assert [offsets(rig.read(at, 1)) for at in range(0, 60, 5)] == [[at] for at in range(0, 60, 5)]
    assert len(rig.remote.entries) == 2


@pytest.mark.parametrize("seed", range(24))
def test_answers_in_any_order_bring_no_error_while_objects_are_replaced(tmp_path, seed):
    """Eight threads of the worker overtake each other: an object may be missed twice before the manifest has come."""
    rig, dice, answers = Rig(tmp_path), random.Random(seed), []
    merge_at = dice.randrange(30)
    for step in range(200):
        if step == merge_at:
            merged(rig, 1, 3)
        if dice.random() < 0.4:
            rig.remote.read(dice.choice("ab"), dice.randrange(60), 1)
        if rig.queue and dice.random() < 0.5:
            command, answered = rig.queue.pop(dice.randrange(len(rig.queue)))
            answers.append((answered, rig.worker.execute(command)))
        if answers and dice.random() < 0.5:
            answered, report = answers.pop(dice.randrange(len(answers)))
            answered(report)
    for answered, report in answers:
        answered(report)
    assert [offsets(rig.read(at, 1)) for at in range(0, 60, 5)] == [[at] for at in range(0, 60, 5)]


async def test_times_are_found_when_objects_are_replaced(rig):
    """Also the manifest is read again, once."""
    rig.at_once = True
    assert (await rig.remote.find_timestamp(33, 0, 60)).offset == 33
    merged(rig, 0, 3)
    assert (await rig.remote.find_timestamp(33, 0, 60)).offset == 33
    merged_again = rig.remote.entries.segment(0)
    rig.store.delete_many([merged_again.key])
    with pytest.raises(KafkaError):
        await rig.remote.find_timestamp(33, 0, 60)
    with pytest.raises(KafkaError):
        await rig.remote.find_max_timestamp(60)


def test_ranges_that_were_let_go_are_read_again(rig):
    """Offsets and totals stay known; what is learnt meanwhile needs no entries."""
    rig.read(0, 1)
    rig.remote.unload()
    assert (rig.remote.entries, rig.remote.start_offset, rig.remote.end_offset) == (None, 0, 60)
    assert rig.remote.object_count == 3
    rig.remote.refresh(entries=False)
    rig.run()
    assert rig.remote.entries is None
    assert offsets(rig.read(40, 1)) == [40]


def test_a_claim_or_commit_brings_no_entries(tmp_path):
    """A broker that starts reads no archive without readers."""
    rig = Rig(tmp_path, checkpoint=RemoteLogState(0, 60, 1000))
    rig.remote.apply(read_view(rig.store, ReadManifest(PARTITION, "", rig.remote.known_end)).view)
    assert (rig.remote.entries, rig.remote.facts.totals.segments, rig.remote.end_offset) == (None, 3, 60)
    assert rig.remote.facts.oldest_timestamp_ms == 19
    assert offsets(rig.read(40, 1)) == [40]
    assert rig.remote.known_end == 60
