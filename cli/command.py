"""How our commands are shown and loaded: examples come first in ``--help``, and a command's module is imported on use.

Start-up time is why: ``stratalog --help`` imports none of the broker.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Final, NamedTuple, TypeVar

import click

__all__ = [
    "BOOTSTRAP_DEFAULT",
    "HTTP_DEFAULT",
    "ExampleCommand",
    "ExampleGroup",
    "LazyGroup",
    "LazyPath",
    "broker_options",
    "command",
]

Decorated = TypeVar("Decorated", bound=Callable[..., Any])
BOOTSTRAP_DEFAULT: Final = "127.0.0.1:9092"
HTTP_DEFAULT: Final = "127.0.0.1:8080"
_TIMEOUT_SECONDS_MAX: Final = 2_000_000  # requests hold 31 bits of milliseconds


class _Examples(click.Command):
    """Help text in the order people read it: examples, usage, what it does, options."""

    def __init__(self, *args: Any, examples: str = "", **options: Any) -> None:
        self.examples = [line.strip() for line in examples.strip().splitlines()]
        super().__init__(*args, **options)

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the whole page."""
        if self.examples:
            with formatter.section("Examples"):
                for line in self.examples:
                    formatter.write(f"  {line}\n")
            formatter.write_paragraph()
        super().format_help(ctx, formatter)


class ExampleCommand(_Examples):
    """A command with examples."""


class ExampleGroup(_Examples, click.Group):
    """A group of commands with examples, which knows a command by a name that is nearly right."""

    command_class = ExampleCommand

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does it. Click itself compares names only with those of commands that are imported."""
        known = self.list_commands(ctx)
        if args[0] not in known and not args[0].startswith("-") and not ctx.resilient_parsing:
            near = difflib.get_close_matches(args[0], known, n=1)
            ctx.fail(f"No such command '{args[0]}'." + (f" Did you mean '{near[0]}'?" if near else ""))
        return super().resolve_command(ctx, args)


class LazyPath(NamedTuple):
    """Where a command is defined, and what it does in one line."""

    module: str
    attribute: str
    short_help: str


class LazyGroup(ExampleGroup):
    """A group that imports the module of a command when that command is used."""

    def __init__(self, *args: Any, lazy: Mapping[str, LazyPath], **options: Any) -> None:
        super().__init__(*args, **options)
        self.lazy = lazy

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order of the table."""
        del ctx
        return list(self.lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, imported now."""
        del ctx
        path = self.lazy.get(cmd_name)
        if path is None:
            return None
        module = import_module(path.module)
        found = getattr(module, path.attribute)
        assert isinstance(found, click.Command)
        return found if isinstance(found, _Examples) else _dressed(cmd_name, found, getattr(module, "EXAMPLES", ""))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands, without importing them."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, path.short_help) for name, path in self.lazy.items()])


def _dressed(name: str, plain: click.Command, examples: str) -> ExampleCommand:
    """A command of a room that may not import this one: shown with its module's ``EXAMPLES``, with our exit codes."""
    from stratalog.cli.output import reports_errors

    assert plain.callback is not None, f"the command {name} does nothing"
    return ExampleCommand(
        name, params=plain.params, help=plain.help, callback=reports_errors(plain.callback), examples=examples
    )


def command(name: str, examples: str, **options: Any) -> Callable[[Callable[..., Any]], ExampleCommand]:
    """Decorate a function as a command that shows `examples` (one a line) first."""
    return click.command(name, cls=ExampleCommand, examples=examples, **options)


def broker_options(function: Decorated) -> Decorated:
    """Add the options of every command that talks to a broker: ``--bootstrap-server`` and ``--timeout``."""
    function = click.option(
        "--timeout", "timeout_seconds", type=click.FloatRange(0.001, _TIMEOUT_SECONDS_MAX), default=30.0, show_default=True,
        metavar="SECONDS", help="How long to wait for a connection or an answer.",
    )(function)  # fmt: skip
    return click.option(
        "-b", "--bootstrap-server", "bootstrap", envvar="STRATALOG_BOOTSTRAP", default=BOOTSTRAP_DEFAULT,
        show_default=True, show_envvar=True, metavar="HOST:PORT", help="Any broker of the cluster.",
    )(function)  # fmt: skip
