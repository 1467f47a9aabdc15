"""One offset space over a local log and an archive."""

from types import SimpleNamespace

import pytest

from stratalog.broker.replicas.unified_log import UnifiedLog
from stratalog.hot.log.times import ScanOn
from stratalog.hot.segments.batch_search import BatchSearch, TimestampOffset
from stratalog.hot.segments.transaction_index import AbortedTxn
from stratalog.tier.objects.segment_blobs import AbortedTransaction
from stratalog.wire.batch import Record, build_batch
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.topic import TopicPartition

HIGH_WATERMARK, STABLE, END = 90, 80, 100
LOCAL_START, LOG_START = 50, 10


class LocalLog:
    """Offsets 50 to 100 on the disk; the log itself starts at 10."""

    topic_partition = TopicPartition("t", 0)
    topic_id = b"i" * 16
    log_start_offset, local_log_start_offset, log_end_offset = LOG_START, LOCAL_START, END
    active_base_offset = LOCAL_START
    missing: tuple = ()

    def __init__(self) -> None:
        self.reads = []
        self.searches = []
        self.steps = []
        self.leader_epochs = SimpleNamespace(
            end_offset_for=lambda epoch, end: SimpleNamespace(epoch=epoch, end_offset=end)
        )

    def read(self, offset, *, max_bytes, max_offset, min_one_batch):
        self.reads.append((offset, max_bytes, max_offset, min_one_batch))
        return SimpleNamespace(parts=["local"], size_bytes=8, next_offset=offset + 1)

    def aborted_transactions(self, first, last):
        return [AbortedTxn(8, first, last + 5, last + 5), AbortedTxn(7, first - 9, first, last), AbortedTxn(7, 0, 3, 4)]

    def timestamp_search(self, timestamp_ms, from_offset, *, max_offset):
        self.searches.append((from_offset, max_offset))
        return self.steps.pop(0)()

    def max_timestamp_search(self):
        return self.steps.pop(0)()

    def missing_ranges(self):
        return list(self.missing)


class Archive:
    """Offsets 10 to 60 in the bucket."""

    start_offset, end_offset = LOG_START, 60

    def __init__(self) -> None:
        self.reads = []
        named = [
            AbortedTransaction(4, 17, 55, 55),
            AbortedTransaction(3, 12, 51, 51),
            AbortedTransaction(3, 58, 59, 59),
        ]
        self.answer = SimpleNamespace(parts=["remote"], size_bytes=9, next_offset=57, aborted=[*named, *named])
        self.holds = True
        self.asked = []
        self.found = [lambda: None]

    def read(self, reader, offset, max_bytes, *, min_one_batch):
        self.reads.append((reader, offset, max_bytes))
        return self.answer

    async def find_timestamp(self, timestamp_ms, from_offset, before_offset):
        self.asked.append((from_offset, before_offset))
        return self.found.pop(0)()

    async def find_max_timestamp(self, before_offset):
        self.asked.append(before_offset)
        return self.found.pop(0)()

    def throttle_ms(self, reader):
        return 250

    def crossed(self, reader, offset):
        self.last_crossing = (reader, offset)

    def may_hold(self, timestamp_ms, before_offset):
        return self.holds and before_offset == LOCAL_START


@pytest.fixture
def local():
    return LocalLog()


@pytest.fixture
def unified(local):
    partition = SimpleNamespace(
        log=local,
        others_have_it=False,
        topic_partition=local.topic_partition,
        topic_id=local.topic_id,
        high_watermark=HIGH_WATERMARK,
        last_stable_offset=STABLE,
        check_online=lambda: None,
    )
    return UnifiedLog(partition, SimpleNamespace(), Archive())


def batch(first, count=1):
    """A step that ends in a batch; what is looked for is its first record."""
    records = [Record(first + number, 5 + number, None, b"v") for number in range(count)]
    return BatchSearch(bytes(build_batch(records)), 5, LOG_START, END)


async def open_batch(search):
    return search.find()


async def find(unified, *, committed=False, search=open_batch):
    return await unified.find_timestamp(5, committed=committed, search=search)


def read(unified, offset, *, committed=False):
    limit = STABLE if committed else HIGH_WATERMARK
    return unified.read("me", offset, limit=limit, max_bytes=1000, committed=committed, min_one_batch=True)


@pytest.mark.parametrize("offset", [LOG_START - 1, END + 1])
def test_offsets_outside_are_out_of_range(unified, offset):
    """Below the log start and beyond the log end."""
    with pytest.raises(KafkaError) as refused:
        read(unified, offset)
    assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize(
    ("offset", "committed"), [(HIGH_WATERMARK, False), (END, False), (STABLE, True), (HIGH_WATERMARK, True)]
)
def test_a_read_at_or_above_the_limit_of_the_reader_is_empty(unified, local, offset, committed):
    """The high watermark, or the last stable offset for committed readers: they wait."""
    found = read(unified, offset, committed=committed)
    assert (found.size_bytes, found.next_offset, found.pending) == (0, offset, False)
    assert local.reads == []


@pytest.mark.parametrize("offset", [LOCAL_START, 55, 70])
def test_records_in_both_places_are_read_locally(unified, local, offset):
    """The archive is not asked, and the limit of the reader is handed on."""
    found = read(unified, offset)
    assert (found.parts, found.remote, found.aborted) == (["local"], False, [])
    assert local.reads == [(offset, 1000, HIGH_WATERMARK, True)]
    assert unified.remote.reads == []


@pytest.mark.parametrize("others_have_it", [True, False])
def test_an_answer_that_is_checked_is_no_longer_than_that_where_others_have_the_rest(
    unified, local, monkeypatch, others_have_it
):
    """A part that the disk does not give ends the connection while it is sent, each time: no other replica would ever lead."""
    checked = []
    monkeypatch.setattr("stratalog.broker.replicas.unified_log.check_batches", lambda *read: checked.append(read[:2]))
    monkeypatch.setattr("stratalog.broker.replicas.unified_log.CHECKED_BYTES_MAX", 7)
    unified.partition.others_have_it = others_have_it
    local.active_base_offset, local.gaps = END, SimpleNamespace(below=0)
    assert list(read(unified, LOCAL_START).parts) == ["local"]
    assert (len(local.reads), checked) == (1, [])
    read(unified, LOCAL_START)
    assert [one[1] for one in local.reads] == [1000, 1000, *([7] if others_have_it else [])]
    assert checked == [(["local"], LOCAL_START)]


@pytest.mark.parametrize("offset", [LOG_START, LOCAL_START - 1])
def test_records_held_by_the_archive_alone_are_read_there(unified, local, offset):
    """With the aborted transactions for committed readers only: each once, though every object has named it."""
    plain, committed = read(unified, offset), read(unified, offset, committed=True)
    assert (plain.parts, plain.remote, plain.aborted, plain.next_offset) == (["remote"], True, [], 57)
    assert committed.aborted == [(3, 12), (4, 17)]
    assert local.reads == []
    assert unified.remote.reads == [("me", offset, 1000)] * 2


def test_chunks_on_their_way_make_the_read_pending(unified):
    """The read returns no records now, and raises nothing."""
    unified.remote.answer = None
    found = read(unified, LOG_START)
    assert (found.pending, found.remote, found.size_bytes, found.next_offset) == (True, True, 0, LOG_START)
    assert found.throttle_ms == 250


def test_a_hole_of_the_archive_is_passed(unified, local):
    """Else a reader whose next records are not cached yet would ask for the hole for ever, and for nothing behind it."""
    after, hole = unified.remote.answer, SimpleNamespace(parts=[], size_bytes=0, next_offset=40, aborted=[])
    answers = [hole, after, hole, None]
    unified.remote.read = lambda reader, offset, *_, **__: unified.remote.reads.append(offset) or answers.pop(0)
    found = read(unified, LOG_START)
    assert (found.parts, found.next_offset, found.remote, found.pending) == (["remote"], 57, True, False)
    assert read(unified, LOG_START).pending
    assert unified.remote.reads == [LOG_START, 40, LOG_START, 40]
    assert local.reads == []


@pytest.mark.parametrize("hole_end", [LOCAL_START, HIGH_WATERMARK])
def test_a_hole_where_the_archive_ends_leads_to_the_local_disk(unified, local, hole_end):
    """As far as the reader may see."""
    unified.remote.answer = SimpleNamespace(parts=[], size_bytes=0, next_offset=hole_end, aborted=[])
    found = read(unified, LOG_START)
    assert (list(found.parts), found.remote) == (["local"] if hole_end < HIGH_WATERMARK else [], False)
    assert (found.next_offset, found.pending) == (hole_end + len(found.parts), False)
    assert local.reads == [(LOCAL_START, 1000, HIGH_WATERMARK, True)][: len(found.parts)]


def test_a_gap_below_the_disk_is_never_out_of_range(unified):
    """KAFKA_STORAGE_ERROR is retried by clients; OFFSET_OUT_OF_RANGE would let them jump over records."""
    unified.remote = None
    with pytest.raises(KafkaError) as refused:
        read(unified, LOG_START)
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR


def test_committed_local_reads_name_aborted_transactions(unified):
    """Those that touch the range that is returned, by first offset, as those of the archive."""
    assert read(unified, 60, committed=True).aborted == [(7, 51), (8, 60)]


def test_time_look_ups_begin_in_the_archive_only_if_it_may_hold_the_time(unified, local):
    """Neither without an archive nor where the whole log is on the disk."""
    assert unified.archived_part(5) is unified.remote
    unified.remote.holds = False
    assert unified.archived_part(5) is None
    unified.remote.holds = True
    local.local_log_start_offset = LOG_START
    assert unified.archived_part(5) is None
    unified.remote = None
    assert unified.archived_part(5) is None


async def test_times_are_looked_up_in_the_archive_first(unified, local):
    """Then on the local disk, if the archive has none."""
    unified.remote.found = [lambda: SimpleNamespace(offset=12)]
    assert (await find(unified)).offset == 12
    unified.remote.found = [lambda: None]
    local.steps = [lambda: batch(55)]
    assert (await find(unified)).offset == 55
    assert local.searches == [(LOCAL_START, HIGH_WATERMARK)]
    assert unified.remote.asked == [(LOG_START, LOCAL_START)] * 2


async def test_a_segment_evicted_during_a_look_up_is_looked_for_in_the_archive(unified, local):
    """The answer is the one that a scan of the whole log would give."""
    unified.remote.may_hold = lambda *_: True

    def evicted():
        local.local_log_start_offset = 70

    unified.remote.found = [evicted, lambda: SimpleNamespace(offset=65)]
    assert (await find(unified)).offset == 65
    assert unified.remote.asked == [(LOG_START, LOCAL_START), (LOCAL_START, 70)]


async def test_a_record_below_a_log_start_that_moved_meanwhile_is_no_answer(unified, local):
    """The search goes on behind it."""

    def deleted():
        local.log_start_offset = 30
        return SimpleNamespace(offset=12)

    unified.remote.found = [deleted, lambda: SimpleNamespace(offset=33)]
    assert (await find(unified)).offset == 33
    assert unified.remote.asked == [(LOG_START, LOCAL_START), (30, LOCAL_START)]


async def test_local_look_ups_stop_where_the_reader_must(unified, local):
    """At the high watermark or the last stable offset."""
    unified.remote = None
    local.steps = [lambda: None] * 2
    assert await find(unified) is None
    assert await find(unified, committed=True) is None
    assert local.searches == [(LOCAL_START, HIGH_WATERMARK), (LOCAL_START, STABLE)]


async def test_a_local_look_up_goes_on_behind_what_held_nothing(unified, local):
    """Behind a batch without the record, and where a long walk was interrupted."""
    unified.remote = None
    answers = [None, TimestampOffset(5, 75, 0)]

    async def search(_batch):
        return answers.pop(0)

    local.steps = [lambda: batch(55, 10), lambda: ScanOn(70), lambda: batch(75)]
    assert await find(unified, search=search) == (5, 75, 0)
    assert local.searches == [(LOCAL_START, HIGH_WATERMARK), (65, HIGH_WATERMARK), (70, HIGH_WATERMARK)]


async def test_a_segment_evicted_while_a_batch_is_opened_is_looked_for_in_the_archive(unified, local):
    """From behind that batch on."""
    unified.remote.may_hold = lambda *_: True
    unified.remote.found = [lambda: None, lambda: SimpleNamespace(offset=66)]
    local.steps = [lambda: batch(55, 10)]

    async def search(_batch):
        local.local_log_start_offset = 70

    assert (await find(unified, search=search)).offset == 66
    assert unified.remote.asked == [(LOG_START, LOCAL_START), (65, 70)]


async def test_the_newest_record_may_be_in_either_place(unified, local):
    """The archive is asked where it reaches further back; of equal times the earlier offset counts."""
    record = TimestampOffset(5, 55, -1)
    for archived, newest in ((None, record), ((4, 12, 0), record), ((5, 12, 0), (5, 12, 0)), ((6, 12, 0), (6, 12, 0))):
        local.steps = [lambda: batch(55)]
        unified.remote.found = [lambda found=archived: None if found is None else TimestampOffset(*found)]
        assert await unified.find_max_timestamp(open_batch) == newest
    local.steps = [lambda: None]
    local.local_log_start_offset = LOG_START
    assert await unified.find_max_timestamp(open_batch) is None
    assert unified.remote.asked == [LOCAL_START] * 4


def test_epochs_end_at_the_next_one_or_the_log_end(unified):
    """As the leader-epoch cache says."""
    assert unified.offset_for_leader_epoch(3) == (3, END)
