"""Facts of Kafka's design that must hold literally: log compaction."""

from pathlib import Path

import pytest

from stratalog.broker.runtime.slices import to_the_end
from stratalog.client.records import NewRecord
from stratalog.wire.batch import iter_headers

NEVER = {"log_cleaner_backoff_ms": 3_600_000}


@pytest.fixture
def broker(start_node):
    """It cleans when a test says so."""
    return start_node(**NEVER)


def put(broker, *keys: bytes, value: bytes | None = b"v" * 200, roll: bool = True) -> None:
    """One batch with these keys, then a new segment."""
    now_ms = broker.node.clock.wall_ms()
    broker.produce("t", *(NewRecord(value, now_ms, key=key, partition=0) for key in keys))
    if roll:
        broker.run(broker.partition("t").log.roll)


def clean(broker) -> int:
    """Look once and wait until nothing is being cleaned; cleanings so far."""
    broker.run(broker.node.compaction.look)
    broker.wait_until(lambda: broker.node.compaction.idle)
    return broker.node.compaction.cleanings


def offsets(broker, offset: int = 0) -> list[int]:
    return [record.offset for record in broker.read("t", offset=offset)]


def checkpoint(broker) -> str:
    return Path(broker.directory, "data", "cleaner-offset-checkpoint").read_text()


def test_a_ratio_of_half_is_no_run_and_one_above_runs(broker):
    """The active segment counts for neither; cleaner-offset-checkpoint is kept in Kafka's form."""
    broker.create("t", cleanup_policy="compact")
    put(broker, b"1", b"2")
    assert clean(broker) == 1
    assert checkpoint(broker) == "0\n1\nt 0 2\n"
    put(broker, b"3", b"4")
    put(broker, b"5", b"5", roll=False)
    assert clean(broker) == 1
    broker.run(broker.partition("t").log.roll)
    assert clean(broker) == 2
    assert checkpoint(broker) == "0\n1\nt 0 6\n"
    assert offsets(broker) == [0, 1, 2, 3, 5]
    broker.restart()
    assert clean(broker) == 0
    assert offsets(broker) == [0, 1, 2, 3, 5]


@pytest.mark.story
def test_the_active_segment_is_never_cleaned(broker):
    """Three more records of one key stay, though the ratio that makes a log dirty is one in a hundred."""
    broker.create("t", cleanup_policy="compact", min_cleanable_dirty_ratio="0.01")
    put(broker, b"1")
    put(broker, b"1", b"1", b"1", roll=False)
    clean(broker)
    assert offsets(broker) == [0, 1, 2, 3]


@pytest.mark.story
def test_offsets_are_kept_and_a_fetch_at_a_removed_one_gives_the_next(broker):
    """The log end, too, and ListOffsets by time gives what is left."""
    broker.create("t", cleanup_policy="compact")
    for number in range(5):
        put(broker, b"a", b"b%d" % number)
    assert clean(broker) == 1
    left = [1, 3, 5, 7, 8, 9]
    for offset in range(10):
        assert offsets(broker, offset) == [one for one in left if one >= offset]
    assert broker.end("t") == 10
    assert broker.end("t", timestamp=0) == 1


@pytest.mark.story
def test_a_reader_from_0_during_cleaning_ends_with_the_latest_value_of_each_key(start_node):
    """Small maps and segments, so that many cleanings overlap with what is written and read."""
    broker = start_node(log_cleaner_backoff_ms=1, log_cleaner_dedupe_buffer_size=400)
    broker.create("t", cleanup_policy="compact", internal_segment_bytes=4000, min_cleanable_dirty_ratio="0.01")
    latest: dict[bytes, tuple[int, bytes | None]] = {}
    for number in range(120):
        key, value = b"%d" % (number * 7 % 30), None if number % 11 == 0 else b"%d" % number * 50
        put(broker, key, value=value, roll=False)
        latest[key] = (number, value)
        if number % 10 == 9:
            for start in (0, number // 2):
                seen = {record.key: (record.offset, record.value) for record in broker.read("t", offset=start)}
                assert seen == {key: found for key, found in latest.items() if found[0] >= start}
    broker.wait_until(lambda: broker.node.compaction.cleanings > 3 and broker.node.compaction.idle)
    assert len(offsets(broker)) < 120


@pytest.mark.story
@pytest.mark.parametrize("retention_ms", [0, 86_400_000])
def test_a_tombstone_survives_the_first_clean_and_goes_after_its_retention_in_a_later_one(broker, retention_ms):
    """The batch says when: attribute bit 6, and the horizon in the place of the base timestamp."""
    broker.create("t", cleanup_policy="compact", delete_retention_ms=retention_ms, min_cleanable_dirty_ratio="0")
    put(broker, b"gone", b"here")
    put(broker, b"gone", value=None)
    put(broker, b"x")
    before_ms = broker.node.clock.wall_ms()
    assert clean(broker) == 1
    assert [(record.offset, record.value is None) for record in broker.read("t")] == [(1, False), (2, True), (3, False)]
    data = Path(broker.partition("t").log.segments()[0].path).read_bytes()
    horizons = [header.base_timestamp for _, header in iter_headers(data) if header.has_delete_horizon]
    assert len(horizons) == 1
    assert before_ms + retention_ms <= horizons[0] <= broker.node.clock.wall_ms() + retention_ms
    put(broker, b"y")
    assert clean(broker) == 2
    assert offsets(broker) == ([1, 3, 4] if retention_ms == 0 else [1, 2, 3, 4])


@pytest.mark.story
def test_compact_and_delete_do_both(broker):
    """Whole segments go by age, records by key."""
    broker.create("t", cleanup_policy="compact,delete", retention_ms=3_600_000, message_timestamp_type="CreateTime")
    old_ms = broker.node.clock.wall_ms() - 7_200_000
    broker.produce("t", NewRecord(b"old", old_ms, key=b"k", partition=0))
    broker.run(broker.partition("t").log.roll)
    put(broker, b"a", b"a")
    put(broker, b"b")
    broker.run(lambda: to_the_end(broker.node.housekeeping._retain()))
    assert clean(broker) == 1
    assert offsets(broker, 1) == [2, 3]
    assert broker.end("t", timestamp=-2) == 1
