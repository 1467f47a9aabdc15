"""The collector is off for a while, and then as it was."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from stratalog.spark.environment.garbage_pause import garbage_pause


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    """On, whatever a test leaves."""
    gc.enable()
    yield
    gc.enable()


def test_the_collector_pauses_and_goes_on() -> None:
    """After errors and nested pauses, too."""
    with garbage_pause():
        assert not gc.isenabled()
        with pytest.raises(RuntimeError), garbage_pause():
            raise RuntimeError
        assert not gc.isenabled()
    assert gc.isenabled()


def test_a_collector_that_is_off_stays_off() -> None:
    """It is not ours to switch on."""
    gc.disable()
    with garbage_pause():
        assert not gc.isenabled()
    assert not gc.isenabled()


def test_it_decorates_functions() -> None:
    """Each call is a pause of its own."""

    @garbage_pause()
    def looked() -> bool:
        return gc.isenabled()

    assert [looked(), looked()] == [False, False]
    assert gc.isenabled()
