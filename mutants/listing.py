"""The list of bugs: what each replaces, and which tests must notice."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["Mutant", "read_mutants"]

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
