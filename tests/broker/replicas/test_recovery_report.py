"""The words of a broker about the logs it opened."""

from types import SimpleNamespace

import pytest

from stratalog.broker.replicas.recovery_report import RecoveryReport


def opened(**found):
    """A log whose recovery found this."""
    nothing = {
        "frozen_indexes_rebuilt": (),
        "segments_checked": 0,
        "indexes_rebuilt": (),
        "truncated_bytes": 0,
        "tail_offset": None,
        "tail_is_short": False,
        "damaged_offset": None,
        "reason": "bad",
        "quarantine": "aside",
        "resume_offset": 9,
    }
    return SimpleNamespace(topic_partition="t-0", recovery=SimpleNamespace(**nothing | found))


def test_clean_logs_say_nothing(caplog):
    """Opening a clean log and ending the report log no line."""
    report = RecoveryReport()
    report.add(opened())
    report.tell()
    assert caplog.messages == []


def test_the_cost_of_all_logs_is_one_line_and_is_written_once(caplog):
    """Segments, indexes and bytes are added up."""
    report = RecoveryReport()
    report.add(opened(segments_checked=2, indexes_rebuilt=("a",), truncated_bytes=5))
    report.add(opened(segments_checked=1, truncated_bytes=7))
    report.tell()
    report.tell()
    (line,) = caplog.messages
    assert "2 partitions were recovered: 3 segments verified, the indexes of 1 derived anew, 12 bytes" in line


@pytest.mark.parametrize(
    ("found", "level", "words"),
    [
        ({"frozen_indexes_rebuilt": ("0017",)}, "WARNING", "an index of 0017.log was missing or damaged"),
        ({"tail_offset": 4, "tail_is_short": True, "truncated_bytes": 3}, "WARNING", "ends at offset 4: 3 bytes"),
        ({"tail_offset": 4, "truncated_bytes": 3}, "ERROR", "ends at offset 4: 3 bytes"),
        ({"damaged_offset": 6}, "ERROR", "damaged at offset 6 (bad); the bytes are kept in aside, the log goes on at"),
    ],
)
def test_damage_is_logged_at_once(caplog, found, level, words):
    """With its partition, its place, and where the bytes are kept."""
    RecoveryReport().add(opened(**found))
    (line,) = caplog.records
    assert line.levelname == level
    assert line.getMessage().startswith("t-0")
    assert words in line.getMessage()
