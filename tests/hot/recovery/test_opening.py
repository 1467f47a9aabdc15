"""Tests of hot/recovery/opening.py."""

from stratalog.hot.recovery.opening import RecoveryReport


def test_an_uneventful_start_reports_nothing():
    """Zero, None and empty throughout, so that a test sees only its own changes."""
    report = RecoveryReport()
    assert (report.segments_checked, report.truncated_bytes, report.indexes_rebuilt) == (0, 0, [])
    assert report.damaged_offset is report.resume_offset is report.quarantine is None
