"""Records that were read meanwhile beside those that are there afterwards."""

from bench.faults.answers import Found
from bench.faults.reading import live_faults


def records(*offsets):
    return {0: [Found(offset, None, b"%d" % offset) for offset in offsets]}


def test_a_reader_behind_the_end_is_no_fault():
    """Offsets of markers and removed records are in neither."""
    assert list(live_faults(records(0, 2, 3), records(0, 2, 3, 5))) == []


def test_a_record_that_is_gone_or_another_is_a_phantom():
    """The high watermark went back, or an aborted record was read."""
    assert "1 records were read and are not there" in next(live_faults(records(0, 1), records(0)))
    other = {0: [Found(0, None, b"x")]}
    assert "1 records were read and are not there" in next(live_faults(records(0), other))


def test_offsets_read_twice_or_passed_by_are_faults():
    """A reader that goes on from its position finds each record once."""
    assert "twice or out of order" in next(live_faults(records(0, 1, 0), records(0, 1)))
    assert "passed by 1 records, the first at offset 1" in next(live_faults(records(0, 2), records(0, 1, 2)))
