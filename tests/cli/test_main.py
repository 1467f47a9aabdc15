"""The command line as a whole: help, version, start-up, wrong commands."""

from __future__ import annotations

import subprocess
import sys

import pytest
from click.testing import CliRunner

from stratalog.cli.main import COMMANDS, cli


def run(*arguments: str):
    """Invoke the command line in this process."""
    return CliRunner().invoke(cli, list(arguments))


def test_help_shows_examples_before_usage() -> None:
    """Then the commands, each with one line."""
    text = run("--help").output
    assert text.index("stratalog dev") < text.index("Usage:")
    for name, path in COMMANDS.items():
        assert name in text
        assert path.short_help in text


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_where_the_table_says(name) -> None:
    """Loaded on use, under its own name, with examples first."""
    result = run(name, "--help")
    assert result.exit_code == 0
    assert result.output.startswith("Examples:\n")
    assert f"Usage: cli {name}" in result.output or f"Usage: stratalog {name}" in result.output


def test_help_imports_nothing_of_the_broker() -> None:
    """Start-up time: only the modules of the command line itself."""
    script = (
        "import sys; from stratalog.cli.main import cli; "
        "cli(['--help'], standalone_mode=False); "
        "print(sorted(name for name in sys.modules if name.startswith('stratalog.') or name in ('aiohttp', 'boto3', 'rich')))"
    )
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert out.splitlines()[-1] == "['stratalog.cli', 'stratalog.cli.command', 'stratalog.cli.main']"


def test_an_unknown_command_is_a_usage_error() -> None:
    """Exit code 2, as for an unknown option."""
    assert run("nonsense").exit_code == 2
    assert run("topic", "list", "--nonsense").exit_code == 2


def test_version_is_the_distributions() -> None:
    """One line."""
    assert run("--version").output.startswith("stratalog ")


def test_no_broker_is_exit_code_4() -> None:
    """With the address and a question."""
    result = run("topic", "list", "--bootstrap-server", "127.0.0.1:1")
    assert result.exit_code == 4
    assert "broker 127.0.0.1:1: Connection refused; is a broker running there?" in result.stderr
    assert result.stdout == ""
