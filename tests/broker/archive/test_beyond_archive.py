"""The part of a log that lies beyond its archive."""

from types import SimpleNamespace

from stratalog.broker.archive.beyond_archive import Beyond, BeyondArchive
from stratalog.hot.segments.segment import SegmentInfo
from stratalog.wire.topic import TopicPartition

KEY = TopicPartition("t", 0)


class Log:
    """Two frozen segments and the active one; it counts how often they were listed."""

    first_base_offset = 0
    active_base_offset = 20
    log_end_offset = 25

    def __init__(self):
        self.listed = 0
        self.failing = False

    def segments(self):
        self.listed += 1
        if self.failing:
            raise OSError("gone")
        return [
            SegmentInfo(0, 10, 1000, "0.log", 77, 5, active=False),
            SegmentInfo(10, 20, 500, "10.log", -1, 5, active=False),
            SegmentInfo(20, 25, 300, "20.log", 99, 5, active=True),
        ]


def unified(log):
    """The log of a partition."""
    return SimpleNamespace(log=log, topic_partition=KEY)


def test_frozen_and_due_segments_wait():
    """The active segment is only at risk; so is what a copy lag holds back; an unknown time is none."""
    beyond, one = BeyondArchive(), unified(Log())
    assert beyond.of(one, 0, 99) == Beyond(2, 1500, 77, 77)
    assert beyond.of(one, 0, 10) == Beyond(1, 1000, 77, 77)
    assert beyond.of(one, 10, 99) == Beyond(1, 500, None, None)
    assert beyond.of(one, 20, 99) == Beyond(0, 0, None, 99)
    one.log.log_end_offset = 20
    assert beyond.of(one, 25, 99) == Beyond()


def test_segments_are_listed_again_only_where_a_border_has_moved():
    """Or where the partition was forgotten in between; a disk that fails is asked again."""
    log = Log()
    beyond, one = BeyondArchive(), unified(log)
    for _ in range(3):
        beyond.of(one, 0, 99)
        log.log_end_offset += 1
    assert log.listed == 1
    beyond.keep({KEY})
    beyond.of(one, 0, 99)
    assert log.listed == 1
    beyond.keep(set())
    beyond.of(one, 0, 99)
    assert log.listed == 2
    log.failing = True
    assert beyond.of(one, 10, 99) == Beyond()
    log.failing = False
    assert beyond.of(one, 10, 99).waiting_bytes == 500
