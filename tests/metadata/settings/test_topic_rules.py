"""Settings of one topic that must agree with each other."""

import pytest

from stratalog.metadata.settings.catalogue.types import ConfigError
from stratalog.metadata.settings.resolution import ConfigResolver, resolve_topic_config
from stratalog.metadata.settings.topic_rules import check_topic_values, validate_topic_configs

_RESOLVER = ConfigResolver.for_topics()


def _validate(overrides, *, existing=None, tiering_enabled=True):
    validate_topic_configs(overrides, _RESOLVER, existing=existing or {}, tiering_enabled=tiering_enabled)


@pytest.mark.parametrize(
    "overrides",
    [
        {},
        {"retention.ms": "-1", "local.retention.ms": "1000", "remote.storage.enable": "true"},
        {"local.retention.bytes": "10", "retention.bytes": "10", "remote.storage.enable": "true"},
        {"local.retention.bytes": "20", "retention.bytes": "10"},
        {"remote.storage.enable": "true", "remote.log.copy.disable": "true"},
        {"cleanup.policy": ""},
        {"internal.segment.bytes": "100"},
    ],
)
def test_consistent_settings_are_accepted(overrides):
    """Local retention only has to fit where the topic is tiered."""
    _validate(overrides)


@pytest.mark.parametrize("policy", ["compact", "compact,delete"])
def test_a_compacted_topic_may_be_tiered(policy):
    """Kafka refuses it; here the archive can be cleaned."""
    _validate({"remote.storage.enable": "true", "cleanup.policy": policy})


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        ({"retention.mss": "1"}, "Unknown topic config name: retention.mss"),
        ({"message.format.version": "3.0"}, "Unknown topic config name: message.format.version"),
        (
            {"min.insync.replicas": "0"},
            "Invalid value 0 for configuration min.insync.replicas: Value must be at least 1",
        ),
        (
            {"cleanup.policy": "shred"},
            "Invalid value shred for configuration cleanup.policy: String must be one of: compact, delete",
        ),
        (
            {"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "4"},
            "conflict topic config setting min.compaction.lag.ms (5) > max.compaction.lag.ms (4)",
        ),
        (
            {"remote.storage.enable": "true", "retention.ms": "10", "local.retention.ms": "11"},
            (
                "Invalid value 11 for configuration local.retention.ms: Value must not be more than retention.ms property "
                "value: 10"
            ),
        ),
        (
            {"remote.storage.enable": "true", "retention.bytes": "10", "local.retention.bytes": "-1"},
            (
                "Invalid value -1 for configuration local.retention.bytes: Value must not be -1 as retention.bytes value is "
                "set as 10."
            ),
        ),
    ],
)
def test_settings_that_contradict_each_other_are_refused_with_kafkas_sentence(overrides, sentence):
    """Names first, then types, then bounds, then combinations."""
    with pytest.raises(ConfigError) as caught:
        _validate(overrides)
    assert str(caught.value) == sentence


def test_tiering_needs_the_brokers_consent():
    """remote.storage.enable is refused where remote.log.storage.system.enable is off."""
    with pytest.raises(ConfigError, match="Tiered Storage functionality is disabled in the broker"):
        _validate({"remote.storage.enable": "true"}, tiering_enabled=False)


def test_tiering_ends_only_with_the_word_delete():
    """Turning it off without remote.log.delete.on.disable would orphan the archive."""
    existing = {"remote.storage.enable": "true"}
    with pytest.raises(ConfigError, match="It is invalid to disable remote storage without deleting remote data"):
        _validate({}, existing=existing)
    _validate({"remote.storage.enable": "false", "remote.log.delete.on.disable": "true"}, existing=existing)
    _validate({"remote.storage.enable": "false"}, existing={"remote.storage.enable": "false"})


def test_a_frozen_archive_leaves_local_retention_no_choice():
    """With uploads stopped, local retention must be the whole retention."""
    overrides = {
        "remote.storage.enable": "true",
        "remote.log.copy.disable": "true",
        "retention.ms": "10",
        "local.retention.ms": "5",
    }
    with pytest.raises(
        ConfigError, match=r"the `local\.retention\.ms` and `retention.ms` must be set to the identical"
    ):
        _validate(overrides)


def test_values_can_be_checked_without_texts():
    """The typed half of the check stands alone."""
    values = {name: entry.value for name, entry in resolve_topic_config({}).items()}
    check_topic_values(values, was_tiered=False, tiering_enabled=False)


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (
            {"local.retention.ms": "10", "remote.copy.lag.ms": "11"},
            (
                r"remote.copy.lag.ms: Value must not exceed local.retention.ms \(effective value: 10\).*"
                r"Lower remote.copy.lag.ms, or raise local.retention.ms"
            ),
        ),
        ({"retention.ms": "10", "remote.copy.lag.ms": "11"}, "Lower remote.copy.lag.ms, or raise retention.ms"),
        ({"local.retention.bytes": "10", "remote.copy.lag.bytes": "11"}, "Lower remote.copy.lag.bytes"),
        ({"local.retention.ms": "10", "stratalog.upload.lag.ms": "11"}, "Lower stratalog.upload.lag.ms"),
        (
            {"segment.bytes": str(20 << 20), "stratalog.upload.part.bytes": str(21 << 20)},
            r"exceed segment.bytes \(20971520\).*or raise segment.bytes",
        ),
    ],
)
def test_lags_and_parts_must_fit_the_local_retention(overrides, words):
    """The sentence says what to change; topics that are not tiered may say what they like."""
    with pytest.raises(ConfigError, match=words):
        _validate({"remote.storage.enable": "true", **overrides})
    _validate(overrides)


@pytest.mark.parametrize(
    "overrides",
    [
        {"local.retention.ms": "10", "remote.copy.lag.ms": "10"},
        {"local.retention.ms": "10", "remote.copy.lag.ms": "-1"},
        {"retention.ms": "-1", "local.retention.ms": "-1", "remote.copy.lag.ms": "11"},
        {"segment.bytes": str(1 << 20)},
        {"segment.bytes": str(64 << 20), "stratalog.upload.part.bytes": str(64 << 20)},
    ],
)
def test_bounds_that_fit_are_accepted(overrides):
    """Equal is enough; without a local bound any lag is."""
    _validate({"remote.storage.enable": "true", **overrides})
