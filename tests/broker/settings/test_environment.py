"""Environment variables are settings."""

from __future__ import annotations

import pytest

from stratalog.broker.settings.environment import (
    COMMAND_LINE_VARIABLES,
    environment_settings,
    setting_name,
    variable_name,
)
from stratalog.metadata.settings.configs import definitions


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


def test_links_to_services_of_kubernetes_are_no_settings() -> None:
    """Each pod gets them for a Service called stratalog: a broker did not start beside its own. A port by hand is a mistake."""
    links = {
        "STRATALOG_SERVICE_HOST": "10.43.0.7",
        "STRATALOG_SERVICE_PORT": "9092",
        "STRATALOG_SERVICE_PORT_KAFKA": "9092",
        "STRATALOG_PORT": "tcp://10.43.0.7:9092",
        "STRATALOG_PORT_9092_TCP": "tcp://10.43.0.7:9092",
        "STRATALOG_PORT_9092_TCP_PROTO": "tcp",
        "STRATALOG_PORT_9092_TCP_PORT": "9092",
        "STRATALOG_PORT_9092_TCP_ADDR": "10.43.0.7",
    }
    links |= {name.replace("STRATALOG_", "STRATALOG_HTTP_PAGE_"): value for name, value in links.items()}
    assert environment_settings(links) == []
    assert [one.name for one in environment_settings({**links, "STRATALOG_PORT": "9092"})] == ["port"]


def test_no_setting_has_the_name_of_a_link() -> None:
    """It could not be set by a variable."""
    every = {
        form: "tcp://"
        for name in definitions()
        for form in (variable_name(name), variable_name(name.removeprefix("stratalog.")))
    }
    assert len(environment_settings(every)) == len(every.keys() - COMMAND_LINE_VARIABLES)


@pytest.mark.parametrize("name", ["log.dirs", "remote.log.storage.system.enable", "node.id"])
def test_names_go_both_ways(name: str) -> None:
    """The variable of a setting stands for that setting."""
    assert setting_name(variable_name(name)) == name
