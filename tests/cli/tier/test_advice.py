"""The notes of commands about the settings of a topic."""

from __future__ import annotations

import pytest

from stratalog.cli.tier.advice import advise, typed_settings
from stratalog.client.client import Client
from stratalog.metadata.settings.catalogue.types import ConfigError


def test_settings_are_typed_and_complete() -> None:
    """Missing settings are at their defaults; a text that is none of the type is refused."""
    values = typed_settings({"retention.ms": "5", "remote.storage.enable": "true", "no.such.setting": "x"})
    assert (values["retention.ms"], values["remote.storage.enable"], values["segment.bytes"]) == (5, True, 1 << 30)
    with pytest.raises(ConfigError):
        typed_settings({"retention.ms": "soon"})


def test_announced_settings_count(live_broker, topic, stratalog, capsys) -> None:
    """A dry run is advised as if it were made."""
    with Client(live_broker.kafka, 30) as client:
        client.refresh([topic])
        advise(client, topic, {})
        assert capsys.readouterr().err == ""
        advise(client, topic, {"remote.storage.enable": "true", "remote.copy.lag.ms": "7"})
    assert "Note: For 7 ms what is written exists on local disks only" in capsys.readouterr().err
    assert stratalog("topic", "describe", topic, "--json").rows[0]["configs"] == {}
