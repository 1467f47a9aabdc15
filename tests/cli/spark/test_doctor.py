"""``stratalog doctor``."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from stratalog.cli.main import cli
from stratalog.spark.sessions import machine_facts
from stratalog.spark.sessions.doctor import MachineFacts
from stratalog.tier import open_store


@pytest.fixture
def _bare(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_facts, "machine_facts", lambda: MachineFacts((3, 11), {"pyarrow": "26.0"}))


@pytest.mark.usefixtures("_bare")
def test_a_missing_part_is_exit_code_4_and_printed_with_its_fix() -> None:
    """A line for each thing, and one below it for what to do."""
    result = CliRunner().invoke(cli, ["doctor"])
    assert result.exit_code == 4
    lines = result.stdout.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("failed  pyspark "))
    assert lines[at].endswith("not installed")
    assert lines[at + 1].strip() == "fix: pip install 'stratalog[spark]'"
    assert any(line.startswith("ok      pyarrow ") for line in lines)


@pytest.mark.usefixtures("_bare")
def test_json_is_one_object_a_finding(tmp_path: Path) -> None:
    """Findings about the bucket, too; a directory that is not there is not made."""
    open_store((tmp_path / "bucket").as_uri()).put("topics/x", b"x")
    result = CliRunner().invoke(cli, ["doctor", "--json", "--bucket", (tmp_path / "bucket").as_uri()])
    found = {each["check"]: each for each in map(json.loads, result.stdout.splitlines())}
    assert result.exit_code == 4
    assert set(found["java"]) == {"check", "status", "found", "fix"}
    assert found["bucket"]["status"] == found["bucket: lease"]["status"] == "ok"
    result = CliRunner().invoke(cli, ["doctor", "--json", "--bucket", (tmp_path / "none").as_uri()])
    assert json.loads(result.stdout.splitlines()[-1])["status"] == "failed"
    assert not (tmp_path / "none").exists()


def test_it_runs_where_nothing_is_installed() -> None:
    """Neither pyarrow nor PySpark is needed to report that they are missing."""
    program = (
        "import sys; sys.modules.update(pyspark=None, pyarrow=None, numpy=None, pandas=None); "
        "from stratalog.cli.main import main; sys.argv = ['stratalog', 'doctor', '--json']; main()"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "format 'stratalog' is not available" in run.stderr
    assert "Traceback" not in run.stderr
    assert run.returncode == 4
    found = {each["check"]: each for each in map(json.loads, run.stdout.splitlines())}
    assert found["format('stratalog')"]["status"] == "failed"
