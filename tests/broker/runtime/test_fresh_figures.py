"""Figures that are counted at most once a second, at scrapes."""

from types import SimpleNamespace

import pytest

from stratalog.broker.runtime.fresh_figures import FreshFigures
from stratalog.broker.runtime.metrics import Metrics


class World:
    """Figures whose count is the number of counts, in two steps."""

    def __init__(self):
        self.metrics, self.counted, self.now = Metrics(), [], 100.0
        self.figures = FreshFigures(self.metrics, self.count, SimpleNamespace(monotonic=lambda: self.now))
        self.metrics.add_gauge("figure", "The figure.", lambda: [({}, self.figures.get())])

    def count(self):
        self.counted.append(self.now)
        yield
        return len(self.counted)

    def scrape(self):
        """The value that is shown."""
        return float(self.metrics.render().decode().split("\nfigure ")[1].split()[0])


def test_they_are_counted_at_scrapes_when_they_are_old():
    """Also when the count is nothing."""
    world = World()
    assert world.counted == []
    assert [world.scrape(), world.scrape()] == [1, 1]
    world.now = 100.9
    assert world.scrape() == 1
    world.now = 101.0
    assert world.scrape() == 2
    assert world.counted == [100.0, 101.0]


def test_a_count_may_take_longer_than_its_figures_are_fresh():
    """They are shown all the same: no figure is counted at once, in one step, because time has passed."""
    world = World()
    parts = world.metrics.exposition()
    assert next(parts) is None
    world.now = 200.0
    assert b"figure 1.0" in b"".join(part for part in parts if part)
    assert world.counted == [100.0]


def test_figures_that_no_scrape_has_counted_are_an_error():
    """A pass over everything outside of a scrape would hold the loop."""
    with pytest.raises(RuntimeError, match="outside of a scrape"):
        World().figures.get()
