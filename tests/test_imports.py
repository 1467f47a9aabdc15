"""No file needs another that needs it: annotations, imports in functions and imports by name counted."""

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[1]

PAIRS = {
    ("stratalog.broker.network.connection", "stratalog.broker.network.receiving"): (
        "a connection owns its receiver, which hands it the frames that it finds; dispatch and shortcuts are typed by it"
    ),
    ("stratalog.broker.requests.context", "stratalog.broker.requests.dispatch"): (
        "a dispatcher makes the context of each request, which names its dispatcher"
    ),
    ("stratalog.spark.source.source", "stratalog.spark.source.stream"): (
        "PySpark asks one class for the batch and the stream reader; the stream reader reads as the batch reader does"
    ),
}
"""Pairs of files that may need each other, and why. Both files of a pair are in one room."""

FORBIDDEN_BY_NAME: set[tuple[str, str]] = set()
"""Imports by name that the layers forbid, and that stand for now."""

LOGGER_NAMES = "STRANGERS"
"""Assigned to this name, names of modules are names of loggers."""
_DOTTED = re.compile(r"stratalog(?:\.\w+)+(?::\w+)?")


class Import(NamedTuple):
    """``by_name``: the module stands in a string, as for ``importlib.import_module`` or a worker process."""

    target: str
    by_name: bool


TOOLS = ("sim", "bench", "demo", "mutants")
"""Folders at the top that are imported by their own names."""


@cache
def sources() -> dict[str, Path]:
    """The files of all rooms and tools by the names of their modules."""
    files = {}
    for room in sorted(one for one in (ROOT / "stratalog").iterdir() if one.is_dir() and one.name != "__pycache__"):
        real = room.resolve()
        for path in real.rglob("*.py"):
            parts = ("stratalog", room.name, *path.relative_to(real).with_suffix("").parts)
            files[".".join(parts).removesuffix(".__init__")] = path
    for path in (path for tool in TOOLS for path in (ROOT / tool).rglob("*.py") if "build" not in path.parts):
        files[".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")] = path
    return files


def module_of(name: str, known: dict[str, Path]) -> str | None:
    """The module that has a dotted name, which may go on with names inside of it."""
    while name and name not in known:
        name = name.rpartition(".")[0]
    return name or None


def _last_name(function: ast.expr) -> str:
    return getattr(function, "attr", getattr(function, "id", ""))


def _loggers(tree: ast.AST) -> set[ast.AST]:
    """The strings that are names of loggers."""
    found: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _last_name(node.func) == "getLogger":
            found |= set(node.args)
        elif isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == LOGGER_NAMES:
            found |= set(ast.walk(node))
    return found


def imports(text: str, known: dict[str, Path]) -> Iterator[Import]:
    """The modules of ours that a file needs at any time."""
    tree = ast.parse(text)
    loggers = _loggers(tree)
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in loggers:
            name = node.value.partition(":")[0]
            if _DOTTED.fullmatch(node.value) and name in known:
                yield Import(name, by_name=True)
        for name in names:
            module = module_of(name, known)
            if module is not None:
                yield Import(module, by_name=False)


@cache
def graph() -> dict[str, set[Import]]:
    """All imports between our modules."""
    known = sources()
    return {
        module: {one for one in imports(path.read_text(), known) if one.target != module}
        for module, path in known.items()
    }


def circles(edges: dict[str, set[str]]) -> list[list[str]]:
    """The largest sets of modules in which each one needs every other (Tarjan's strongly connected components)."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    path: list[str] = []
    found: list[list[str]] = []

    def visit(module: str) -> None:
        number[module] = lowest[module] = len(number)
        path.append(module)
        for target in edges[module]:
            if target not in number:
                visit(target)
            if target in path:
                lowest[module] = min(lowest[module], lowest[target])
        if lowest[module] == number[module]:
            first = path.index(module)
            if len(path) - first > 1:
                found.append(sorted(path[first:]))
            del path[first:]

    for module in sorted(edges):
        if module not in number:
            visit(module)
    return sorted(found)


def layers(pyproject: str) -> list[list[list[str]]]:
    """The layers of each contract of that type, highest first: the packages of a layer, by their whole names.

    A contract with ``containers`` counts once for each of them.
    """
    contracts = tomllib.loads(pyproject)["tool"]["importlinter"]["contracts"]
    return [
        [[f"{prefix}{name.strip(' ()')}" for name in re.split("[|:]", layer)] for layer in contract["layers"]]
        for contract in contracts
        if contract["type"] == "layers"
        for prefix in [f"{one}." for one in contract.get("containers", [])] or [""]
    ]


@cache
def our_layers() -> list[list[list[str]]]:
    """Those of this repository."""
    return layers((ROOT / "pyproject.toml").read_text())


def place(module: str, contract: list[list[str]]) -> tuple[int, str] | None:
    """The layer of a module, and the package of the layer that it is in."""
    for level, packages in enumerate(contract):
        for package in packages:
            if f"{module}.".startswith(f"{package}."):
                return level, package
    return None


def forbidden(source: str, target: str) -> bool:
    """Whether the layers forbid one module to need another."""
    for contract in our_layers():
        here, there = place(source, contract), place(target, contract)
        if here is not None and there is not None and here[1] != there[1] and there[0] <= here[0]:
            return True
    return False


# -- the tests --------------------------------------------------------------------------------------------------------


def test_no_files_need_each_other():
    """But for pairs that are named here with a reason."""
    edges = {module: {one.target for one in found} for module, found in graph().items()}
    assert circles(edges) == sorted(map(sorted, PAIRS))


def test_a_pair_is_in_one_room():
    """A circle through two rooms would have no wall to stand behind."""
    assert [pair for pair in PAIRS if len({sources()[module].parent for module in pair}) > 1] == []


def test_imports_by_name_obey_the_layers():
    """The import linter does not see them."""
    found = {
        (module, one.target)
        for module, needed in graph().items()
        for one in needed
        if one.by_name and forbidden(module, one.target)
    }
    assert found == FORBIDDEN_BY_NAME


def test_every_room_is_looked_at():
    """A graph without files has no circles."""
    assert {name.split(".")[name.startswith("stratalog.")] for name in graph()} >= {
        *TOOLS,
        "wire",
        "client",
        "hot",
        "tier",
        "metadata",
        "broker",
        "spark",
        "cli",
    }
    assert sum(map(len, graph().values())) > 3_000


@pytest.mark.parametrize(
    "text",
    [
        "import stratalog.b",
        "from stratalog.b import thing",
        "from stratalog import b",
        "def work():\n    from stratalog.b import thing",
        "if TYPE_CHECKING:\n    from stratalog.b import Thing",
        "LazyPath('stratalog.b', 'thing', 'Does it.')",
        "importlib.import_module('stratalog.b')",
        "Start('stratalog.b:thing')",
    ],
)
def test_every_kind_of_import_counts(text):
    """Whenever it is carried out, and however it is written."""
    assert {one.target for one in imports(text, {"stratalog.b": ROOT})} == {"stratalog.b"}


@pytest.mark.parametrize(
    "text", ["logging.getLogger('stratalog.b')", "STRANGERS: Final = ('stratalog.b',)", "'see stratalog.b'"]
)
def test_names_of_loggers_are_no_imports(text):
    """Prose that names a module is no import either."""
    assert list(imports(text, {"stratalog.b": ROOT})) == []


def test_circles_are_found_whole():
    """Each set once, without the modules that only lead to it."""
    edges = {"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a", "e"}, "e": {"d"}, "f": {"d"}}
    assert circles(edges) == [["a", "b", "c"], ["d", "e"]]


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("stratalog.broker.node", "stratalog.hot.log.log", False),
        ("stratalog.hot.log.log", "stratalog.broker.node", True),
        ("stratalog.broker.node", "stratalog.spark.source.source", True),
        ("stratalog.broker.node", "stratalog.broker.api", False),
    ],
)
def test_layers_are_read_from_the_contract(source, target, expected):
    """Down is allowed, up and sideways are not."""
    assert forbidden(source, target) is expected


def test_layers_of_a_container_have_its_name():
    """Optional layers and layers of several packages, too."""
    text = """
    [[tool.importlinter.contracts]]
    type = "layers"
    containers = ["a.b"]
    layers = ["x", "(y) | z : w"]

    [[tool.importlinter.contracts]]
    type = "forbidden"
    """
    assert layers(text) == [[["a.b.x"], ["a.b.y", "a.b.z", "a.b.w"]]]
