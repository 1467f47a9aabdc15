"""The conclusions from the reports that come anyway."""

from stratalog.broker.archive.bucket_health import BucketHealth
from stratalog.tier.messages import commands

FAILED = commands.FailedReport("connection refused", retriable=True)


def test_a_bucket_is_neither_up_nor_down_before_the_first_report():
    """A new health knows no answer, no failure and no error."""
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


def test_a_local_failure_says_nothing_about_the_bucket():
    """A segment that DeleteRecords has taken while it was on its way up, or a disk of the cache that is full."""
    health = BucketHealth()
    health.note(commands.FailedReport("No such file: 0.log", retriable=True, local=True), 10)
    assert (health.answered_ms, health.failing_since_ms, health.last_error) == (None, None, "")
    health.note(FAILED, 20)
    health.note(commands.FailedReport("No such file: 0.log", retriable=True, local=True), 30)
    assert (health.failing_since_ms, health.last_error) == (20, "connection refused")


def test_a_read_back_is_remembered():
    """Other answers do not count as one."""
    health = BucketHealth()
    health.note(commands.VerifiedUpTo(5), 10)
    health.note(commands.MovedReport(3, "moved"), 20)
    assert (health.read_back_ms, health.answered_ms) == (10, 20)


def test_it_fails_since_what_failed_was_asked_for():
    """Or since the last answer, if that came later."""
    health = BucketHealth()
    health.note(FAILED, 90, asked_ms=20)
    assert health.failing_since_ms == 20
    health.note(commands.MissingReport("k", "no k"), 100, asked_ms=30)
    health.note(FAILED, 190, asked_ms=40)
    assert health.failing_since_ms == 100


def test_the_state_is_known_before_a_command_has_failed():
    """A bucket that has left every request unanswered for seconds does not answer."""
    health = BucketHealth()
    assert health.state(10_000, 2.9) == ("unused", None, "")
    assert health.state(10_000, 5.0) == ("failing", 5_000, "no answer for 5 s; it is waited for")
    health.note(commands.MovedReport(3, "moved"), 10_000)
    assert health.state(10_000, 0.0) == ("ok", None, "")
    health.note(FAILED, 20_000, asked_ms=15_000)
    assert health.state(21_000, 0.0) == ("failing", 15_000, "connection refused")
