"""``stratalog spark-zip``."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from click.testing import CliRunner

import stratalog
from stratalog.cli.main import cli
from stratalog.cli.spark import main as spark_main
from stratalog.cli.spark.spark_zip import write_zip
from stratalog.wire.errors import Invalid

CODE = """
import json, sys
import pyspark_stratalog, stratalog.spark.source.fetch, stratalog.spark.source.source
from stratalog.tier.planning.prices import read_price_tables
print(json.dumps([stratalog.spark.source.fetch.__file__, pyspark_stratalog.DefaultSource.name(), len(read_price_tables("", "")) > 0]))
"""


@pytest.mark.story
def test_everything_is_imported_out_of_the_zip(tmp_path: Path) -> None:
    """Data files too; without compiled files, so that it fits every Python; equal files make equal zips."""
    path = tmp_path / "stratalog.zip"
    result = CliRunner().invoke(cli, ["spark-zip", str(path)])
    assert result.exit_code == 0
    names = zipfile.ZipFile(path).namelist()
    assert result.stdout.startswith(f"{path}: {len(names)} files, ")
    root = Path(stratalog.__path__[0])
    expected = {f"stratalog/spark/{each.name}" for each in (root / "spark").glob("*.py")}
    assert expected <= set(names)
    assert {"stratalog/__init__.py", "pyspark_stratalog/__init__.py", "stratalog/tier/planning/prices.toml"} <= set(
        names
    )
    assert not [name for name in names if name.endswith((".pyc", ".so")) or name.startswith("/")]
    # -S: without it the .pth file of an editable installation names the checkout, behind the zip
    paths = [str(path), *(each for each in sys.path if each.endswith("site-packages"))]
    command = [sys.executable, "-S", "-c", f"import sys; sys.path[:0] = {paths!r}\n{CODE}"]
    run = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path, env={})
    assert run.stdout == f'["{path}/stratalog/spark/source/fetch.py", "stratalog", true]\n'
    again = tmp_path / "again.zip"
    write_zip(again)
    assert again.read_bytes() == path.read_bytes()


def test_an_unwritable_place_is_an_error(tmp_path: Path) -> None:
    """By both names of the command, and nothing is left."""
    result = CliRunner().invoke(cli, ["spark-zip", str(tmp_path / "none" / "x.zip")])
    assert result.exit_code == 3
    with pytest.raises(SystemExit) as ended:
        spark_main.main(["spark-zip", str(tmp_path / "none" / "x.zip")])
    assert ended.value.code == 3
    assert list(tmp_path.iterdir()) == []


def test_out_of_a_zip_there_is_nothing_to_zip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That zip is the one that is wanted."""
    monkeypatch.setattr(stratalog, "__path__", [str(tmp_path / "stratalog.zip" / "stratalog")])
    with pytest.raises(Invalid, match=r"runs out of .*stratalog\.zip: copy that file"):
        write_zip(tmp_path / "new.zip")
