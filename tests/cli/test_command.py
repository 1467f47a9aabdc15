"""How commands are shown and loaded."""

from __future__ import annotations

import sys
from types import ModuleType

import click
from click.testing import CliRunner

from stratalog.cli.command import LazyGroup, LazyPath, broker_options, command
from stratalog.wire.errors import Invalid


@command("probe", "probe one\n  probe two  ", help="Does nothing.")
@broker_options
def probe(*, bootstrap: str, timeout_seconds: float) -> None:
    """Tell what the options are."""
    click.echo(f"{bootstrap} {timeout_seconds}")


def test_examples_come_first_one_a_line() -> None:
    """Then usage, text and options."""
    text = CliRunner().invoke(probe, ["--help"]).output
    assert text.startswith("Examples:\n  probe one\n  probe two\n")
    assert text.index("probe two") < text.index("Usage:") < text.index("Does nothing.") < text.index("Options:")


def test_the_address_comes_from_flag_variable_or_default() -> None:
    """In this order."""
    runner = CliRunner()
    assert runner.invoke(probe, []).output == "127.0.0.1:9092 30.0\n"
    assert runner.invoke(probe, [], env={"STRATALOG_BOOTSTRAP": "a:1"}).output == "a:1 30.0\n"
    assert (
        runner.invoke(probe, ["-b", "b:2", "--timeout", "5"], env={"STRATALOG_BOOTSTRAP": "a:1"}).output == "b:2 5.0\n"
    )
    assert runner.invoke(probe, ["--timeout", "inf"]).exit_code == 2


def test_a_module_is_imported_when_its_command_is_used() -> None:
    """Listing the commands imports none of them."""
    name = "stratalog.cli.dump.main"
    group = LazyGroup("top", lazy={"look": LazyPath(name, "dump_command", "Look into it.")})
    kept = sys.modules.pop(name, None)
    try:
        assert "look  Look into it." in CliRunner().invoke(group, ["--help"]).output
        assert name not in sys.modules
        assert CliRunner().invoke(group, ["look", "--help"]).exit_code == 0
        assert name in sys.modules
    finally:
        if kept is not None:
            sys.modules[name] = kept


def test_a_name_that_is_not_there_is_a_usage_error() -> None:
    """As click has it."""
    assert CliRunner().invoke(LazyGroup("top", lazy={}), ["nope"]).exit_code == 2


def test_a_command_of_another_room_is_dressed_like_ours(monkeypatch) -> None:
    """Examples of its module first, its words and options, and what it raises becomes our exit code."""

    @click.command("far")
    @click.option("--fail", is_flag=True)
    def far(*, fail: bool) -> None:
        """Far away."""
        if fail:
            raise Invalid("a wrong setting")
        click.echo("reached")

    module = ModuleType("stratalog_far")
    module.far = far
    module.EXAMPLES = "\nstratalog far\n"
    monkeypatch.setitem(sys.modules, "stratalog_far", module)
    group = LazyGroup("top", lazy={"far": LazyPath("stratalog_far", "far", "Far.")})
    text = CliRunner().invoke(group, ["far", "--help"]).output
    assert text.startswith("Examples:\n  stratalog far\n")
    assert "Far away." in text
    assert "--fail" in text
    assert CliRunner().invoke(group, ["far"]).output == "reached\n"
    failed = CliRunner().invoke(group, ["far", "--fail"])
    assert (failed.exit_code, failed.stderr) == (2, "Error: a wrong setting\n")


def test_a_command_that_is_nearly_right_is_suggested() -> None:
    """Commands that are not imported are suggested, too; exit code 2, and without a name that is near no guess."""
    group = LazyGroup(
        "top", lazy={"status": LazyPath("nowhere", "x", "Look."), "topic": LazyPath("nowhere", "x", "T.")}
    )
    found = CliRunner().invoke(group, ["topics"])
    assert (found.exit_code, "No such command 'topics'. Did you mean 'topic'?" in found.stderr) == (2, True)
    assert "Did you mean 'status'?" in CliRunner().invoke(group, ["statu"]).stderr
    assert "mean" not in CliRunner().invoke(group, ["zebra"]).stderr
    assert "No such option" in CliRunner().invoke(group, ["--zebra"]).stderr
