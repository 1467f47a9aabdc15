"""Figures that are counted at most once a second."""

from types import SimpleNamespace

from stratalog.broker.runtime.fresh_figures import FreshFigures


def test_they_are_counted_when_they_are_asked_for_and_old():
    """Also when the count is nothing."""
    counted = []
    clock = SimpleNamespace(now=100.0)
    clock.monotonic = lambda: clock.now
    figures = FreshFigures(lambda: counted.append(clock.now) or len(counted), clock)
    assert counted == []
    assert [figures.get(), figures.get()] == [1, 1]
    clock.now = 100.9
    assert figures.get() == 1
    clock.now = 101.0
    assert figures.get() == 2
    assert counted == [100.0, 101.0]
