"""Readers of the archive: one GET however many wait, a cache that stays small, progress with a tiny one."""

import errno
import threading
import time
from functools import partial
from pathlib import Path

import pytest

from stratalog.broker.archive import upload_request
from stratalog.client.records import fetch, visible_records
from stratalog.hot.storage.filesystem import RealFilesystem
from stratalog.tier.objects.segment_object import SegmentRequest
from stratalog.tier.stores.faulty_store import Fault, FaultRule
from stratalog.wire.errors import KafkaError
from stratalog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from stratalog.wire.topic import TopicPartition


@pytest.fixture
def small_chunks(monkeypatch):
    """Objects of many chunks: about a kilobyte each."""
    monkeypatch.setattr(upload_request, "SegmentRequest", partial(SegmentRequest, chunk_bytes=1200))


def read_at_once(tiered, count, topic="t", partition=0):
    """Records of ``count`` readers that all begin now."""
    gate = threading.Barrier(count)
    answers = []

    def read():
        gate.wait()
        answers.append(tiered.read(topic, partition))

    threads = [threading.Thread(target=read) for _ in range(count)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(60)
    return answers


def test_many_readers_cost_one_get_a_chunk(tiered):
    """Chunk, footer and manifest are asked for once, however many wait for them."""
    tiered.topic("t", internal_segment_bytes=40_000)
    tiered.write("t", 100)
    tiered.roll("t")
    tiered.archived("t")
    objects = len(tiered.manifest("t").entries)
    before = tiered.gets
    answers = read_at_once(tiered, 8)
    assert answers == [tiered.written["t", 0]] * 8
    assert tiered.gets - before <= 2 * objects


def test_reading_ahead_crosses_objects_and_asks_for_neighbours_together(tiered, small_chunks):
    """A whole sequential read costs one footer an object and less than one GET a chunk."""
    tiered.topic("t", internal_segment_bytes=20_000)
    tiered.write("t", 200)
    tiered.archived("t")
    chunks = sum(entry.chunks_bytes for entry in tiered.manifest("t").entries) // 32
    objects = len(tiered.manifest("t").entries)
    assert chunks > 5 * objects
    before = tiered.gets
    tiered.check_reads("t")
    assert tiered.gets - before <= objects + 0.75 * chunks


@pytest.mark.story
@pytest.mark.parametrize("cache_bytes", [1, 3_000, 9_000])
def test_many_cold_readers_make_progress_with_a_tiny_cache(start_tiered, small_chunks, cache_bytes):
    """Even smaller than one chunk: every reader gets everything, and the cache stays as small as configured."""
    tiered = start_tiered(cache_bytes=cache_bytes, remote_fetch_max_wait_ms="20")
    tiered.topic("t", 2, internal_segment_bytes=6_000)
    for partition in (0, 1):
        tiered.write("t", 30, partition=partition)
        tiered.archived("t", partition)
    books = tiered.node.node.tiering.chunks.books
    largest = 2_500
    answers = []
    threads = [
        threading.Thread(target=lambda number=number: answers.append((number % 2, tiered.read("t", number % 2))))
        for number in range(4)
    ]
    chunks = tiered.node.node.tiering.chunks
    now_ms, shift = chunks._now_ms, [0]
    tiered.node.run(lambda: setattr(chunks, "_now_ms", lambda: now_ms() + shift[0]))
    for one in threads:
        one.start()
    seen = 0
    while any(one.is_alive() for one in threads):
        seen = max(seen, books.used_bytes)
        shift[0] += 2_000  # pins of readers that are done run out
        threads[0].join(0.05)
        for one in threads:
            one.join(0.01)
    assert sorted(answers) == sorted((number % 2, tiered.written["t", number % 2]) for number in range(4))
    assert seen <= max(cache_bytes, largest)
    on_disk = sum(path.stat().st_size for path in Path(chunks.directory).iterdir())
    assert on_disk <= max(cache_bytes, largest)


def test_a_sequential_reader_lets_chunks_go(start_tiered, small_chunks):
    """Reading far more than the cache holds needs no pin to run out: chunks are let go when they were read past."""
    tiered = start_tiered(cache_bytes=6_000)
    tiered.topic("t", internal_segment_bytes=8_000)
    tiered.write("t", 120)
    tiered.archived("t")
    clock = tiered.node.node.tiering.chunks
    now_ms = clock._now_ms()
    tiered.node.run(lambda: setattr(clock, "_now_ms", lambda: now_ms))
    client, position, records = tiered.node.client(), 0, []
    name = TopicPartition("t", 0)
    while position < 590:
        (found,) = fetch(client, {name: position}, partition_max_bytes=2_000)
        for _, batch in visible_records(found, position):
            records += batch
            position = batch[-1].offset + 1
    assert [one.value for one in records] == [one[2] for one in tiered.written["t", 0][: len(records)]]


def test_readers_that_are_gone_are_forgotten(tiered):
    """Neither streams nor pins of old connections stay."""
    tiered.topic("t")
    tiered.write("t", 40)
    tiered.archived("t")
    remote = tiered.node.run(lambda: tiered.node.partition("t").remote)
    for _ in range(10):
        tiered.check_reads("t")
    assert len(remote._streams) <= 10
    now_ms = remote._now_ms
    tiered.node.run(lambda: setattr(remote, "_now_ms", lambda: now_ms() + 31_000))
    tiered.read("t")
    assert len(remote._streams) <= 1


def cache_files(tiered):
    """The chunks on the disk, by name."""
    directory = Path(tiered.node.node.tiering.chunks.directory)
    return {path.name: path for path in directory.iterdir()}


def test_after_a_restart_the_cache_is_still_of_use(tiered, caplog):
    """No chunk is fetched again; a file that was damaged meanwhile is not served but fetched, and it alone."""
    tiered.topic("t", internal_segment_bytes=20_000)
    tiered.write("t", 100)
    tiered.archived("t")
    tiered.check_reads("t")
    files = cache_files(tiered)
    assert len(files) > 2
    tiered.node.stop()
    for path in list(files.values())[:1]:
        data = bytearray(path.read_bytes())
        data[100] ^= 1
        path.write_bytes(data)
    tiered.node.start()
    tiered.read("t", offset=499)  # the manifest and the tables are read again
    before = tiered.gets
    tiered.check_reads("t")
    objects = len(tiered.manifest("t").entries)
    assert tiered.gets - before <= objects + 1
    assert cache_files(tiered).keys() == files.keys()
    assert sum("fails its check" in one.getMessage() for one in caplog.records) == 1


def partition_fetch(topic, offset):
    """One partition of a fetch, by name."""
    return FetchTopic(
        topic=topic, partitions=[FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)]
    )


@pytest.mark.story
def test_a_client_over_its_budget_gets_a_throttle_time_and_all_records(start_tiered):
    """No error; its other records come at once, and without a throttle time."""
    name = "stratalog.remote.fetch.client.max.bytes.per.second"
    tiered = start_tiered(remote_fetch_max_wait_ms="50", **{name: "30000"})
    for topic in ("cold", "hot"):
        tiered.topic(topic, internal_segment_bytes=20_000)
    tiered.write("cold", 150)
    tiered.archived("cold")
    tiered.write("hot", 1)
    link = tiered.node.link()
    entries = tiered.manifest("cold").entries
    throttled = []
    for entry in entries:
        request = FetchRequest(
            max_wait_ms=50, min_bytes=1, max_bytes=1 << 20, topics=[partition_fetch("cold", entry.base)]
        )
        answer = link.call(request, 12)
        while not len(answer.responses[0].partitions[0].records):
            assert answer.responses[0].partitions[0].error_code == 0
            throttled.append(answer.throttle_time_ms)
            if answer.throttle_time_ms:
                request.topics = [partition_fetch("cold", entry.base), partition_fetch("hot", 0)]
                both = link.call(request, 12)
                assert both.throttle_time_ms == 0
                assert len(both.responses[1].partitions[0].records)
                request.topics = request.topics[:1]
            answer = link.call(request, 12)
        assert answer.throttle_time_ms == 0
    assert max(throttled) > 0
    assert tiered.node.run(lambda: tiered.node.node.tiering.chunks.admission.throttle_count) > 0
    tiered.check_reads("cold")


def test_hot_partitions_do_not_wait_for_cold_ones(tiered):
    """A fetch of both is answered with what is here; the other comes with a later one."""
    for topic in ("cold", "hot"):
        tiered.topic(topic)
    tiered.write("cold", 40)
    tiered.archived("cold")
    tiered.write("hot", 1)
    tiered.spoil(FaultRule(Fault.DELAY, "get_range", seconds=1.0))
    request = FetchRequest(
        max_wait_ms=20_000,
        min_bytes=1,
        max_bytes=1 << 20,
        topics=[partition_fetch("cold", 0), partition_fetch("hot", 0)],
    )
    link = tiered.node.link()
    cold, hot = (one.partitions[0] for one in link.call(request, 12).responses)
    assert (len(cold.records), cold.error_code) == (0, 0)
    assert len(hot.records)
    tiered.spoil()
    tiered.check_reads("cold")


def test_a_cache_disk_that_fails_takes_no_log_offline(tiered, monkeypatch):
    """Readers of the archive get an error that names the file, and the broker goes on; they read when the disk does."""
    tiered.topic("t")
    tiered.write("t", 20)
    tiered.archived("t")
    tiered.check_reads("t")
    chunks = tiered.node.node.tiering.chunks
    sound = RealFilesystem.open_read

    def fail(files, path):
        if path.startswith(chunks.directory):
            raise OSError(errno.EIO, "Input/output error", path)
        return sound(files, path)

    tiered.node.run(chunks._open.clear)  # more than 256 chunks do the same
    with monkeypatch.context() as patch:
        patch.setattr(RealFilesystem, "open_read", fail)
        with pytest.raises(KafkaError, match="KAFKA_STORAGE_ERROR"):
            tiered.read("t")
    assert not tiered.node.node.failed.is_set()
    assert tiered.node.partition("t").partition.directory.offline is None
    deadline = time.monotonic() + 30
    while not reads(tiered):
        assert time.monotonic() < deadline
        time.sleep(0.2)


def reads(tiered):
    """Whether a consumer gets everything: an error is remembered for some seconds."""
    try:
        tiered.check_reads("t")
    except KafkaError:
        return False
    return True
