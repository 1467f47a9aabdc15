"""The source distribution holds every room, whichever rooms there are."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILT = {"__pycache__"}


def rooms(package: Path) -> set[str]:
    """The folders of the package ``stratalog``, linked or real."""
    return {path.name for path in package.iterdir() if path.is_dir() and path.name not in BUILT}


@pytest.mark.story
def test_the_sdist_builds_the_wheel_that_the_checkout_builds(unpacked: Path, list_wheel: Callable[[Path], set[str]]):
    """No file is missing and none is added, in any room."""
    from_checkout = list_wheel(ROOT)
    assert list_wheel(unpacked) == from_checkout
    assert {path.split("/")[1] for path in from_checkout if path.count("/") > 1} == rooms(ROOT / "stratalog")


def test_the_sdist_holds_sources_and_no_links(unpacked: Path):
    """Rooms are folders there, so the sources build where links are not allowed; tests and tools stay out."""
    assert {path.name for path in unpacked.iterdir()} == {
        ".gitignore", "LICENSE", "PKG-INFO", "README.md", "pyproject.toml", "pyspark_stratalog", "stratalog",
    }  # fmt: skip
    assert [path for path in unpacked.rglob("*") if path.is_symlink()] == []
    assert rooms(unpacked / "stratalog") == rooms(ROOT / "stratalog")


def checkout_without_links(place: Path) -> None:
    """Write ``stratalog/`` as git does with ``core.symlinks=false``: a link is a text file that names its target."""
    package = place / "stratalog"
    package.mkdir()
    for path in (ROOT / "stratalog").iterdir():
        if path.is_symlink():
            package.joinpath(path.name).write_text(str(path.readlink()))
        elif path.is_file():
            shutil.copy(path, package)


@pytest.mark.parametrize("arguments", [["-c", "import stratalog.wire.batch"], ["-m", "stratalog", "dev"]])
def test_a_checkout_without_symbolic_links_says_so_in_one_sentence(arguments: list[str], tmp_path: Path):
    """The last line names the cause and the commands that mend it."""
    checkout_without_links(tmp_path)
    done = subprocess.run(
        [sys.executable, *arguments], check=False, capture_output=True, text=True, cwd=tmp_path, timeout=60
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "ImportError: the folders of stratalog/ are symbolic links, but this checkout has text files instead: "
        "run `git config core.symlinks true` and `git checkout -- stratalog`, on a file system that has links"
    )
