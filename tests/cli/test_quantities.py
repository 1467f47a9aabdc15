"""Sizes and time spans on the command line."""

from __future__ import annotations

import click
import pytest

from stratalog.cli.quantities import DURATION_MS, SIZE_BYTES, Quantity
from stratalog.quantities import parse_duration_ms


@pytest.mark.parametrize(("text", "number"), [("12", 12), ("100MiB", 100 << 20), ("1 GiB", 1 << 30), (7, 7)])
def test_sizes_become_bytes(text: str, number: int) -> None:
    """With or without a unit; a default that is a number stays it."""
    assert SIZE_BYTES.convert(text, None, None) == number


def test_times_become_milliseconds() -> None:
    """Negative ones only where they mean something."""
    assert DURATION_MS.convert("6h", None, None) == 21_600_000
    assert Quantity("time", parse_duration_ms, signed=True).convert("-1", None, None) == -1
    with pytest.raises(click.BadParameter, match="negative"):
        DURATION_MS.convert("-1", None, None)


def test_other_texts_are_refused() -> None:
    """With what to write."""
    with pytest.raises(click.BadParameter, match="write bytes, or 100MiB"):
        SIZE_BYTES.convert("1 XB", None, None)
