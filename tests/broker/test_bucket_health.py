"""What is concluded from the reports that come anyway."""

from stratalog.broker.bucket_health import BucketHealth
from stratalog.tier import commands

FAILED = commands.FailedReport("connection refused", retriable=True)


def test_nothing_is_known_before_the_first_report():
    """Neither that it answers nor that it fails."""
    health = BucketHealth()
    assert (health.answered_ms, health.failing_since_ms, health.last_error) == (None, None, "")


def test_it_fails_since_the_first_failure_and_until_any_answer():
    """An object that is missing is an answer, too; what was said last stays readable."""
    health = BucketHealth()
    health.note(FAILED, 10)
    health.note(commands.FailedReport("timed out", retriable=True), 20)
    assert (health.failing_since_ms, health.last_error) == (10, "timed out")
    health.note(commands.MissingReport("k", "no k"), 30)
    assert (health.answered_ms, health.failing_since_ms, health.last_error) == (30, None, "timed out")
    health.note(FAILED, 40)
    assert health.failing_since_ms == 40


def test_a_read_back_is_remembered():
    """Other answers do not count as one."""
    health = BucketHealth()
    health.note(commands.VerifiedUpTo(5), 10)
    health.note(commands.MovedReport(3, "moved"), 20)
    assert (health.read_back_ms, health.answered_ms) == (10, 20)
