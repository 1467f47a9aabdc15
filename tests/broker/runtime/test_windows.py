"""Averages, maxima and rates of one or two windows."""

from stratalog.broker.runtime.windows import WINDOW_MS, Windows


def test_without_values_there_is_no_mean_and_no_largest():
    """The rate is 0."""
    windows = Windows()
    assert (windows.average(5), windows.maximum(5), windows.per_second(5)) == (None, None, 0.0)


def test_values_of_the_present_window_and_of_the_one_before_count():
    """Older ones are forgotten, also where nothing came since."""
    windows = Windows()
    for value in (1, 3):
        windows.note(value, 1000)
    assert (windows.average(1000), windows.maximum(1000)) == (2, 3)
    windows.note(8, 1000 + WINDOW_MS)
    assert (windows.average(1000 + WINDOW_MS), windows.maximum(1000 + WINDOW_MS)) == (4, 8)
    assert (windows.average(1000 + 2 * WINDOW_MS), windows.maximum(1000 + 2 * WINDOW_MS)) == (8, 8)
    windows.note(2, 1000 + 2 * WINDOW_MS)
    assert windows.average(1000 + 2 * WINDOW_MS) == 5
    assert windows.average(1000 + 5 * WINDOW_MS) is None


def test_a_rate_counts_at_least_one_whole_window():
    """A first value is no burst; after that it is the sum by the time that has passed."""
    windows = Windows()
    windows.note(60, 0)
    assert windows.per_second(0) == 2.0
    assert windows.per_second(WINDOW_MS) == 2.0
    windows.note(60, WINDOW_MS)
    assert windows.per_second(WINDOW_MS + WINDOW_MS // 2) == 120 / 45
