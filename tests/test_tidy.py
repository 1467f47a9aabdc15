"""The rules of the house, checked over every file."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("wire", "hot", "tier", "metadata", "broker", "spark")
OTHERS = ("pyspark_stratalog", "localstack", "bench", "sim", "mutants", "docs", "kernel")
FILE_LINES_MAX = 420
FUNCTION_LINES_MAX = 60
MIRRORED_FROM_LINES = 40

LONG_FILES: dict[str, str] = {}
LONG_FUNCTIONS: dict[str, str] = {}
UNMIRRORED: dict[str, str] = {}

BANNED_NAMES = re.compile(r"(^|_)(utils?|helpers?|common|misc|stuff)(_|$)")
BANNED_WORDS = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
MACHINE_PATHS = re.compile(r"(?<![\w{}<>.$~*/-])/(?:root|work|home)/[\w.]")


def python_files(*folders: str) -> Iterator[Path]:
    """Every Python file below these folders of the repository."""
    for folder in folders:
        yield from sorted((ROOT / folder).rglob("*.py"))


def name_of(path: Path) -> str:
    """The path below the repository, as exceptions are listed."""
    return path.relative_to(ROOT).as_posix()


SOURCES = [path for path in python_files(*ROOMS, *OTHERS) if "build" not in path.parts]
TESTS = list(python_files("tests"))


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Every function and method of a file."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def over(found: dict[str, int], allowed: dict[str, str], limit: int) -> dict[str, int]:
    """What is above the limit and not allowed to be."""
    return {name: lines for name, lines in found.items() if lines > limit and name not in allowed}


def test_files_are_short():
    """A file that cannot be read in one go is split, or named above with its reason."""
    lines = {name_of(path): len(path.read_text().splitlines()) for path in SOURCES + TESTS}
    assert over(lines, LONG_FILES, FILE_LINES_MAX) == {}
    assert {name for name in LONG_FILES if lines.get(name, 0) <= FILE_LINES_MAX} == set(), "no longer needed"


def test_functions_are_short():
    """Docstring included."""
    lines = {
        f"{name_of(path)}:{node.name}": (node.end_lineno or node.lineno) - node.lineno + 1
        for path in SOURCES + TESTS
        for node in functions(path)
    }
    assert over(lines, LONG_FUNCTIONS, FUNCTION_LINES_MAX) == {}


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
    """Ruff sees methods and modules; this sees what it is told to ignore."""
    silent = []
    for path in SOURCES:
        for node in ast.parse(path.read_text()).body:
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
    for name in (
        "README.md",
        "CHANGELOG.md",
        "Makefile",
        "pyproject.toml",
        ".ci/run",
        "localstack/README.md",
        "kernel/README.md",
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
