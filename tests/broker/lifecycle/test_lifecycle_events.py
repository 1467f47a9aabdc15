"""The words of the broker's machine."""

from stratalog.broker.lifecycle.lifecycle_events import End, LifecycleTimes


def test_a_process_that_was_not_asked_to_stop_ends_by_two_failures_only():
    """Any other end is that of a stop that was asked for."""
    assert [end for end in End if end.is_failure] == [End.NOT_REGISTERED_IN_TIME, End.DIRECTORY_NOT_REPORTED]


def test_the_times_are_those_of_kafka():
    """A session is several heartbeats long."""
    times = LifecycleTimes()
    assert (times.heartbeat_interval_ms, times.session_timeout_ms) == (2000, 9000)
    assert (times.registration_timeout_ms, times.directory_timeout_ms) == (60_000, 30_000)
