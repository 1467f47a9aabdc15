"""Settings of one listener."""

import pytest

from stratalog.metadata.settings.catalogue.types import ConfigType
from stratalog.metadata.settings.listener_settings import listener_definition, resolve_listener_settings
from stratalog.metadata.settings.resolution import ConfigSource, resolve_broker_config

MINE, DEFAULT = ConfigSource.DYNAMIC_BROKER_CONFIG, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
NAME = "listener.name.internal.max.connections"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        (NAME, ConfigType.INT),
        ("listener.name.internal.ssl.keystore.location", ConfigType.STRING),
        ("listener.name.a.plain.sasl.jaas.config", ConfigType.PASSWORD),
        ("listener.name.a.no.such", None),
        ("listener.name..max.connections", None),
        ("listener.name.max.connections", None),
        ("max.connections", None),
    ],
)
def test_a_setting_is_known_by_what_follows_the_listener(name, kind):
    """With a SASL mechanism in between, too."""
    row = listener_definition(name)
    assert (row and row.type) == kind
    assert row is None or row.name == name


def test_the_nearest_value_holds_and_the_brokers_setting_comes_last():
    """As synonyms show it."""
    entries = resolve_broker_config({"max.connections": "500"})
    layers = ((MINE, {NAME: "7"}), (DEFAULT, {NAME: "9", "log.retention.ms": "1"}))
    found = resolve_listener_settings(layers, entries)
    assert list(found) == [NAME]
    entry = found[NAME]
    assert (entry.value, entry.source, entry.is_read_only) == (7, MINE, True)
    assert [(each.name, each.text, each.source) for each in entry.synonyms] == [
        (NAME, "7", MINE),
        (NAME, "9", DEFAULT),
        ("max.connections", "500", ConfigSource.STATIC_BROKER_CONFIG),
        ("max.connections", "2147483647", ConfigSource.DEFAULT_CONFIG),
    ]


def test_a_secret_is_not_shown():
    """The entry and its synonyms are described without the text."""
    name = "listener.name.a.ssl.key.password"
    (entry,) = resolve_listener_settings(((MINE, {name: "hidden"}),), {}).values()
    assert entry.text is None
    assert [each.text for each in entry.synonyms] == [None]


def test_a_committed_text_that_cannot_be_read_is_passed_over():
    """Another release may have written it; the next place's text holds."""
    assert resolve_listener_settings(((MINE, {NAME: "seven"}),), {}) == {}
    others = ((MINE, {NAME: "seven"}), (ConfigSource.STATIC_BROKER_CONFIG, {NAME: "7"}))
    (entry,) = resolve_listener_settings(others, {}).values()
    assert (entry.value, entry.source) == (7, ConfigSource.STATIC_BROKER_CONFIG)
