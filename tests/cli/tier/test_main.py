"""The group of commands about the tier."""

from __future__ import annotations

from stratalog.cli.tier.main import COMMANDS, tier


def test_every_command_is_loaded_under_its_name(stratalog) -> None:
    """With examples in its help, and the short help of the list is its first sentence."""
    listed = stratalog("tier", "--help").out
    for name, path in COMMANDS.items():
        assert path.short_help in listed
        command = tier.get_command(None, name)  # type: ignore[arg-type]
        assert command is not None
        assert (command.name, bool(command.help)) == (name, True)
