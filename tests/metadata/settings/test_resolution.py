"""Which value holds, and where it comes from."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.metadata.settings.catalogue.definition import ConfigDef
from stratalog.metadata.settings.catalogue.types import ConfigError, ConfigType
from stratalog.metadata.settings.catalogue.validators import AnyList
from stratalog.metadata.settings.resolution import (
    ConfigResolver,
    ConfigSource,
    ConfigSynonym,
    resolve_broker_config,
    resolve_topic_config,
    unreadable_settings,
)

_LAYERS = ("topic", "dynamic", "dynamic_default", "static")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("segment.bytes", 1073741824),
        ("segment.ms", 604800000),
        ("retention.ms", 604800000),
        ("segment.index.bytes", 10485760),
        ("index.interval.bytes", 4096),
        ("min.insync.replicas", 1),
        ("min.cleanable.dirty.ratio", 0.5),
        ("delete.retention.ms", 86400000),
        ("max.message.bytes", 1048588),
    ],
)
def test_defaults_of_a_topic_are_kafkas(name, value):
    """The facts' list of defaults, each with source DEFAULT_CONFIG."""
    entry = resolve_topic_config({})[name]
    assert (entry.value, entry.source, entry.is_default) == (value, ConfigSource.DEFAULT_CONFIG, True)


def test_sync_on_ack_is_the_default():
    """flush.messages is 1 and says so as a default, with its broker setting as synonym."""
    entry = resolve_topic_config({})["flush.messages"]
    assert entry.value == 1
    assert entry.synonyms == (ConfigSynonym("log.flush.interval.messages", "1", ConfigSource.DEFAULT_CONFIG),)


def test_an_override_lists_every_other_value_behind_it():
    """Synonyms go from the value that holds to the default, each with its source."""
    entry = resolve_topic_config(
        {"segment.bytes": "2097152"},
        static={"log.segment.bytes": "5242880"},
        dynamic={"log.segment.bytes": "3145728"},
        dynamic_default={"log.segment.bytes": "4194304"},
    )["segment.bytes"]
    assert (entry.text, entry.source) == ("2097152", ConfigSource.DYNAMIC_TOPIC_CONFIG)
    assert entry.synonyms == (
        ConfigSynonym("segment.bytes", "2097152", ConfigSource.DYNAMIC_TOPIC_CONFIG),
        ConfigSynonym("log.segment.bytes", "3145728", ConfigSource.DYNAMIC_BROKER_CONFIG),
        ConfigSynonym("log.segment.bytes", "4194304", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
        ConfigSynonym("log.segment.bytes", "5242880", ConfigSource.STATIC_BROKER_CONFIG),
        ConfigSynonym("log.segment.bytes", "1073741824", ConfigSource.DEFAULT_CONFIG),
    )


@pytest.mark.parametrize(
    ("static", "value"),
    [
        ({"log.retention.hours": "1"}, 3_600_000),
        ({"log.retention.hours": "1", "log.retention.minutes": "2"}, 120_000),
        ({"log.retention.hours": "1", "log.retention.minutes": "2", "log.retention.ms": "3"}, 3),
        ({"log.retention.hours": "-1"}, -1),
        ({"log.retention.minutes": "-1"}, -1),
    ],
)
def test_the_finer_unit_of_retention_wins(static, value):
    """Milliseconds stand before minutes before hours, and -1 stays -1 in every unit."""
    entry = resolve_topic_config({}, static)["retention.ms"]
    assert (entry.value, entry.source) == (value, ConfigSource.STATIC_BROKER_CONFIG)


def test_roll_hours_become_milliseconds_and_the_synonym_keeps_its_own_text():
    """The value is in the topic's unit, the synonym in the broker setting's."""
    entry = resolve_topic_config({}, {"log.roll.hours": "2"})["segment.ms"]
    assert entry.value == 7_200_000
    assert entry.synonyms[0] == ConfigSynonym("log.roll.hours", "2", ConfigSource.STATIC_BROKER_CONFIG)


def test_flush_ms_falls_back_to_the_schedulers_interval():
    """Without log.flush.interval.ms the scheduler's setting is the default, as in Kafka."""
    assert resolve_topic_config({}, {"log.flush.scheduler.interval.ms": "9"})["flush.ms"].value == 9


def test_a_broker_setting_says_whether_it_can_change():
    """Read-only is what is not dynamic."""
    entries = resolve_broker_config({"log.retention.hours": "1"})
    assert entries["log.retention.hours"].is_read_only
    assert not entries["log.retention.ms"].is_read_only
    assert entries["log.retention.hours"].source is ConfigSource.STATIC_BROKER_CONFIG


def test_a_secret_is_shown_nowhere():
    """Neither the value's text nor a synonym holds a password."""
    entry = resolve_broker_config({"ssl.key.password": "s3cret"})["ssl.key.password"]
    assert entry.text is None
    assert [synonym.text for synonym in entry.synonyms] == [None]
    assert "s3cret" not in repr(entry.synonyms)


def test_an_override_that_is_no_longer_known_is_passed_over():
    """A log written by another version may hold unknown names."""
    assert "message.format.version" not in resolve_topic_config({"message.format.version": "3.0"})


def test_an_override_that_does_not_parse_is_refused():
    """Resolution never guesses."""
    with pytest.raises(ConfigError, match=r"segment\.bytes"):
        resolve_topic_config({"segment.bytes": "many"})


def test_a_committed_text_that_cannot_be_read_gives_way_to_the_next_place():
    """Topic, broker and all brokers alike; the entry says that there was one."""
    resolver = ConfigResolver.for_topics({"log.segment.bytes": "5242880"}, {"log.segment.bytes": "many"})
    entry = resolver.committed({"segment.bytes": "more"})["segment.bytes"]
    assert (entry.value, entry.source, entry.is_unreadable) == (5242880, ConfigSource.STATIC_BROKER_CONFIG, True)
    assert [one.text for one in entry.synonyms] == ["5242880", "1073741824"]
    readable = resolver.committed({"segment.bytes": "2097152"})["segment.bytes"]
    assert (readable.value, readable.is_unreadable) == (2097152, False)
    entry = resolve_broker_config({}, {"max.connections": "x"}, {"max.connections": "7"})["max.connections"]
    assert (entry.value, entry.is_unreadable) == (7, True)


def test_a_secret_that_cannot_be_read_is_not_shown():
    """Names of settings that are unknown are none of this release's."""
    rows = {"p": ConfigDef("p", ConfigType.PASSWORD, None, "", AnyList())}
    assert unreadable_settings({"p": "s3cret", "q": "x"}, rows) == ["Invalid value [hidden] for configuration p"]


def test_a_group_setting_falls_back_to_the_brokers():
    """consumer.session.timeout.ms takes group.consumer.session.timeout.ms."""
    resolver = ConfigResolver.for_groups({"group.consumer.session.timeout.ms": "50000"})
    assert resolver.resolve({})["consumer.session.timeout.ms"].value == 50_000
    override = resolver.resolve({"consumer.session.timeout.ms": "55000"})["consumer.session.timeout.ms"]
    assert override.source is ConfigSource.DYNAMIC_GROUP_CONFIG


def test_a_resolver_without_overrides_gives_the_same_entries_each_time():
    """Topics without overrides share what was resolved once."""
    resolver = ConfigResolver.for_topics()
    assert resolver.resolve({})["segment.ms"] is resolver.resolve({"segment.bytes": "2097152"})["segment.ms"]


@given(st.dictionaries(st.sampled_from(_LAYERS), st.integers(1 << 20, (1 << 31) - 1)))
def test_the_nearest_layer_always_wins(given_layers):
    """Topic before broker before cluster default before file before default, whatever is set."""
    texts = {layer: {"log.segment.bytes": str(value)} for layer, value in given_layers.items()}
    entry = resolve_topic_config(
        {"segment.bytes": str(given_layers["topic"])} if "topic" in given_layers else {},
        texts.get("static", {}),
        texts.get("dynamic", {}),
        texts.get("dynamic_default", {}),
    )["segment.bytes"]
    expected = next((given_layers[layer] for layer in _LAYERS if layer in given_layers), 1 << 30)
    assert entry.value == expected
    assert len(entry.synonyms) == len(given_layers) + 1
    assert [synonym.source for synonym in entry.synonyms] == sorted(synonym.source for synonym in entry.synonyms)
