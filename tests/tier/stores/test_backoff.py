from __future__ import annotations

from stratalog.tier.stores.backoff import Backoff, BackoffSettings


def test_waits_double_up_to_the_cap():
    """500 ms, 1 s, 2 s ... 60 s, also after thousands of failures."""
    settings = BackoffSettings()
    assert [settings.wait_ms(n, 0.999999) for n in (1, 2, 3)] == [499, 999, 1999]
    assert settings.wait_ms(5000, 0.0) == 30_000


def test_jitter_spreads_over_the_upper_half():
    """No wait is shorter than half of the whole one."""
    settings = BackoffSettings(1000, 1000)
    assert (settings.wait_ms(1, 0.0), settings.wait_ms(1, 0.5)) == (500, 750)


def test_one_request_at_a_time_and_none_before_its_time():
    """After a failure the next start waits; after a success it does not."""
    backoff, settings = Backoff(), BackoffSettings(1000, 1000)
    assert backoff.may_start(0)
    backoff.start()
    assert not backoff.may_start(10)
    backoff.fail(settings, 0.0, 10)
    assert not backoff.may_start(509)
    assert backoff.may_start(510)
    backoff.start()
    backoff.succeed()
    assert backoff.may_start(0)


def test_pauses_begin_anew_when_the_cause_may_be_over():
    """The next start waits no longer, and the pause after it is as short as the first; one under way is let be."""
    backoff, settings = Backoff(), BackoffSettings(1000, 60_000)
    for _ in range(9):
        backoff.fail(settings, 0.0, 10)
    backoff.resume()
    assert backoff.may_start(10)
    backoff.start()
    backoff.resume()
    assert not backoff.may_start(10)
    backoff.fail(settings, 0.0, 10)
    assert backoff.not_before_ms == 510
