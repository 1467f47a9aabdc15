"""Sizes and time spans: one reading for commands, files and options of Spark."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from stratalog.quantities import parse_duration_ms, parse_size_bytes
from stratalog.wire.errors import Invalid

ROOT = Path(__file__).parent.parent
_UNITS = re.compile(r'kmgt|"t": 1 << 40|"d": 86_400_000')


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        ("-2", -2),
        ("100MiB", 100 << 20),
        ("1 gib", 1 << 30),
        ("7KiB", 7168),
        ("12b", 12),
        ("2MB", 2 << 20),
        ("2  kb", 2048),
        ("3g", 3 << 30),
        (" 3T ", 3 << 40),
    ],
)
def test_a_size_may_have_a_unit(text: str, expected: int) -> None:
    """Powers of 1024 in any spelling; negative numbers are Kafka's special values."""
    assert parse_size_bytes(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("-1", -1), ("500", 500), ("500ms", 500), ("15 MIN", 900_000), ("6h", 21_600_000), ("7 d", 604_800_000)],
)
def test_a_time_span_may_have_a_unit(text: str, expected: int) -> None:
    """From milliseconds to days."""
    assert parse_duration_ms(text) == expected


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (parse_size_bytes, "1 XB"),
        (parse_size_bytes, "1.5GiB"),
        (parse_size_bytes, "many"),
        (parse_size_bytes, "9" * 20),
        (parse_size_bytes, "٣"),
        (parse_duration_ms, "6 weeks"),
        (parse_duration_ms, ""),
    ],
)
def test_another_text_is_refused_with_an_example(parse: Callable[[str], int], text: str) -> None:
    """Never guessed."""
    with pytest.raises(Invalid, match=r"write (bytes, or 100MiB|milliseconds, or 6h)"):
        parse(text)


def test_sizes_are_read_in_one_place() -> None:
    """A second table of units would soon read another dialect."""
    tables = [
        str(path.relative_to(ROOT))
        for room in ("cli", "spark", "stratalog")
        for path in ROOT.joinpath(room).rglob("*.py")
        if _UNITS.search(path.read_text())
    ]
    assert tables == ["stratalog/quantities.py"]
