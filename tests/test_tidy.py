"""The rules of the house, checked over every file."""

import ast
import gc
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("wire", "client", "hot", "tier", "metadata", "broker", "spark", "cli")
OTHERS = ("pyspark_stratalog", "localstack", "bench", "demo", "sim", "mutants", "docs", "kernel")
FILE_LINES_MAX = 420
FUNCTION_LINES_MAX = 60
MIRRORED_FROM_LINES = 40

FLOOR_FILES_MAX = 27
"""Source files in one folder: as many as a reader takes in at one look."""

WIDE_FOLDERS = {
    "broker/api": "a file for each API",
    "wire/messages": "a file for each message",
    "bench/cells": "a file for each cell of the table",
}

LONG_FILES: dict[str, str] = {}
LONG_FUNCTIONS: dict[str, str] = {}
UNMIRRORED: dict[str, str] = {}

BANNED_NAMES = re.compile(r"(^|_)(utils?|helpers?|common|misc|stuff)(_|$)")
BANNED_WORDS = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
TEST_CASES = re.compile(r"^(Test\w+) = \w+\.TestCase$", re.MULTILINE)
MACHINE_PATHS = re.compile(r"(?<![\w{}<>.$~*/-])/(?:root|work|home)/[\w.]")


def python_files(*folders: str) -> Iterator[Path]:
    """Every Python file below these folders of the repository."""
    for folder in folders:
        yield from sorted((ROOT / folder).rglob("*.py"))


def name_of(path: Path) -> str:
    """The path below the repository, as exceptions are listed."""
    return path.relative_to(ROOT).as_posix()


SOURCES = [path for path in [*python_files(*ROOMS, *OTHERS), ROOT / "conftest.py"] if "build" not in path.parts]
TESTS = list(python_files("tests"))


BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")
"""Attributes of syntax trees that hold statements."""


@cache
def parsed(path: Path) -> ast.Module:
    """The syntax tree of a file, parsed once for all tests."""
    return ast.parse(path.read_text())


@cache
def functions(path: Path) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Every function and method of a file. Functions stand in blocks of statements, so expressions are passed over."""
    found, blocks = [], [parsed(path)]
    while blocks:
        block = blocks.pop()
        inside = [one for name in BLOCKS for one in getattr(block, name, ())]
        found += [one for one in inside if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]
        blocks += inside
    return found


@pytest.fixture(scope="module", autouse=True)
def everything_is_parsed() -> None:
    """Parse before the tests, so that the first of them does not pay for all in its budget of CPU time."""
    gc.disable()  # the trees stay: with each file the collector had more to look through
    try:
        for path in SOURCES + TESTS:
            functions(path)
    finally:
        gc.enable()
        gc.freeze()


def over(found: dict[str, int], allowed: dict[str, str], limit: int) -> dict[str, int]:
    """The entries above the limit that are not allowed."""
    return {name: lines for name, lines in found.items() if lines > limit and name not in allowed}


def test_files_are_short():
    """A file that cannot be read in one go is split, or named above with its reason."""
    lines = {name_of(path): len(path.read_text().splitlines()) for path in SOURCES + TESTS}
    assert over(lines, LONG_FILES, FILE_LINES_MAX) == {}
    assert {name for name in LONG_FILES if lines.get(name, 0) <= FILE_LINES_MAX} == set(), "no longer needed"


def test_no_folder_is_a_crowd():
    """Rooms have rooms: what stands together is found in one look."""
    count = Counter(path.parent for path in SOURCES if path.name != "__init__.py")
    wide = {folder.relative_to(ROOT).as_posix(): files for folder, files in count.items() if files > FLOOR_FILES_MAX}
    assert wide.keys() == WIDE_FOLDERS.keys()


def test_every_room_has_a_charter():
    """The first line of a package says what it is for."""
    packages = [path for path in SOURCES if path.name == "__init__.py"]
    assert [name_of(path) for path in packages if not ast.get_docstring(ast.parse(path.read_text()))] == []


def test_functions_are_short():
    """Docstring included."""
    lines = {
        f"{name_of(path)}:{node.name}": (node.end_lineno or node.lineno) - node.lineno + 1
        for path in SOURCES + TESTS
        for node in functions(path)
    }
    assert over(lines, LONG_FUNCTIONS, FUNCTION_LINES_MAX) == {}


@pytest.fixture
def top_conftest() -> ModuleType:
    """The top ``conftest.py`` as a module of the test's own."""
    spec = spec_from_file_location("top_conftest", ROOT / "conftest.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_costly_test_exists(top_conftest):
    """`COSTLY_TESTS` names functions of tests, and `UNLIMITED` the markers that are left out by default."""
    tests = {f"{name_of(path)}::{node.name}" for path in TESTS for node in functions(path)}
    methods = {f"{name_of(path)}::{name}::runTest" for path in TESTS for name in TEST_CASES.findall(path.read_text())}
    assert set(top_conftest.COSTLY_TESTS) - tests - methods == set()
    options = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]["addopts"]
    assert set(re.findall(r"not (\w+)", options[-1])) == top_conftest.UNLIMITED


@pytest.mark.parametrize(("name", "fails"), [("test_a", True), ("test_a[1]", True), ("test_named[1]@spark", False)])
def test_a_test_over_its_budget_of_cpu_time_fails_unless_it_is_named(top_conftest, monkeypatch, name, fails):
    """Parameters and groups are no part of the name."""
    monkeypatch.setattr(top_conftest, "CPU_SECONDS_MAX", 0.0)
    monkeypatch.setattr(top_conftest, "COSTLY_TESTS", {"tests/x.py::test_named": "a reason"})
    hook = top_conftest.pytest_runtest_call(SimpleNamespace(nodeid=f"tests/x.py::{name}", iter_markers=list))
    next(hook)
    with pytest.raises(pytest.fail.Exception, match="of CPU, more than") if fails else pytest.raises(StopIteration):
        next(hook)


def mirrored(path: Path) -> Path:
    """Where the tests of a source file belong."""
    return ROOT / "tests" / path.parent.relative_to(ROOT) / f"test_{path.name}"


def test_every_source_file_has_its_tests_beside_it():
    """Except message declarations, which are tested as a whole against other implementations."""
    missing = []
    for path in python_files(*ROOMS):
        declared = path.parent in (ROOT / "wire" / "messages", ROOT / "wire" / "records")
        if declared or path.name == "__init__.py" or len(path.read_text().splitlines()) <= MIRRORED_FROM_LINES:
            continue
        if not mirrored(path).exists() and name_of(path) not in UNMIRRORED:
            missing.append(name_of(path))
    assert missing == []
    assert {name for name in UNMIRRORED if mirrored(ROOT / name).exists()} == set(), "no longer needed"


def test_every_test_says_what_behaviour_it_is_about():
    """A docstring of one sentence or more."""
    silent = [
        f"{name_of(path)}:{node.name}"
        for path in TESTS
        for node in functions(path)
        if node.name.startswith("test_") and not ast.get_docstring(node)
    ]
    assert silent == []


def test_every_public_class_and_function_of_the_rooms_is_described():
    """Ruff sees methods and modules; this sees what ruff ignores."""
    silent = []
    for path in SOURCES:
        for node in parsed(path).body:
            named = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            if named and not node.name.startswith("_") and not ast.get_docstring(node):
                silent.append(f"{name_of(path)}:{node.name}")
    assert silent == []


def test_no_file_is_named_after_nothing():
    """A name says what is inside."""
    assert [name_of(path) for path in SOURCES + TESTS if BANNED_NAMES.search(path.stem)] == []


def texts() -> Iterator[Path]:
    """Everything that people read: code, documents, settings."""
    yield from SOURCES + TESTS
    yield from sorted((ROOT / "docs").rglob("*.md"))
    yield from sorted((ROOT / "kernel" / "stratalog_kernel").glob("*.pyx"))
    yield from sorted(ROOT.glob("*/README.md"))
    yield from sorted((ROOT / "broker" / "http" / "page").glob("*.*"))
    for name in (
        "README.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        ".pre-commit-config.yaml",
        "Makefile",
        "pyproject.toml",
        ".ci/run",
    ):
        if (ROOT / name).exists():
            yield ROOT / name


@pytest.mark.parametrize(("pattern", "what"), [(BANNED_WORDS, "unfinished"), (MACHINE_PATHS, "a path of one machine")])
def test_nothing_unfinished_and_no_path_of_one_machine(pattern, what):
    """Neither in code nor in documents."""
    me = Path(__file__)
    found = [
        f"{name_of(path)}:{number}: {what}: {line.strip()}"
        for path in texts()
        if path.resolve() != me.resolve()
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if pattern.search(line)
    ]
    assert found == []


RIDDLES = re.compile(
    r"\b(?:[Nn]obody|[Ss]omebody|[Ww]hoever|(?:[Ii]s|[Aa]re|[Ww]as) told|[Oo]f which)\b"
    r"|(?:\"\"\"|(?<![\S#])#:? |(?m:^)(?:\| ?|- |> )|[.!?]\s{1,9}(?:#:? )?)"
    r"(?:What|Who|Of|Nothing|Nor|Whatever|Wherever|However(?!,))\b(?![^.!?\n]*\?)"
    r"|def test_(?:what|who|of|nothing|whatever|wherever|however)_"
    r"|def test_(?:\w+_)?(?:nobody|somebody|whoever|(?:is|are|was)_told|of_which)[_(]"
)
"""Words that make a sentence hard to read, sentences that begin with a riddle, and names of tests with either."""


def riddles_in(path: Path) -> list[str]:
    """The lines with a riddle, as ``file:number: line``; the whole file counts, so log lines and errors do too."""
    text = path.read_text()
    lines = text.splitlines()
    numbers = [text.count("\n", 0, found.end()) + 1 for found in RIDDLES.finditer(text)]
    return [f"{name_of(path)}:{number}: {lines[number - 1].strip()}" for number in numbers]


def test_no_sentence_is_a_riddle():
    """The change log is left out: it is history. So are the rules themselves, in this file and in CONTRIBUTING.md."""
    rules = {"tests/test_tidy.py", "CHANGELOG.md", "CONTRIBUTING.md"}
    assert [line for path in texts() if name_of(path) not in rules for line in riddles_in(path)] == []


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ('"""What is read."""', 1),
        ("x = 1  # nobody reads it", 1),
        ("It goes on. Nothing is kept.", 1),
        ('"""Whatever is no batch is refused."""', 1),
        ("Whoever asks, it answers.", 1),
        ("- However many come, one is kept.", 1),
        ("It is old. Nor is it kept.", 1),
        ("It is kept. However, it is old.", 0),
        ("| Nothing goes | a rule |", 1),
        ("A consumer is told of it, of which there are two.", 2),
        ('"""Whose turn it is, whatever was asked."""', 0),
        ("## What does it cost?", 0),
        ("def test_what_is_gone_is_forgotten():", 1),
        ("def test_damage_is_told():", 1),
        ("def test_whatever_comes_is_kept():", 1),
        ("def test_damage_is_reported_whatever_it_is():", 0),
        ("No client reads it; nothing is kept.", 0),
    ],
)
def test_a_riddle_is_recognised(line, count):
    """At the beginning of a sentence, or anywhere for words that are banned; a plain question is none."""
    assert len(RIDDLES.findall(line)) == count
