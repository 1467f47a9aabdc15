"""Files on a disk: `make test` keeps those of other tests in memory."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A folder where programs put temporary files, which is a disk on most machines."""
    with tempfile.TemporaryDirectory(prefix="stratalog-") as place:
        yield Path(place)
