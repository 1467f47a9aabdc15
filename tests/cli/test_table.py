"""Tables on a terminal: what must stay on one line stays on one line, at any width."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.cli.table import GAPS, WHOLE_MAX, column_widths, ruled_lines

STATUS = [
    "TOPIC",
    "PARTITION",
    "LOG START",
    "LOCAL START",
    "REMOTE END",
    "LOG END",
    "LOCAL",
    "REMOTE",
    "OBJECTS",
    "STATE",
]
NUMERIC = [False, *[True] * 5, False, False, True, False]
ROWS = [["flights", "0", "0", "148800", "148800", "148800", "73.1 MiB", "1000.0 KiB", "12", "held"]]
WORDS = st.text("abcdefg", min_size=1, max_size=12)


def test_eighty_columns_show_the_state_of_a_partition_without_broken_numbers() -> None:
    """Headings go on over two lines, between words."""
    assert ruled_lines(STATUS, ROWS, NUMERIC, 80) == [
        "TOPIC   PARTITION   LOG   LOCAL  REMOTE    LOG LOCAL    REMOTE     OBJECTS STATE",
        "                  START   START     END    END",
        "─" * 80,
        "flights         0     0  148800  148800 148800 73.1 MiB 1000.0 KiB      12 held",
    ]


def test_a_wide_terminal_shows_every_text_on_one_line() -> None:
    """With two blanks between columns."""
    heading, rule, row = ruled_lines(STATUS, ROWS, NUMERIC, 120)
    assert heading.split("  ")[0] == "TOPIC"
    assert len(heading) == len(rule) >= len(row)
    assert "  148800  " in row


def test_a_long_key_goes_on_over_several_lines_and_its_neighbours_do_not() -> None:
    """The key is whole when its lines are put together."""
    key = "topics/" + "x" * 110
    lines = ruled_lines(["PROBLEM", "KEY", "BYTES"], [["orphan", key, "123456789"]], [False, False, True], 80)
    assert lines[2].startswith("orphan  topics/")
    assert lines[2].endswith(" 123456789")
    assert "".join(line[8:70].replace("123456789", "").strip() for line in lines[2:]) == key


def test_a_terminal_too_narrow_for_a_table_shows_one_cell_a_line() -> None:
    """A blank line stands between rows."""
    assert ruled_lines(["NAME", "COUNT"], [["a" * 20, "12345"], ["b", "6"]], [False, True], 20) == [
        "NAME   aaaaaaaaaaaaaaaaaaaa", "COUNT  12345", "", "NAME   b", "COUNT  6",
    ]  # fmt: skip


@pytest.mark.story
@given(st.data(), st.integers(1, 200))
def test_no_number_and_no_short_text_is_broken_at_any_width(data: st.DataObject, width: int) -> None:
    """And no line is longer than the terminal, unless the cells stand on lines of their own."""
    count = data.draw(st.integers(1, 6))
    numeric = data.draw(st.lists(st.booleans(), min_size=count, max_size=count))
    headings = [" ".join(data.draw(st.lists(WORDS, min_size=1, max_size=3))) for _ in range(count)]
    cell = [st.integers(0, 10**18).map(str) if number else st.text("xyz", max_size=60) for number in numeric]
    cells = data.draw(st.lists(st.tuples(*cell).map(list), max_size=4))
    lines = ruled_lines(headings, cells, numeric, width)
    layout = column_widths(headings, cells, numeric, width)
    if layout is None:
        assert len(lines) == (len(cells) * (count + 1) - 1 if cells else 0)
        return
    gap, widths = layout
    assert gap in GAPS
    assert max(map(len, lines)) <= width
    for index, number in enumerate(numeric):
        assert all(len(word) <= widths[index] for word in headings[index].split())
        assert all(len(line[index]) <= widths[index] for line in cells if number or len(line[index]) <= WHOLE_MAX)
