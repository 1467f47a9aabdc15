"""Tests of hot/loaded.py."""

from stratalog.hot.loaded import RecoveryReport


def test_an_uneventful_start_reports_nothing():
    """Zero, None and empty throughout, so that whoever looks sees only what happened."""
    report = RecoveryReport()
    assert (report.segments_checked, report.truncated_bytes, report.indexes_rebuilt) == (0, 0, [])
    assert report.damaged_offset is report.resume_offset is report.quarantine is None
