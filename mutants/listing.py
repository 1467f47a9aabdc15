"""The list of bugs: what each replaces, and which tests must notice."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["Mutant", "part_of", "read_mutants"]

_LIST: Final = Path(__file__).with_name("mutants.toml")


@dataclass(frozen=True, slots=True)
class Mutant:
    """One bug: in ``file``, ``before`` becomes ``after``; ``tests`` are the files that must notice.

    ``says`` is the bug in the words of ``docs/safety.md``.
    """

    says: str
    file: str
    before: str
    after: str
    tests: tuple[str, ...]

    def planted(self, text: str) -> str:
        """The file's text with the bug. Raises `ValueError` unless ``before`` is there exactly once."""
        if text.count(self.before) != 1:
            raise ValueError(f"{self.file}: {self.before!r} is there {text.count(self.before)} times, once is expected")
        return text.replace(self.before, self.after)


def read_mutants() -> list[Mutant]:
    """The list, in its order."""
    listed = tomllib.loads(_LIST.read_text())["mutant"]
    return [Mutant(one["says"], one["file"], one["before"], one["after"], tuple(one["tests"])) for one in listed]


def part_of(mutants: Sequence[Mutant], part: str) -> list[Mutant]:
    """One part of several, such as ``2/5``: neighbours, which mostly share their tests; the parts together are the list.

    Raises `ValueError` where that is no such part.
    """
    number, slash, of = part.partition("/")
    if not (slash and number.isdecimal() and of.isdecimal() and 1 <= int(number) <= int(of)):
        raise ValueError(f"{part!r} is no part of the list: say 1/5 for the first of five")
    first, end = (len(mutants) * at // int(of) for at in (int(number) - 1, int(number)))
    return list(mutants[first:end])
