"""The generated pages of the manual are current and complete."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.reference import PAGES, cli_page, configuration_page
from stratalog.cli.main import COMMANDS
from stratalog.metadata.settings.configs import definitions, topic_definitions

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_what_would_be_written_now(name) -> None:
    """After a change of settings or commands: python docs/generate.py."""
    assert (DOCS / name).read_text() == PAGES[name]()


def test_every_setting_is_in_the_manual() -> None:
    """Each public name once, with its meaning or with why it changes nothing."""
    page = configuration_page()
    for row in [*definitions().values(), *topic_definitions().values()]:
        if not row.internal:
            assert f"| `{row.name}` |" in page, row.name


def test_every_command_is_in_the_manual_with_examples_first() -> None:
    """Examples stand above the usage line in each help text."""
    page = cli_page()
    for name in COMMANDS:
        text = page.split(f"# stratalog {name}\n")[1]
        assert text.index("Examples:") < text.index("Usage:")
