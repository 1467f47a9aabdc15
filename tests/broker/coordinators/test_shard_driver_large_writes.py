"""The driver of a coordinator shard and writes that are large: for a turn of the loop, for a segment, for any append."""

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from stratalog.broker.coordinators import batching
from stratalog.metadata.coordination import CoordinatorRecord, Reply, Write
from stratalog.wire import batch
from stratalog.wire.batch import iter_headers
from stratalog.wire.compression import Codec
from stratalog.wire.errors import ErrorCode

SEGMENT_BYTES = 10_000


@pytest.fixture
def small_segments(rig):
    """The log of the driver has segments of 10 kB."""
    log = rig.partition.log
    log.update_config(replace(log.config, segment_bytes=SEGMENT_BYTES))
    return rig


def sizes(rig) -> list:
    """The records of each batch in the log."""
    return [
        header.record_count
        for segment in rig.partition.log.segments()
        for _, header in iter_headers(Path(segment.path).read_bytes())
    ]


async def test_a_write_of_more_than_a_segment_is_several_appends_and_one_answer(small_segments, events):
    """It is refused otherwise; the shard that is loaded anew would ask for the same again, and so for ever."""
    driver = await small_segments.loaded()
    shard, token = driver.shard, events.Token()
    driver.ask(events.Put(token, {b"%d" % number: bytes(4_000) for number in range(5)}))
    await small_segments.until(lambda: token.answers)
    assert token.answers == ["done"]
    assert driver.shard is shard
    assert sizes(small_segments) == [2, 2, 1]


async def test_writes_of_one_turn_share_no_batch_that_is_larger_than_a_segment(small_segments, events):
    """They would be refused together."""
    driver = await small_segments.loaded()
    tokens = [events.Token() for _ in range(5)]
    for token in tokens:
        driver.ask(events.Put(token, {b"k": bytes(4_000)}))
    await small_segments.until(lambda: tokens[-1].answers)
    assert [token.answers for token in tokens] == [["done"]] * 5
    assert sizes(small_segments) == [2, 2, 1]


async def test_a_record_that_fits_into_a_segment_once_it_is_packed_is_written(small_segments, events):
    """offsets.topic.compression.codec: a group of many members may be a small part of its size then, and holds as a whole."""
    small_segments.driver._services.codec = Codec.GZIP
    driver = await small_segments.loaded()
    token, many = events.Token(), events.Token()
    driver.ask(events.Put(token, {b"k": bytes(3 * SEGMENT_BYTES)}))
    driver.ask(events.Put(many, {b"%d" % number: bytes(4_000) for number in range(5)}))
    await small_segments.until(lambda: many.answers)
    assert (token.answers, many.answers) == (["done"], ["done"])
    assert sizes(small_segments) == [1, 5]
    assert driver.shard.values[b"k"] == bytes(3 * SEGMENT_BYTES)


async def test_no_batch_is_packed_that_a_load_would_not_unpack(small_segments, events, monkeypatch):
    """It may be small then, but the partition would count as damaged at the next load, and at each one after."""
    for module in (batching, batch):
        monkeypatch.setattr(module, "DECOMPRESSED_BYTES_MAX", 2 * SEGMENT_BYTES)
    small_segments.driver._services.codec = Codec.GZIP
    driver = await small_segments.loaded()
    token, many = events.Token(), events.Token()
    driver.ask(events.Put(many, {b"%d" % number: bytes(4_000) for number in range(6)}))
    await small_segments.until(lambda: many.answers)
    driver.ask(events.Put(token, {b"k": bytes(3 * SEGMENT_BYTES)}))
    assert (many.answers, token.answers) == (["done"], [ErrorCode.UNKNOWN_SERVER_ERROR])
    await small_segments.until(lambda: driver.active)
    assert len(driver.shard.values) == 6
    assert sizes(small_segments) == [2, 2, 2]


async def test_a_record_of_more_than_a_segment_costs_the_state_once(small_segments, events, caplog):
    """Its client does not ask for it again, as after COORDINATOR_NOT_AVAILABLE; nothing else that this shard said is done."""
    driver = await small_segments.loaded()
    tokens = [events.Token() for _ in range(5)]
    driver.ask(events.Park(tokens[0]))
    driver.ask(events.Put(tokens[1], {b"k": b"lost"}))
    write = Write([CoordinatorRecord(b"k", bytes(SEGMENT_BYTES))], [Reply(tokens[2], "done")])
    behind = Write([CoordinatorRecord(b"l", b"of a shard that is gone")], [Reply(tokens[3], "done")])
    driver.shard.step = lambda _event, _now: [write, behind, "something", Reply(tokens[4], "an answer", durable=True)]
    driver.ask("event")
    lost = [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert [token.answers for token in tokens] == [lost, lost, [ErrorCode.UNKNOWN_SERVER_ERROR], lost, lost]
    assert small_segments.performed == []
    assert "keys-0 could not be written: RECORD_LIST_TOO_LARGE: a record of 10033 bytes" in caplog.text
    await small_segments.until(lambda: driver.active)
    after = events.Token()
    driver.ask(events.Put(after, {b"k": b"v"}))
    await small_segments.until(lambda: after.answers)
    assert driver.shard.values == {b"k": b"v"}
    assert sizes(small_segments) == [1]


async def test_a_shard_whose_load_asks_for_too_much_does_not_take_events(small_segments, events, monkeypatch):
    """Those who wait for a shard that is active are called when it is."""
    too_much = [[Write([CoordinatorRecord(b"k", bytes(SEGMENT_BYTES))])]]
    monkeypatch.setattr(events.Keys, "loaded", lambda _shard, _now: too_much.pop() if too_much else [])
    small_segments.driver.load()
    await small_segments.until(lambda: not too_much)
    assert small_segments.active == []
    await small_segments.until(lambda: small_segments.active)
    assert small_segments.driver.active


async def test_a_turn_of_the_loop_appends_no_more_than_keeps_others_waiting(rig, events, monkeypatch):
    """The rest goes with the next turns, in order; an answer that tells of it waits for it."""
    monkeypatch.setattr(batching, "TURN_BYTES_MAX", 10_000)
    driver = await rig.loaded()
    puts, durable = [events.Token() for _ in range(6)], events.Token()
    for number, token in enumerate(puts):
        driver.ask(events.Put(token, {b"k": b"%d" % number + bytes(4_000)}))
    driver.ask(events.Get(durable, durable=True))
    driver._flush()
    assert len(driver._queued) == 4
    driver.ask(events.Get(behind := events.Token(), durable=True))
    await asyncio.sleep(0)
    await rig.until(lambda: durable.answers and behind.answers)
    assert [token.answers for token in puts] == [["done"]] * 6
    assert durable.answers == [{b"k": b"5" + bytes(4_000)}]
    assert sizes(rig) == [2, 2, 2]


async def test_writes_that_wait_for_their_turn_fail_with_the_shard(rig, events, monkeypatch):
    """None of them is in the log, nor is any forgotten."""
    monkeypatch.setattr(batching, "TURN_BYTES_MAX", 10_000)
    driver = await rig.loaded()
    tokens = [events.Token() for _ in range(5)]
    for token in tokens[:4]:
        driver.ask(events.Put(token, {b"k": bytes(4_000)}))
    driver.ask(events.Get(tokens[4], durable=True))
    rig.partition.held_back = "a test"
    await rig.until(lambda: tokens[4].answers)
    assert [token.answers for token in tokens] == [[ErrorCode.COORDINATOR_NOT_AVAILABLE]] * 5
    rig.partition.held_back = None
    await rig.until(lambda: driver.active)
    assert sizes(rig) == []
