"""What commands say about the settings of a topic."""

from __future__ import annotations

import pytest

from stratalog.broker.cli_tier_advice import advise, typed_settings
from stratalog.broker.client import Client
from stratalog.metadata.config_types import ConfigError


def test_settings_are_typed_and_complete() -> None:
    """What is not given is at its default; a text that is none of the type is refused."""
    values = typed_settings({"retention.ms": "5", "remote.storage.enable": "true", "no.such.setting": "x"})
    assert (values["retention.ms"], values["remote.storage.enable"], values["segment.bytes"]) == (5, True, 1 << 30)
    with pytest.raises(ConfigError):
        typed_settings({"retention.ms": "soon"})


def test_what_is_coming_counts(live_broker, topic, stratalog, capsys) -> None:
    """A dry run is advised as if it were made."""
    with Client(live_broker.kafka, 30) as client:
        client.refresh([topic])
        advise(client, topic, {})
        assert capsys.readouterr().err == ""
        advise(client, topic, {"remote.storage.enable": "true", "remote.copy.lag.ms": "7"})
    assert "Note: For 7 ms what is written exists on local disks only" in capsys.readouterr().err
    assert stratalog("topic", "describe", topic, "--json").rows[0]["configs"] == {}
