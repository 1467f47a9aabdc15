"""Without its optional packages the product says in one sentence what to install."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from stratalog.extras import EXTRA_OF_MODULE, MissingPackage, missing_text, naming_extra

ROOT = Path(__file__).parent.parent
MODULE_OF_DISTRIBUTION = {"protobuf": "google.protobuf", "grpcio-tools": "grpc_tools"}
ABSENT = f"import sys; sys.modules.update(dict.fromkeys({[*EXTRA_OF_MODULE]!r}))"
"""Python that makes every optional package missing in a process, as in an environment without extras."""
COMMANDS = {
    "backfill": ["--bucket", "file:///nowhere", "--topic", "orders", "--to", "out"],
    "backfill --dry-run": ["--bucket", "file:///nowhere", "--topic", "orders", "--to", "out", "--dry-run"],
    "compact": ["--bucket", "file:///nowhere", "--topic", "orders"],
    "compact --without-spark": ["--bucket", "file:///nowhere", "--topic", "orders", "--without-spark"],
    "erase": ["--bucket", "file:///nowhere", "--topic", "orders", "--key", "a"],
    "erase --without-spark": ["--bucket", "file:///nowhere", "--topic", "orders", "--key", "a", "--without-spark"],
    "stats": ["--bucket", "file:///nowhere"],
    "verify": ["--bucket", "file:///nowhere"],
}


def run(program: str, *arguments: str, directory: Path) -> subprocess.CompletedProcess[str]:
    """Run a program in a process where every optional package is missing."""
    return subprocess.run(
        [sys.executable, "-c", f"{ABSENT}; {program}", *arguments],
        capture_output=True, text=True, timeout=60, check=False, cwd=directory,
    )  # fmt: skip


def test_the_table_names_the_extras_of_the_project() -> None:
    """A package that an extra brings has an entry, and every entry names an extra that brings the package."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    brought: dict[str, set[str]] = {}
    for extra, requirements in extras.items():
        for requirement in requirements:
            name = re.split(r"[\[<>=!~ ]", requirement, maxsplit=1)[0]
            brought.setdefault(MODULE_OF_DISTRIBUTION.get(name, name), set()).add(extra)
    del brought["stratalog"]  # an extra that contains another
    brought["py4j"] = brought["pyspark"]  # the one package that another brings and that may be missing alone
    assert brought.keys() == EXTRA_OF_MODULE.keys()
    assert all(extra in brought[module] for module, extra in EXTRA_OF_MODULE.items())


@pytest.mark.story
@pytest.mark.parametrize("entry", ["stratalog.cli.main", "stratalog.cli.spark.main"])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_without_its_packages_says_what_to_install(command: str, entry: str, tmp_path: Path) -> None:
    """The command ends with code 1 and one line, from either entry."""
    arguments = [command.split(maxsplit=1)[0], *COMMANDS[command]]
    done = run(f"from {entry} import main; sys.argv[0] = 'x'; main()", *arguments, directory=tmp_path)
    assert re.fullmatch(r"Error: this command needs \w+: pip install 'stratalog\[spark\]'\n", done.stderr)
    assert (done.returncode, done.stdout) == (1, "")


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        ("import stratalog; stratalog.open('x')", "stratalog.open needs pyarrow: pip install 'stratalog[arrow]'"),
        (
            "from stratalog import spark; spark.session()",
            "stratalog.spark.session needs numpy: pip install 'stratalog[spark]'",
        ),
        (
            "from stratalog import spark; spark.iceberg_conf('lake')",
            "iceberg_conf needs pyspark: pip install 'stratalog[spark]'",
        ),
    ],
)
def test_a_function_without_its_packages_says_what_to_install(call: str, sentence: str, tmp_path: Path) -> None:
    """The last line of the traceback is the sentence."""
    done = run(call, directory=tmp_path)
    assert done.stderr.splitlines()[-1] == f"stratalog.extras.MissingPackage: {sentence}"


def test_a_module_that_no_extra_brings_is_a_bug_and_keeps_its_traceback() -> None:
    """Also where its name begins like that of an optional package."""
    assert missing_text(ModuleNotFoundError("", name="pyarrows"), "open") is None
    assert missing_text(ModuleNotFoundError(""), "open") is None
    with pytest.raises(ModuleNotFoundError) as caught, naming_extra("open"):
        import stratalog.nowhere  # noqa: F401
    assert type(caught.value) is ModuleNotFoundError


def test_the_innermost_sentence_is_kept() -> None:
    """A module below the package and a package whose very namespace is missing are named as the package."""
    assert (
        missing_text(ModuleNotFoundError("", name="numpy.linalg"), "x")
        == "x needs numpy: pip install 'stratalog[spark]'"
    )
    assert "google.protobuf" in (missing_text(ModuleNotFoundError("", name="google"), "x") or "")
    sentence = r"to_pandas needs pandas: pip install 'stratalog\[pandas\]'"
    with (
        pytest.raises(MissingPackage, match=sentence),
        naming_extra("this command"),
        naming_extra("to_pandas", "pandas"),
    ):
        raise ModuleNotFoundError(name="pandas")
