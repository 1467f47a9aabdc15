"""How the top `conftest.py` gives out tests, and what it fails."""

import ast
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def top_conftest() -> ModuleType:
    """The top ``conftest.py`` as a module of the test's own."""
    spec = spec_from_file_location("top_conftest", ROOT / "conftest.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def takes_the_session(path: Path) -> bool:
    """Whether a test of this file has the argument ``spark``."""
    tests = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)]
    return any("spark" in {one.arg for one in test.args.args} for test in tests if test.name.startswith("test_"))


def test_every_file_with_the_spark_session_is_in_its_group(top_conftest):
    """The scheduler finds them by their text; one that it missed would start a JVM of its own."""
    texts = [path for path in sorted((ROOT / "tests").rglob("test_*.py")) if "spark" in path.read_text()]
    wanted = {path.relative_to(ROOT).as_posix() for path in texts if takes_the_session(path)}
    assert len(wanted) > 10
    assert {name for name in wanted if not top_conftest.starts_spark(name)} == set()
    assert not top_conftest.starts_spark("tests/test_tidy.py")


@pytest.mark.parametrize(("seconds", "slowness", "fails"), [(9.9, 1, False), (10.1, 1, True), (19.9, 2, False)])
def test_only_a_test_far_over_its_budget_fails(top_conftest, monkeypatch, seconds, slowness, fails):
    """Busy neighbours make the same work take more than twice its CPU time."""
    times = iter([0.0, seconds])
    monkeypatch.setattr(top_conftest, "time", SimpleNamespace(process_time=lambda: next(times)))
    monkeypatch.setattr(top_conftest, "slowness", lambda: slowness)
    hook = top_conftest.pytest_runtest_call(SimpleNamespace(nodeid="tests/x.py::test_a", iter_markers=list))
    next(hook)
    with pytest.raises(pytest.fail.Exception if fails else StopIteration):
        next(hook)
