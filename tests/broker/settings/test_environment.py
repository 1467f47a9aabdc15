"""Environment variables are settings."""

from __future__ import annotations

import pytest

from stratalog.broker.settings.environment import environment_settings, setting_name, variable_name


def test_variables_with_the_prefix_are_settings() -> None:
    """Underscores are dots; other variables and the command line's own are left alone."""
    environment = {
        "STRATALOG_LOG_SEGMENT_BYTES": "1048576",
        "STRATALOG_BOOTSTRAP": "127.0.0.1:9092",
        "STRATALOG_HTTP": "127.0.0.1:9644",
        "LOG_SEGMENT_MS": "1",
        "STRATALOG_LOG_DIRS": "/data",
    }
    found = environment_settings(environment)
    assert [(setting.name, setting.text, setting.origin) for setting in found] == [
        ("log.dirs", "/data", "environment STRATALOG_LOG_DIRS"),
        ("log.segment.bytes", "1048576", "environment STRATALOG_LOG_SEGMENT_BYTES"),
    ]


@pytest.mark.parametrize("name", ["log.dirs", "remote.log.storage.system.enable", "node.id"])
def test_names_go_both_ways(name: str) -> None:
    """The variable of a setting stands for that setting."""
    assert setting_name(variable_name(name)) == name
