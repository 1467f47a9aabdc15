"""The list of all settings."""

from pathlib import Path

import pytest

from stratalog.metadata.settings.by_name import definitions, describe_unknown, group_definitions, topic_definitions

_REFERENCE = Path(__file__).with_name("kafka_broker_settings.txt").read_text(encoding="utf-8").split()


def test_every_broker_setting_of_kafka_4_3_is_known():
    """All 343 names of the reference are there."""
    assert len(_REFERENCE) == 343
    assert set(_REFERENCE) <= set(definitions())


def test_settings_kafka_does_not_list_are_internal_or_ours():
    """A name outside the reference is one of Kafka's internal ones, or of Kafka 4.4, or begins with stratalog."""
    newer = {"log.remote.copy.lag.bytes", "log.remote.copy.lag.ms"}
    extra = set(definitions()) - set(_REFERENCE) - newer
    assert {name for name in extra if not name.startswith("stratalog.") and not definitions()[name].internal} == set()


def test_every_topic_setting_of_kafka_4_3_is_known():
    """33 names; beyond them our own. The segment size in bytes and the copy lag of 4.4 are internal, as there."""
    public = [name for name, row in topic_definitions().items() if not row.internal]
    newer = [name for name in public if name.startswith("stratalog.")]
    assert len(public) - len(newer) == 33
    assert len(newer) == 3
    assert {"cleanup.policy", "remote.storage.enable", "local.retention.ms", "remote.log.copy.disable"} <= set(public)


def test_every_setting_explains_itself_in_one_line():
    """A doc text ends with a full stop; a reason for having no effect is one line."""
    for row in [*definitions().values(), *topic_definitions().values(), *group_definitions().values()]:
        assert row.doc.endswith("."), row.name
        assert row.why_not is None or (row.why_not and "\n" not in row.why_not), row.name


def test_synonyms_exist_and_have_the_same_default():
    """The default of a topic or group setting is what its broker settings give."""
    for row in [*topic_definitions().values(), *group_definitions().values()]:
        given = [
            synonym.value_of(definitions()[synonym.name].default)
            for synonym in row.synonyms
            if definitions()[synonym.name].default is not None
        ]
        assert not row.synonyms or given[0] == row.default, row.name


def test_defaults_that_differ_from_kafkas_are_few_and_marked():
    """Sync on ack, the data directory and tiering are ours; everything else is Kafka's."""
    rows = [*definitions().values(), *topic_definitions().values()]
    assert {row.name for row in rows if row.kafka_default is not None} == {
        "flush.messages",
        "log.flush.interval.messages",
        "log.dir",
        "remote.log.storage.system.enable",
    }


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("log.segment.byte", "did you mean log.segment.bytes?"),
        ("zookeeper.connect", "there is no ZooKeeper"),
        ("zookeeper.session.timeout.ms", "there is no ZooKeeper"),
        ("log.message.format.version", "Kafka removed it"),
        ("inter.broker.protocol.version", "metadata.version"),
        ("qqqqqqqq", "no known name is near it"),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest_or_the_reason(name, hint):
    """A misspelt, removed or ZooKeeper's setting is named with what to do."""
    sentence = describe_unknown(name)
    assert sentence.startswith(f"Unknown setting {name}")
    assert hint in sentence


def test_the_nearest_name_can_be_looked_for_elsewhere():
    """The caller may give its own list of names."""
    assert "did you mean retention.ms?" in describe_unknown("retention.mss", topic_definitions())
