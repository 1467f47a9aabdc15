"""Tests of hot/recovery/set_aside.py with batches whose base offset, which no CRC covers, is another one than it was.

Where offsets may be missing such a batch follows the ones before it, and the next one goes back.
"""

from pathlib import Path

import pytest
from msgspec.structs import replace

from stratalog.hot.config import LogConfig
from stratalog.hot.log.read import check_batches
from stratalog.hot.segments.scan import UnreadableBatch

CONFIG = LogConfig(cleanup_policy=frozenset({"compact"}), index_interval_bytes=12_000)
TIERED = LogConfig(cleanup_policy=frozenset({"compact"}), index_interval_bytes=12_000, remote_storage_enable=True)
END = 111


def path(bench, base):
    return Path(f"{bench.directory}/{base:020d}.log")


@pytest.fixture(params=[12_000, 400])
def interval_bytes(request):
    return request.param


@pytest.fixture
def log(bench, interval_bytes):
    """Segments [0,100), [100,110) and an active one, of one record a batch."""
    log = bench.open(replace(CONFIG, index_interval_bytes=interval_bytes))
    for count in (100, 10, 1):
        for _ in range(count):
            bench.append(log)
        if count > 1:
            log.roll()
    log.sync()
    log.compaction.expect_gaps(END, END)
    return log


def move(bench, log, offset: int, bit: int) -> int:
    """Flip a bit of the base offset of the batch at ``offset``; the position of the one behind it."""
    position, header = log._segments[0].locate(offset)
    data = bytearray(path(bench, 0).read_bytes())
    data[position + 7] ^= 1 << bit
    path(bench, 0).write_bytes(data)
    return position + header.size_bytes


def offsets(bench, log, first: int) -> list[int]:
    return [header.base_offset for header in bench.headers(log, first)]


def ranges(log):
    return [(one.base_offset, one.end_offset) for one in log.missing_ranges()]


def check_rest(bench, log) -> None:
    """The segments behind the damaged one are whole, and none lies over the files of another."""
    bases = [segment.base_offset for segment in log.segments()]
    assert bases == sorted(set(bases))
    assert offsets(bench, log, 100) == list(range(100, END))


@pytest.mark.parametrize(("offset", "bit"), [(67, 5), (67, 4), (98, 0), (64, 0), (0, 1)])
def test_a_batch_that_moved_up_is_missing_itself_and_no_other_segment_is(bench, log, offset, bit):
    """Also one that seems to end where the next segment begins: a missing range of no offsets would have its files."""
    behind = move(bench, log, offset, bit)
    found = log.read(offset, max_bytes=1 << 20, max_offset=END)
    with pytest.raises(UnreadableBatch) as met:
        check_batches(found.parts, offset, log.gaps.below)
    assert met.value.position == behind
    log.set_aside(met.value)
    assert ranges(log) == [(offset, 100)]
    check_rest(bench, log)
    log.close()
    again = bench.open(CONFIG)
    assert ranges(again) == [(offset, 100)]
    check_rest(bench, again)


@pytest.mark.parametrize("interval_bytes", [12_000], indirect=True)
@pytest.mark.parametrize(
    ("config", "clean", "point"), [(CONFIG, True, END), (TIERED, True, END), (TIERED, False, END), (TIERED, False, 0)]
)
def test_a_start_that_finds_it_leaves_the_next_segment_alone(bench, log, config, clean, point):
    """After any stop."""
    log.close()
    move(bench, bench.open(CONFIG), 98, 0)
    again = bench.open(config, clean=clean, recovery_point=point)
    assert ranges(again) == [(98, 100)]
    check_rest(bench, again)
    again.close()
    check_rest(bench, bench.open(config))


@pytest.mark.parametrize("config", [CONFIG, TIERED])
def test_bytes_behind_the_last_batch_of_a_segment_leave_no_range(bench, log, config):
    """They are kept, and cut off."""
    log.close()
    with path(bench, 0).open("ab") as file:
        file.write(b"\1" * 100)
    again = bench.open(config)
    assert ranges(again) == []
    assert offsets(bench, again, 0) == list(range(END))
    assert again.recovery.quarantine is not None
