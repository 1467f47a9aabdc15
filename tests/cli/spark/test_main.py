"""``python -m stratalog.spark``."""

from __future__ import annotations

from pathlib import Path

import pytest

from stratalog.cli.spark.main import COMMANDS, main


def ended(*arguments: str) -> object:
    """The exit code."""
    with pytest.raises(SystemExit) as end:
        main(list(arguments))
    return end.value.code


def test_commands_are_listed_and_explained(capsys: pytest.CaptureFixture[str]) -> None:
    """Each by its name; one that there is none of is a usage error."""
    assert ended("--help") == 0
    listed = capsys.readouterr().out
    assert [name for name in COMMANDS if name not in listed] == []
    assert ended("backfill", "--help") == 0
    assert "--bucket" in capsys.readouterr().out
    assert ended("backfil") == 2


def test_errors_are_one_line_and_a_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A bucket that is not there, a command that cannot be meant."""
    wanted = ("backfill", "--topic", "t", "--to", str(tmp_path), "--dry-run", "--bucket")
    assert ended(*wanted, f"file://{tmp_path / 'none'}") == 3
    assert capsys.readouterr().err.startswith("Error: open '' in file://")
    assert ended(*wanted, f"file://{tmp_path}") == 2
    assert "topic 't' is not in the archive" in capsys.readouterr().err
    assert (
        ended(*wanted, f"file://{tmp_path}", "--option", "hotTail=true", "--option", "kafka.bootstrap.servers=x:1") == 2
    )
