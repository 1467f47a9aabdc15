"""The module by which PySpark finds the source."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import pytest

import pyspark_stratalog


def test_it_offers_the_source() -> None:
    """PySpark takes the class from a fixed name."""
    from stratalog.spark.source.source import StratalogSource

    assert pyspark_stratalog.DefaultSource is StratalogSource  # type: ignore[attr-defined]
    assert StratalogSource.name() == "stratalog"


def test_importing_it_imports_nothing_heavy() -> None:
    """Every Python source lookup imports it, whatever is looked for."""
    root = Path(pyspark_stratalog.__path__[0]).parent
    command = "import sys, pyspark_stratalog; print([name for name in sys.modules if name.partition('.')[0] in ('pyspark', 'pyarrow', 'numpy', 'boto3', 'stratalog')])"
    found = subprocess.run([sys.executable, "-c", command], cwd=root, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_a_broken_installation_takes_no_other_source_with_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An import that fails leaves the attribute out and says why."""
    monkeypatch.setitem(sys.modules, "stratalog.spark.source.source", None)
    with caplog.at_level(logging.WARNING):
        assert not hasattr(pyspark_stratalog, "DefaultSource")
    assert "format 'stratalog' is not available" in caplog.text


def test_other_names_are_not_there() -> None:
    """A misspelt attribute is an ordinary error."""
    with pytest.raises(AttributeError, match="no attribute 'Other'"):
        pyspark_stratalog.Other  # type: ignore[attr-defined]  # noqa: B018 - the access is the test
