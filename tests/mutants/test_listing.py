"""The list of planted bugs and the table of rules are one; `make mutants` plants them."""

import ast
import re
import tomllib
from functools import lru_cache
from pathlib import Path

import pytest

from mutants.listing import Mutant, part_of, read_mutants

ROOT = Path(__file__).resolve().parents[2]
MUTANTS = read_mutants()


@lru_cache(maxsize=16)
def statements(text: str) -> list[ast.stmt]:
    """Those of a Python file; rows of one file stand together, so they are kept for the next."""
    return ast.parse(text).body


def around(body: list[ast.stmt], line: int) -> str:
    """The syntax, without its formatting, of the method or the statement of a file in which a line is, or which follows it."""
    one = next((one for one in body if one.end_lineno >= line), body[-1])
    if isinstance(one, ast.ClassDef) and one.body[0].lineno <= line:
        return around(one.body, line)
    return ast.dump(one)


def means_something_else(mutant: Mutant, sound: str) -> bool:
    """Whether the file is valid with the bug and differs in more than its formatting, where the two texts part."""
    planted = mutant.planted(sound)
    if mutant.file.endswith(".toml"):
        return toml(planted) != toml(sound)
    lines = list(zip(planted.splitlines(), sound.splitlines(), strict=False))
    line = next((number for number, (one, other) in enumerate(lines, 1) if one != other), len(lines))
    return around(statements(planted), line) != around(statements(sound), line)


def toml(text: str) -> str:
    """The content of a TOML file without its formatting."""
    return repr(tomllib.loads(text))


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda one: one.says)
def test_a_bug_can_be_planted(mutant):
    """The text it replaces is there once, and the result is valid and means something else."""
    assert means_something_else(mutant, (ROOT / mutant.file).read_text())
    assert all((ROOT / name).is_file() for name in mutant.tests)


def test_the_table_of_rules_names_every_bug_and_no_other():
    """Sections 1 to 9 of docs/safety.md and those of the metadata quorum and its log, last column."""
    text = (ROOT / "docs" / "safety.md").read_text()
    quorum = text.split("## Metadata quorum")[1].split("\n## ")[0]
    log = text.split("## The metadata log of every node")[1].split("\n## ")[0]
    tables = text.split("## Coordinators")[0] + quorum + log[log.index("| rule |") :]
    rows = [row for row in re.findall(r"^\|.*\|$", tables, re.MULTILINE) if not re.match(r"\| (rule|---|-)", row)]
    named = {bug.strip() for row in rows for bug in re.split(r"(?<!\\)\|", row)[-2].split(";")} - {"---", ""}
    assert named == {mutant.says for mutant in MUTANTS}


def test_a_bug_is_listed_once():
    """Its words name it."""
    assert len({mutant.says for mutant in MUTANTS}) == len(MUTANTS)


def test_a_comment_more_is_no_bug():
    """It would be listed as one that no test has to notice."""
    sound = (ROOT / MUTANTS[0].file).read_text()
    line = next(line for line in sound.splitlines() if line.startswith("from __future__"))
    assert not means_something_else(Mutant("a comment", "a.py", line, f"{line}  # as ever", ()), sound)
    assert means_something_else(Mutant("a pass", "a.py", line, f"{line}\npass", ()), sound)


def test_a_place_that_is_not_there_or_there_twice_is_an_error():
    """A list that has fallen behind the code says so instead of planting nothing."""
    mutant = Mutant("a bug", "a.py", "x = 1", "x = 2", ())
    assert mutant.planted("x = 1\n") == "x = 2\n"
    for text in ("", "x = 1\nx = 1\n"):
        with pytest.raises(ValueError, match="once is expected"):
            mutant.planted(text)


def test_the_parts_are_the_list():
    """Also more parts than bugs; what is no part is said to be none."""
    for count in (1, 2, 7, len(MUTANTS), len(MUTANTS) + 1):
        parts = [part_of(MUTANTS, f"{number}/{count}") for number in range(1, count + 1)]
        assert [one for part in parts for one in part] == MUTANTS
        assert max(map(len, parts)) - min(map(len, parts)) <= 1
    for part in ("0/2", "3/2", "1", "/", "a/b", "-1/2"):
        with pytest.raises(ValueError, match="no part of the list"):
            part_of(MUTANTS, part)
