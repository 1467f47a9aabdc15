"""Looking at partitions for watchers: in slices, only changes, and not at all without watchers."""

import asyncio
import json
from contextlib import aclosing
from types import SimpleNamespace

import pytest

from stratalog.broker.archive.bucket_health import BucketHealth, BucketState
from stratalog.broker.http import tier_watch
from stratalog.broker.http.tier_watch import WATCHERS_MAX, TierWatch, TooManyWatchers
from stratalog.broker.workers.watch import WorkerState
from stratalog.hot.segments.segment import SegmentInfo
from stratalog.wire.topic import TopicPartition


class Time:
    """Both clocks, moved by the test."""

    def __init__(self):
        self.now = 100.0

    def monotonic(self):
        return self.now

    def wall_ms(self):
        return int(self.now * 1000)


class Log:
    """A log of ten records in a frozen segment and five in the active one."""

    log_start_offset = local_log_start_offset = first_base_offset = 0
    active_base_offset = 10
    log_end_offset = 15
    size_bytes = 1500
    config = SimpleNamespace(remote_storage_enable=True, remote_copy_disable=False)

    def __init__(self):
        self.listed = 0

    def segments(self):
        self.listed += 1
        return [
            SegmentInfo(0, 10, 1000, "0.log", 77, 5, active=False),
            SegmentInfo(10, 15, 500, "10.log", 88, 5, active=True),
        ]


class Broker:
    """As much of a node as is watched."""

    def __init__(self, count, tiered=()):
        self.clock = Time()
        self.logs = {TopicPartition("t", number): Log() for number in range(count)}
        self.unified = {
            key: SimpleNamespace(
                log=log,
                topic_partition=key,
                partition=SimpleNamespace(directory=SimpleNamespace(offline=None), leader=None, follower=None),
            )
            for key, log in self.logs.items()
        }
        facts = SimpleNamespace(trash_count=2, trash_bytes=70, job_count=1)
        remote = SimpleNamespace(start_offset=0, end_offset=5, size_bytes=600, object_count=1, facts=facts)
        removal = SimpleNamespace(leased_count=1)
        archive = SimpleNamespace(remote=remote, evictable_offset=3, corrupt=None, due_end=99, removal=removal)
        self.archive = archive
        self.remote = remote
        self.tiering = SimpleNamespace(
            health=BucketHealth(),
            bucket_state=BucketState("ok", None, ""),
            worker=WorkerState("io", 0.0, 0, ""),
            chunks=SimpleNamespace(books=SimpleNamespace(used_bytes=0, limit_bytes=10, hits=0, misses=0)),
            uploads=SimpleNamespace(running=[], waiting_count=0),
            watched=lambda unified: (archive, "held") if unified.topic_partition.partition in tiered else None,
        )
        self.metrics = SimpleNamespace(topics={})
        self.config = SimpleNamespace(bucket_url="memory:", node_id=1, boolean=lambda name: False)
        self.mounted = []
        self.cluster = lambda: None

    @property
    def led(self):
        return iter(list(self.unified.values()))


async def told(stream):
    """The next event, its data decoded."""
    event = await asyncio.wait_for(anext(stream), 10)
    return event.name, json.loads(event.data)


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    """Rounds follow each other at once."""
    monkeypatch.setattr(tier_watch, "ROUND_SECONDS", 0.0)


async def test_a_tiered_partition_is_measured_beyond_its_archive():
    """Bytes and ages of segments that reach beyond the remote end; nothing of the sort for others."""
    said, texts = await TierWatch(Broker(2, tiered={1})).snapshot()
    local, tiered = map(json.loads, texts)
    assert tiered["lag"] == {"offsets": 5, "bytes": 1000, "since_ms": 77}
    assert tiered["at_risk"] == {"offset": 5, "since_ms": 77}
    assert (tiered["remote_bytes"], tiered["read_back_end"], tiered["state"]) == (600, 3, "held")
    assert (local["tiered"], local["lag"]["bytes"], local["at_risk"]) == (False, 0, None)
    trash = {"items": 2, "size_bytes": 70, "leased_items": 1, "jobs": 1}
    assert (tiered["trash"], said["trash"], local["trash"]["items"]) == (trash, trash, 0)
    assert (said["partitions"], said["tiered_partitions"], said["lag"]["bytes"]) == (2, 1, 1000)


async def test_mounted_partitions_are_in_the_bucket_only():
    """No part of it waits or is at risk; a partition that cannot be served says so."""
    broker = Broker(0)
    log = SimpleNamespace(log_start_offset=2, log_end_offset=5)
    for number, held_back in enumerate((None, "its manifest is damaged")):
        unified = SimpleNamespace(log=log, topic_partition=TopicPartition("m", number))
        partition = SimpleNamespace(held_back=held_back)
        broker.mounted.append(SimpleNamespace(unified=unified, partition=partition, remote=broker.remote))
    said, texts = await TierWatch(broker).snapshot()
    well, damaged = map(json.loads, texts)
    assert well["spans"] == {"remote": 3, "both": 0, "waiting": 0, "local": 0, "missing": 0}
    assert (well["state_text"], well["problem"], well["at_risk"]) == ("read from the bucket only", None, None)
    assert (well["remote_bytes"], well["objects"], well["local_bytes"]) == (600, 1, 0)
    assert damaged["problem"] == "it cannot be served: its manifest is damaged"
    assert (said["partitions"], said["tiered_partitions"], said["problems"]) == (2, 2, 1)


async def test_segments_are_listed_again_only_where_a_border_has_moved():
    """Records that are appended move none."""
    broker = Broker(1, tiered={0})
    watch, (log,) = TierWatch(broker), broker.logs.values()
    await watch.snapshot()
    log.log_end_offset += 10
    await watch.snapshot()
    assert log.listed == 1
    broker.remote.end_offset = 10
    _, texts = await watch.snapshot()
    assert log.listed == 2
    assert json.loads(next(texts))["lag"] == {"offsets": 0, "bytes": 0, "since_ms": None}


async def test_undue_segments_do_not_wait():
    """A copy lag holds the frozen segment back: it is only here, and no lag."""
    broker = Broker(1, tiered={0})
    broker.archive.due_end = 0
    _, texts = await TierWatch(broker).snapshot()
    held_back = json.loads(next(texts))
    assert held_back["lag"] == {"offsets": 0, "bytes": 0, "since_ms": None}
    assert held_back["at_risk"] == {"offset": 5, "since_ms": 77}


async def test_the_loop_turns_while_thousands_are_looked_at():
    """At least once a slice."""
    turns = 0

    async def turn():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    turning = asyncio.create_task(turn())
    said, texts = await TierWatch(Broker(3000)).snapshot()
    assert turns >= 3000 // 16
    assert said["partitions"] == len(list(texts)) == 3000
    turning.cancel()


async def test_a_watcher_gets_everything_in_parts_and_then_only_changes():
    """No event has more than 500 rows, whatever happens at once."""
    broker = Broker(1200)
    watch = TierWatch(broker)
    async with aclosing(watch.events()) as stream:
        first = [await told(stream) for _ in range(5)]
        assert [name for name, _ in first] == ["begin", "summary", "rows", "rows", "rows"]
        assert [len(data["rows"]) for _, data in first[2:]] == [500, 500, 200]
        broker.logs["t", 7].log_end_offset = 99
        del broker.unified[TopicPartition("t", 8)]
        assert (await told(stream))[0] == "summary"
        _, data = await told(stream)
        assert [row["log_end"] for row in data["rows"]] == [99]
        assert data["gone"] == [["t", 8]]
    watch.close()


async def test_a_slow_watcher_gets_the_latest_once():
    """A row that changes several times before it listens again is one row: its memory is bounded by the partitions."""
    broker = Broker(3)
    watch = TierWatch(broker)
    async with aclosing(watch.events()) as slow:
        for _ in range(3):
            await told(slow)
        for end in range(20, 30):
            broker.logs["t", 1].log_end_offset = end
            await watch.snapshot()
        names = {}
        while "rows" not in names:
            name, data = await told(slow)
            names[name] = data
        assert [row["log_end"] for row in names["rows"]["rows"]] == [29]
    watch.close()


async def test_silence_is_broken_now_and_then():
    """Without changes the summary is still sent again: its time goes on."""
    broker = Broker(1)
    watch = TierWatch(broker)
    async with aclosing(watch.events()) as stream:
        for _ in range(3):
            await told(stream)
        broker.clock.now += 11
        name, data = await told(stream)
        assert (name, data["now_ms"]) == ("summary", 111_000)
    watch.close()


async def test_watchers_are_bounded_and_none_is_let_in_after_the_end():
    """One who goes makes room."""
    watch = TierWatch(Broker(1))
    streams = [watch.events() for _ in range(WATCHERS_MAX)]
    for stream in streams:
        await anext(stream)
    with pytest.raises(TooManyWatchers):
        await anext(watch.events())
    await streams[0].aclose()
    again = watch.events()
    assert (await anext(again)).name == "begin"
    watch.close()
    with pytest.raises(TooManyWatchers):
        await anext(watch.events())
    for stream in [*streams[1:], again]:
        assert [event.name async for event in stream][2:] == []


async def test_when_the_last_watcher_has_gone_nothing_runs():
    """The rounds end by themselves."""
    watch = TierWatch(Broker(1))
    async with aclosing(watch.events()) as stream:
        for _ in range(2):
            await told(stream)
        rounds = watch._rounds
        assert rounds is not None
    await asyncio.wait_for(rounds, 10)
    assert watch._rounds is None


async def test_a_partition_that_cannot_be_looked_at_hides_no_other():
    """A disk that fails is reported by those who read it; an offline one is a problem of its rows."""
    broker = Broker(2, tiered={0, 1})

    def broken():
        raise OSError(5, "Input/output error")

    broker.logs["t", 0].segments = broken
    broker.unified["t", 1].partition.directory.offline = OSError(5, "Input/output error")
    said, texts = await TierWatch(broker).snapshot()
    first, second = map(json.loads, texts)
    assert first["lag"] == {"offsets": 5, "bytes": 0, "since_ms": None}
    assert "offline" in second["problem"]
    assert said["problems"] == 1


async def test_leaders_and_copies_have_their_place_among_the_replicas():
    """A copy is archived by its leader: it waits for no upload, and before its local start it lacks nothing."""
    broker = Broker(2)
    led, copied = (unified.partition for unified in broker.unified.values())
    led.leader = SimpleNamespace(state=SimpleNamespace(replicas=frozenset((3, 1, 2)), in_sync=frozenset((2, 1))))
    copied.follower = SimpleNamespace(leader_id=2)
    broker.logs[TopicPartition("t", 1)].local_log_start_offset = 10
    _, texts = await TierWatch(broker).snapshot()
    leads, copy = map(json.loads, texts)
    assert (leads["leader"], leads["replicas"], leads["in_sync"]) == (1, [1, 2, 3], [1, 2])
    assert (copy["state"], copy["leader"], copy["replicas"]) == ("copy", 2, [])
    assert copy["spans"] == {"remote": 10, "both": 0, "waiting": 0, "local": 5, "missing": 0}
    assert copy["problem"] is None
