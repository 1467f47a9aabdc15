"""Tables on a terminal, as lines. A number, a size or a name of ordinary length is never broken over two lines."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from textwrap import wrap
from typing import Final

__all__ = ["column_widths", "ruled_lines"]

GAPS: Final = (2, 1)
"""Blanks between two columns, by preference."""
WHOLE_MAX: Final = 24
"""Cells up to this long stay on one line; longer texts, such as object keys, may go on over several."""


def column_widths(
    headings: Sequence[str], cells: Sequence[Sequence[str]], numeric: Sequence[bool], width: int
) -> tuple[int, list[int]] | None:
    """The gap between columns and the width of each, in characters, for a terminal of ``width`` characters.

    Numbers keep their whole width, other cells at least `WHOLE_MAX` of theirs, and a heading breaks between words only.
    None if there is no room even so.
    """
    columns = [[line[index] for line in cells] for index in range(len(headings))]
    whole = [max(map(len, (heading, *column)), default=0) for heading, column in zip(headings, columns, strict=True)]
    least = [
        max(
            max(map(len, heading.split()), default=1),
            max((len(cell) if number else min(len(cell), WHOLE_MAX) for cell in column), default=0),
        )
        for heading, column, number in zip(headings, columns, numeric, strict=True)
    ]
    for gap in GAPS:
        spare = width - sum(least) - gap * (len(headings) - 1)
        wanted = sum(whole) - sum(least)
        if spare >= wanted or (gap == GAPS[-1] and spare >= 0):
            return gap, _grown(least, whole, spare)
    return None


def _grown(least: Sequence[int], whole: Sequence[int], spare: int) -> list[int]:
    """``least``, with ``spare`` given out where columns lack most, up to ``whole``."""
    widths = list(least)
    lacking = sorted(range(len(widths)), key=lambda index: whole[index] - least[index])
    for position, index in enumerate(lacking):
        share = spare // (len(lacking) - position)
        more = min(share, whole[index] - least[index])
        widths[index] += more
        spare -= more
    return widths


def ruled_lines(
    headings: Sequence[str], cells: Sequence[Sequence[str]], numeric: Sequence[bool], width: int
) -> list[str]:
    """A table with a rule below its headings; on a terminal too narrow for it, each cell on a line of its own."""
    layout = column_widths(headings, cells, numeric, width)
    if layout is None:
        return _stacked(headings, cells)
    gap, widths = layout
    lines = _row([wrap(heading, size) for heading, size in zip(headings, widths, strict=True)], widths, numeric, gap)
    lines.append("─" * (sum(widths) + gap * (len(widths) - 1)))
    for line in cells:
        folded = [
            [cell[start : start + size] for start in range(0, len(cell), size)]
            for cell, size in zip(line, widths, strict=True)
        ]
        lines += _row(folded, widths, numeric, gap)
    return lines


def _row(texts: Sequence[Sequence[str]], widths: Sequence[int], numeric: Sequence[bool], gap: int) -> list[str]:
    """The lines of one row, whose cells are lists of lines."""
    return [
        (" " * gap)
        .join(
            text.rjust(size) if right else text.ljust(size)
            for text, size, right in zip(line, widths, numeric, strict=True)
        )
        .rstrip()
        for line in zip_longest(*texts, fillvalue="")
    ]


def _stacked(headings: Sequence[str], cells: Sequence[Sequence[str]]) -> list[str]:
    """Each row as lines of ``HEADING  cell``, with a blank line between rows."""
    longest = max(map(len, headings))
    lines: list[str] = []
    for line in cells:
        if lines:
            lines.append("")
        lines += [f"{heading.ljust(longest)}  {cell}" for heading, cell in zip(headings, line, strict=True)]
    return lines
