"""Notes that commands print about the tiering settings of a topic after they were changed."""

from __future__ import annotations

from collections.abc import Mapping

from stratalog.cli.output import note
from stratalog.client.admin import describe_topic_configs
from stratalog.client.client import Client
from stratalog.metadata.settings.by_name import topic_definitions
from stratalog.metadata.settings.catalogue.types import ConfigValue
from stratalog.metadata.settings.tiering_advice import tiering_advice

__all__ = ["advise", "typed_settings"]


def typed_settings(texts: Mapping[str, str | None]) -> dict[str, ConfigValue]:
    """All topic settings, typed; what ``texts`` does not have is at its default. Raises `ConfigError`."""
    values: dict[str, ConfigValue] = {}
    for name, row in topic_definitions().items():
        text = texts.get(name)
        values[name] = row.default if text is None else row.parse(text)
    return values


def advise(client: Client, topic: str, coming: Mapping[str, str]) -> None:
    """Say on stderr what is worth knowing about the topic's settings, with those that are ``coming`` in place."""
    (configs,) = describe_topic_configs(client, [topic]).values()
    held = {one.name: one.value for one in configs} | dict(coming)
    for text in tiering_advice(typed_settings(held)):
        note(f"Note: {text}")
