"""Views opened over a store in memory: in steps, within bounds, by the word of leaders, and none of a topic that has gone."""

from __future__ import annotations

import asyncio
import errno
import gc
import weakref
from dataclasses import replace
from types import SimpleNamespace

import pytest
from msgspec import structs

from stratalog.broker.cold.admission import ColdAdmission
from stratalog.broker.cold.chunk_files import ChunkFiles
from stratalog.broker.replicas.partition_table import PartitionTable
from stratalog.broker.runtime.clock import SystemClock
from stratalog.broker.views import views
from stratalog.broker.views.bounded_archive import TailFile
from stratalog.metadata.image.image import ClusterImage
from stratalog.metadata.image.topics_image import PartitionImage, TopicImage, TopicsImage
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.reading.cache import CacheLimits
from stratalog.tier.reading.fetch_budgets import FetchRates
from stratalog.tier.stores.memory_store import MemoryStore
from stratalog.tier.work.archive_writer import archive_log
from stratalog.tier.work.work import Worker
from stratalog.wire.batch import Record, build_batch
from stratalog.wire.errors import ErrorCode, KafkaError

ORDERS = b"orders".ljust(16)
START_MS = 1_700_000_000_000


class Opener:
    """The views of a broker that hosts nothing, over a topic of so many partitions, each of two chunks."""

    def __init__(self, directory, partitions) -> None:
        self.store = MemoryStore()
        for number in range(partitions):
            for base in (0, 8):
                records = [Record(at, START_MS + at, None, b"v" * 100) for at in range(base, base + 8)]
                data = b"".join(bytes(build_batch([one], leader_epoch=0)) for one in records)
                archive_log(self.store, PartitionId("orders", ORDERS, number), [data], now_ms=1)
        admission = ColdAdmission(
            FetchRates,
            client_of=str,
            wake=lambda _reader: None,
            now_ms=lambda: 1,
            later=lambda _seconds, _call: SimpleNamespace(cancel=lambda: None),
        )
        state = PartitionImage((1,), (1,), leader=1)
        topic = TopicImage("orders", ORDERS, dict.fromkeys(range(partitions), state))
        self.image = ClusterImage(topics=TopicsImage({ORDERS: topic}, {"orders": topic}))
        self.table = PartitionTable(lambda: self.image)
        self.views = views.Views(
            views.ViewServices(
                node_id=1,
                clock=SystemClock(),
                image=lambda: self.image,
                partitions=self.table,
                submit=self.submit,
                chunks=ChunkFiles(
                    f"{directory}/cache", CacheLimits(1 << 20), self.submit, lambda: 1, admission=admission
                ),
                search=None,
                wake=lambda _unified: None,
            )
        )

    def submit(self, command, answered) -> None:
        """Carry a command out; the report comes in a later turn."""
        asyncio.get_running_loop().call_soon(answered, Worker(self.store).execute(command))


async def test_a_view_of_many_partitions_leaves_others_their_turns(tmp_path):
    """Each of its partitions may have megabytes of small batches; a file of its own would take a descriptor each."""
    opener = Opener(tmp_path, 40)
    turns = 0

    async def count():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    assert await opener.views.open(f"orders@{START_MS + 5}") is ErrorCode.NONE
    counting.cancel()
    assert turns >= 40
    shown = [opener.table.readable_by_name(f"orders@{START_MS + 5}", number) for number in range(40)]
    assert {one.log.log_end_offset for one in shown} == {5}
    assert len({one.remote._tail._file for one in shown}) == 1


async def test_a_view_that_finds_no_room_leaves_nothing_behind(tmp_path, monkeypatch):
    """Its client asks again."""
    opener, name, keep = Opener(tmp_path, 3), f"orders@{START_MS + 5}", TailFile.keep
    kept = []

    def full(tails, tail):
        kept.append(tail)
        if len(kept) == 2:
            raise OSError(errno.ENOSPC, "no room")
        return keep(tails, tail)

    monkeypatch.setattr(TailFile, "keep", full)
    assert await opener.views.open(name) is ErrorCode.LEADER_NOT_AVAILABLE
    assert not any(opener.table.has_view(name, number) for number in range(3))
    assert await opener.views.open(name) is ErrorCode.NONE
    assert all(opener.table.has_view(name, number) for number in range(3))


async def test_a_view_that_is_refused_leaves_no_file_and_no_ranges_behind(tmp_path, monkeypatch):
    """Clients ask for it again and again until its last records are archived."""
    opener, name = Opener(tmp_path, 3), f"orders@{START_MS + 13}"
    files = []

    class Kept(TailFile):
        def __init__(self):
            super().__init__()
            files.append(weakref.ref(self._file))

    async def refuse(_timestamp_ms, read):
        if any(one.partition == 2 for one in read):
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "not archived yet")

    monkeypatch.setattr(views, "_AT_ONCE", 1)
    monkeypatch.setattr(views, "TailFile", Kept)
    monkeypatch.setattr(opener.views, "_check_covered", refuse)
    for _ in range(3):
        assert await opener.views.open(name) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    gc.collect()
    assert [file() for file in files] == [None] * 3
    assert opener.views._ranges.entry_count == 0


@pytest.mark.parametrize(
    ("end", "code"),
    [
        (None, ErrorCode.LEADER_NOT_AVAILABLE),
        (16, ErrorCode.NONE),
        (17, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
async def test_a_time_behind_the_archive_is_shown_by_the_word_of_the_leader(tmp_path, end, code):
    """A broker that has no copy, or has not opened it, does not know whether the log goes on."""

    class Leaders:
        async def ends_at(self, timestamp_ms, archived):
            assert (timestamp_ms, set(archived.values())) == (START_MS + 99, {16})
            return dict.fromkeys(archived, end)

    opener = Opener(tmp_path, 1)
    if end is not None:
        opener.views._services = structs.replace(opener.views._services, leaders=Leaders())
    assert await opener.views.open(f"orders@{START_MS + 99}") is code
    assert opener.table.has_view(f"orders@{START_MS + 99}", 0) == (code is ErrorCode.NONE)


async def test_a_view_of_a_time_goes_with_its_topic(tmp_path):
    """Another topic of the name has other records; that of a cut stays."""
    opener, name = Opener(tmp_path, 1), f"orders@{START_MS + 5}"
    assert await opener.views.open(name) is ErrorCode.NONE
    assert not opener.views.to_open(name)
    (topic,) = opener.image.topics.by_id.values()
    again = replace(topic, topic_id=b"2" * 16)
    opener.image = ClusterImage(topics=TopicsImage({again.topic_id: again}, {"orders": again}))
    assert opener.views.to_open(name)
    opener.image = ClusterImage()
    assert opener.views.to_open(name)
    assert await opener.views.open(name) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert not opener.table.has_view(name, 0)


async def test_all_views_share_the_bound_of_ranges_in_memory(tmp_path):
    """A topic may have a million of them, and 32 of its views be open."""
    opener = Opener(tmp_path, 3)
    opener.views._ranges.entries_max = 2
    for end in (11, 13):
        assert await opener.views.open(f"orders@{START_MS + end}") is ErrorCode.NONE
    assert opener.views._ranges.entry_count == 2
    shown = [opener.table.readable_by_name(f"orders@{START_MS + end}", 0) for end in (11, 13)]
    assert [one.log.log_end_offset for one in shown] == [11, 13]


async def test_views_keep_few_bytes_of_tails_together(tmp_path, monkeypatch):
    """The one asked for longest ago goes; one alone may have more."""
    monkeypatch.setattr(views, "_TAIL_BYTES_MAX", 1)
    opener = Opener(tmp_path, 1)
    for end in (3, 5):
        assert await opener.views.open(f"orders@{START_MS + end}") is ErrorCode.NONE
    assert [opener.table.has_view(f"orders@{START_MS + end}", 0) for end in (3, 5)] == [False, True]
