"""``stratalog apply``: bring the tiering settings of topics into the state that a file describes."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from stratalog.cli.command import broker_options, command
from stratalog.cli.output import json_option, note, reports_errors, write_rows
from stratalog.cli.tier.advice import advise
from stratalog.cli.tiering_file import SettingChange, changes_of, read_tiering_file
from stratalog.cli.values import read_text_file
from stratalog.client.admin import ConfigSource, alter_topic_configs, describe_topic_configs
from stratalog.client.client import Client

__all__ = ["apply"]

COLUMNS: Final = {"topic": "TOPIC", "setting": "SETTING", "now": "NOW", "wanted": "WANTED"}


@command(
    "apply",
    """
    stratalog apply tiering.toml --dry-run
    stratalog apply tiering.toml
    """,
)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--dry-run", is_flag=True, help="Show the differences, let the broker check them, and change nothing.")
@json_option
@broker_options
@reports_errors
def apply(*, file: Path, dry_run: bool, as_json: bool, bootstrap: str, timeout_seconds: float) -> None:
    """Change the tiering settings of the topics that FILE names, where they differ, and show the differences.

    FILE is TOML: a table [topics.NAME] for each topic, its settings under Kafka's names, sizes as "64MiB", times as
    "6h", "default" to go back to the default. The broker checks every topic before any is changed. Applied twice, the
    second time finds nothing to do.
    """
    wanted = read_tiering_file(read_text_file(file), str(file))
    with Client(bootstrap, timeout_seconds) as client:
        if wanted:
            client.refresh(list(wanted))
        changes = changes_of(wanted, _own_settings(client, list(wanted)))
        by_topic: dict[str, list[SettingChange]] = {}
        for change in changes:
            by_topic.setdefault(change.topic, []).append(change)
        write_rows([_row(change) for change in changes], COLUMNS, as_json=as_json)
        for validate_only in (True,) if dry_run else (True, False):
            for topic, mine in by_topic.items():
                alter_topic_configs(
                    client,
                    topic,
                    set_to={one.setting: one.wanted for one in mine if one.wanted is not None},
                    delete=[one.setting for one in mine if one.wanted is None],
                    validate_only=validate_only,
                )
        for topic, mine in by_topic.items():
            coming = {one.setting: one.wanted for one in mine if one.wanted is not None}
            advise(client, topic, coming if dry_run else {})
    verb = "would change" if dry_run else "changed"
    note(
        f"{len(changes)} settings of {len(by_topic)} topics {verb}; {len(wanted) - len(by_topic)} topics are as wanted."
    )


def _own_settings(client: Client, topics: list[str]) -> dict[str, dict[str, str | None]]:
    """By topic, the settings that it has of its own."""
    if not topics:
        return {}
    return {
        topic: {one.name: one.value for one in configs if one.source is ConfigSource.TOPIC}
        for topic, configs in describe_topic_configs(client, topics).items()
    }


def _row(change: SettingChange) -> dict[str, str | None]:
    return change._asdict()
