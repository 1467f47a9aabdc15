"""The source distribution, and an environment that has nothing but stratalog's wheel and its dependencies."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source distribution, built from the checkout as ``python -m build --sdist`` builds it."""
    place = tmp_path_factory.mktemp("sdist")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "sdist", "--directory", str(place)]
    subprocess.run(command, check=True, capture_output=True, cwd=ROOT)
    (found,) = place.glob("*.tar.gz")
    return found


@pytest.fixture(scope="session")
def unpacked(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the source distribution unpacks to."""
    place = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(sdist) as archive:
        safely = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # Python 3.11.2 of Debian 12 has none
        archive.extractall(place, **safely)
    (folder,) = place.iterdir()
    return folder


@pytest.fixture(scope="session")
def list_wheel() -> Callable[[Path], set[str]]:
    """Lists the files of the wheel that hatchling makes from a source folder, without packing it."""

    def listed(folder: Path) -> set[str]:
        program = (
            "import sys; from hatchling.builders.wheel import WheelBuilder; "
            "print(*(file.distribution_path for file in WheelBuilder(sys.argv[1]).recurse_included_files()), sep='\\n')"
        )
        command = [sys.executable, "-c", program, str(folder)]
        done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=folder)
        return set(done.stdout.split())

    return listed
