"""Changing settings."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.metadata.controller.controller import (
    ConfigChange,
    ConfigOperation,
    ConfigRules,
    Failure,
    NewTopic,
    create_topics,
    incremental_alter_configs,
    legacy_alter_configs,
)
from stratalog.metadata.image.configs_image import CLUSTER_DEFAULT, ConfigResource
from stratalog.metadata.image.image import EMPTY_IMAGE, INCARNATION
from stratalog.metadata.settings.by_name import definitions, is_security
from stratalog.metadata.settings.catalogue.types import ConfigError, ConfigType
from stratalog.metadata.settings.configs import ConfigResolver
from stratalog.wire.errors import ErrorCode
from stratalog.wire.records.metadata import ConfigRecord, TopicRecord

SET, DELETE, APPEND, SUBTRACT = ConfigOperation
_TOPIC = ConfigResource.topic("t")
_RULES = ConfigRules(resolver=ConfigResolver.for_topics(), static={})


@pytest.fixture
def image(cluster, rules, topic_ids):
    """One broker, one topic with a setting of its own."""
    image = cluster(1)
    topic = NewTopic("t", configs={"retention.ms": "5"})
    return image.apply(create_topics(image, [topic], rules, new_topic_id=topic_ids, next_int=lambda _: 0).records)


def _alter(image, resource, *changes, rules=_RULES, **options):
    changes = [ConfigChange(*change) for change in changes]
    decision = incremental_alter_configs(image, [(resource, changes)], rules, **options)
    return image.apply(decision.records), decision


def _failure(image, resource, *changes, rules=_RULES):
    _, decision = _alter(image, resource, *changes, rules=rules)
    assert decision.records == ()
    return decision.result[0][1]


def test_single_settings_change_and_the_rest_stays(image):
    """SET and DELETE touch only what they name."""
    after, decision = _alter(image, _TOPIC, ("segment.ms", SET, "9"), ("retention.ms", DELETE, None))
    assert decision.result == ((_TOPIC, None),)
    assert after.topic_configs("t") == {"segment.ms": "9"}


def test_a_value_that_stays_is_not_written_again(image):
    """No record without a change."""
    _, decision = _alter(image, _TOPIC, ("retention.ms", SET, "5"), ("segment.ms", DELETE, None))
    assert decision.records == ()


def test_a_brokers_value_is_written_even_if_it_stays(image):
    """KAFKA-14136: what the value names may have changed, as with a key store's file."""
    resource = ConfigResource.broker(1)
    change = ("log.retention.ms", SET, "7")
    image, _ = _alter(image, resource, change)
    _, decision = _alter(image, resource, change)
    assert [record.value for record in decision.records] == ["7"]


def test_lists_grow_and_shrink(image):
    """APPEND begins from the default if nothing is set, and adds nothing twice; SUBTRACT takes away."""
    image, _ = _alter(image, _TOPIC, ("cleanup.policy", APPEND, "compact"))
    assert image.topic_configs("t")["cleanup.policy"] == "delete,compact"
    image, _ = _alter(image, _TOPIC, ("cleanup.policy", APPEND, "compact"))
    assert image.topic_configs("t")["cleanup.policy"] == "delete,compact"
    image, _ = _alter(image, _TOPIC, ("cleanup.policy", SUBTRACT, "delete,other"))
    assert image.topic_configs("t")["cleanup.policy"] == "compact"


def test_validate_only_answers_without_records(image):
    """The answer is that of the real thing."""
    _, decision = _alter(image, _TOPIC, ("segment.ms", SET, "9"), validate_only=True)
    assert (decision.records, decision.result) == ((), ((_TOPIC, None),))


def test_a_resource_changes_as_a_whole_or_not_at_all(image):
    """One bad value stops the others of its resource, not other resources."""
    bad = [ConfigChange("segment.ms", SET, "9"), ConfigChange("retention.ms", SET, "x")]
    good = [ConfigChange("log.retention.ms", SET, "7")]
    decision = incremental_alter_configs(image, [(_TOPIC, bad), (CLUSTER_DEFAULT, good)], _RULES)
    assert [failure is None for _, failure in decision.result] == [False, True]
    after = image.apply(decision.records)
    assert after.topic_configs("t") == image.topic_configs("t")
    assert after.configs.of(CLUSTER_DEFAULT) == {"log.retention.ms": "7"}


@pytest.mark.parametrize(
    ("resource", "changes", "code", "sentence"),
    [
        (
            _TOPIC,
            [("retention.ms", APPEND, "1")],
            ErrorCode.INVALID_CONFIG,
            "Can't APPEND to key retention.ms because its type is not LIST.",
        ),
        (_TOPIC, [("x", SET, "1")], ErrorCode.INVALID_CONFIG, "Unknown topic config name: x"),
        (
            _TOPIC,
            [("segment.ms", SET, "0")],
            ErrorCode.INVALID_CONFIG,
            "Invalid value 0 for configuration segment.ms: Value must be at least 1",
        ),
        (
            _TOPIC,
            [("segment.ms", SET, None)],
            ErrorCode.INVALID_REQUEST,
            "Null value not supported for : segment.ms",
        ),
        (
            _TOPIC,
            [("segment.ms", SET, "1"), ("segment.ms", DELETE, None)],
            ErrorCode.INVALID_REQUEST,
            "Error due to duplicate config keys",
        ),
        (_TOPIC, [("segment.ms", 9, "1")], ErrorCode.INVALID_REQUEST, "Unknown operation type 9"),
        (
            ConfigResource.topic(""),
            [("segment.ms", SET, "1")],
            ErrorCode.INVALID_REQUEST,
            "Default topic resources are not allowed.",
        ),
        (
            ConfigResource.topic("u"),
            [("segment.ms", SET, "1")],
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            "The topic 'u' does not exist.",
        ),
        (ConfigResource.topic("a/b"), [], ErrorCode.INVALID_TOPIC_EXCEPTION, None),
        (
            ConfigResource(4, "one"),
            [("log.retention.ms", SET, "1")],
            ErrorCode.INVALID_REQUEST,
            "Unable to parse broker name as a base 10 number.",
        ),
        (
            ConfigResource(4, "9" * 5000),
            [("log.retention.ms", SET, "1")],
            ErrorCode.INVALID_REQUEST,
            "Unable to parse broker name as a base 10 number.",
        ),
        (
            ConfigResource.broker(9),
            [("log.retention.ms", SET, "1")],
            ErrorCode.BROKER_ID_NOT_REGISTERED,
            "No broker with id 9 found.",
        ),
        (
            ConfigResource.broker(1),
            [("node.id", SET, "2")],
            ErrorCode.INVALID_REQUEST,
            "Cannot update these configs dynamically: [node.id]",
        ),
        (
            CLUSTER_DEFAULT,
            [("ssl.protocol", SET, "TLSv1.2")],
            ErrorCode.INVALID_REQUEST,
            "Cannot update these configs at default cluster level, broker id must be specified: [ssl.protocol]",
        ),
        (
            CLUSTER_DEFAULT,
            [("ssl.keystore.location", SET, "x")],
            ErrorCode.INVALID_REQUEST,
            "These security configs can be dynamically updated only per-listener using the listener prefix: [ssl.keystore.location]",
        ),
        (
            ConfigResource.broker(1),
            [("ssl.truststore.type", SET, "PEM")],
            ErrorCode.INVALID_REQUEST,
            "These security configs can be dynamically updated only per-listener using the listener prefix: [ssl.truststore.type]",
        ),
        (
            ConfigResource.broker(1),
            [("ssl.protocol", SET, "TLSv1.2")],
            ErrorCode.INVALID_REQUEST,
            "ssl.protocol would protect nothing: listeners speak plain text in this release",
        ),
        (
            ConfigResource.broker(1),
            [("listener.name.plaintext.ssl.keystore.location", SET, "x")],
            ErrorCode.INVALID_REQUEST,
            "listener.name.plaintext.ssl.keystore.location would protect nothing: listeners speak plain text in this release",
        ),
        (
            CLUSTER_DEFAULT,
            [("log.retention.mss", SET, "1")],
            ErrorCode.INVALID_REQUEST,
            "Unknown setting log.retention.mss: did you mean log.retention.ms?",
        ),
        (
            CLUSTER_DEFAULT,
            [("log.roll.ms", SET, "0")],
            ErrorCode.INVALID_REQUEST,
            "log.roll.ms must be greater than or equal to 1",
        ),
        (
            CLUSTER_DEFAULT,
            [(INCARNATION, SET, "9")],
            ErrorCode.INVALID_REQUEST,
            "Cannot update these configs dynamically: [stratalog.incarnation]",
        ),
        (
            ConfigResource(32, "g"),
            [("consumer.session.timeout", SET, "1")],
            ErrorCode.INVALID_CONFIG,
            "Unknown group config name: consumer.session.timeout",
        ),
        (
            ConfigResource(32, ""),
            [("consumer.session.timeout.ms", SET, "1")],
            ErrorCode.INVALID_REQUEST,
            "Default group resources are not allowed.",
        ),
        (ConfigResource(8, "1"), [], ErrorCode.INVALID_REQUEST, "Unknown resource type 8"),
    ],
)
def test_a_change_that_cannot_be_is_refused_with_kafkas_sentence(image, resource, changes, code, sentence):
    """No record is written, and the answer says why."""
    failure = _failure(image, resource, *changes)
    assert failure.code is code
    assert sentence is None or failure.message == sentence


def test_one_resource_twice_in_a_request_is_refused(image):
    """Neither change is made."""
    change = [ConfigChange("segment.ms", SET, "9")]
    decision = incremental_alter_configs(image, [(_TOPIC, change), (_TOPIC, change)], _RULES)
    assert decision.records == ()
    assert [failure.code for _, failure in decision.result] == [ErrorCode.INVALID_REQUEST] * 2


def test_tiering_is_switched_off_only_with_the_word_delete(image):
    """The topic's present settings count for the rule."""
    image, _ = _alter(image, _TOPIC, ("remote.storage.enable", SET, "true"))
    failure = _failure(image, _TOPIC, ("remote.storage.enable", SET, "false"))
    assert failure.code is ErrorCode.INVALID_CONFIG
    off = [("remote.storage.enable", SET, "false"), ("remote.log.delete.on.disable", SET, "true")]
    assert _alter(image, _TOPIC, *off)[1].result == ((_TOPIC, None),)


@pytest.mark.parametrize("name", ["log.retention.ms", "log.dirs", "no.such.setting", "listener.name.a.no.such"])
def test_a_deleted_setting_of_a_broker_is_gone_and_need_not_have_been(image, name):
    """Known or not, dynamic or not: Kafka's tools delete without a look."""
    for resource in (ConfigResource.broker(1), CLUSTER_DEFAULT):
        after, decision = _alter(image, resource, (name, DELETE, None))
        assert decision.result == ((resource, None),)
        assert name not in after.configs.of(resource)


@pytest.mark.parametrize("resource", [ConfigResource.broker(1), CLUSTER_DEFAULT])
def test_settings_of_one_listener_are_known(image, resource):
    """Whether or not there is such a listener; their values are those of the setting without the prefix."""
    name = "listener.name.nowhere.max.connections"
    after, decision = _alter(image, resource, (name, SET, "7"))
    assert decision.result == ((resource, None),)
    assert after.configs.of(resource)[name] == "7"
    assert _failure(image, resource, (name, SET, "seven")).code is ErrorCode.INVALID_REQUEST
    assert "Unknown setting" in _failure(image, resource, ("listener.name.a.no.such", SET, "7")).message


@pytest.mark.parametrize("prefix", ["", "listener.name.plaintext.", "listener.name.other.plain."])
@pytest.mark.parametrize("name", sorted(name for name in definitions() if is_security(name)))
def test_no_setting_that_would_protect_nothing_is_taken(image, prefix, name):
    """Each setting of TLS, SASL, tokens and principals without an effect here: a change of it is an error, not silence."""
    row = definitions()[name]
    assert row.why_not is not None, "a setting with an effect has a test of its own"
    other = {ConfigType.BOOLEAN: str(not row.default).lower(), ConfigType.STRING: "x", ConfigType.LIST: "x"}
    candidates = [other.get(row.type, "7"), "required", "0.6", "JKS", "PKCS12", "SASL_SSL", "ES256"]
    values = []
    for text in candidates:
        with contextlib.suppress(ConfigError):
            if row.parse(text) != row.default:
                values.append(text)
    assert values
    for resource in (ConfigResource.broker(1), CLUSTER_DEFAULT):
        assert _failure(image, resource, (prefix + name, SET, values[0])).code is ErrorCode.INVALID_REQUEST


def test_subtracting_a_missing_item_of_a_list_changes_nothing(image):
    """Whether the list was set or is the default."""
    after, _ = _alter(image, _TOPIC, ("cleanup.policy", SUBTRACT, "compact"))
    assert after.configs.of(_TOPIC)["cleanup.policy"] == "delete"
    again, _ = _alter(after, _TOPIC, ("cleanup.policy", SUBTRACT, "compact"))
    assert again.configs.of(_TOPIC) == after.configs.of(_TOPIC)


@pytest.mark.parametrize(("operation", "word"), [(APPEND, "append"), (SUBTRACT, "subtract")])
def test_a_setting_that_is_no_list_is_refused_in_the_brokers_own_words(image, operation, word):
    """Kafka's brokers say it otherwise than its controller."""
    failure = _failure(image, ConfigResource.broker(1), ("log.cleaner.threads", operation, "2"))
    sentence = f"Config value {word} is not allowed for config key: log.cleaner.threads"
    assert failure == Failure(ErrorCode.INVALID_CONFIG, sentence)


def test_a_brokers_change_is_measured_with_its_file(image):
    """A dynamic setting may contradict a static one."""
    rules = ConfigRules(resolver=ConfigResolver.for_topics(), static={"log.retention.ms": "10"})
    change = ("log.local.retention.ms", SET, "11")
    assert _failure(image, ConfigResource.broker(1), change, rules=rules).code is ErrorCode.INVALID_REQUEST
    assert _alter(image, ConfigResource.broker(1), change)[1].result[0][1] is None


def test_a_group_has_settings_of_its_own(image):
    """A group need not exist for it."""
    group = ConfigResource(32, "g")
    after, _ = _alter(image, group, ("consumer.session.timeout.ms", SET, "50000"))
    assert after.configs.of(group) == {"consumer.session.timeout.ms": "50000"}


def test_the_legacy_request_replaces_everything(image):
    """Unnamed settings go back to their defaults."""
    decision = legacy_alter_configs(image, [(_TOPIC, {"segment.ms": "9"})], _RULES)
    assert decision.result == ((_TOPIC, None),)
    assert image.apply(decision.records).topic_configs("t") == {"segment.ms": "9"}
    assert legacy_alter_configs(image, [(_TOPIC, {"segment.ms": "9"})], _RULES, validate_only=True).records == ()


def test_a_replacement_may_name_the_incarnation_unchanged(image):
    """Older tools read all settings, and write them back with one that differs."""
    image = image.apply([ConfigRecord(resource_type=4, resource_name="", name=INCARNATION, value="3")])
    settings = {INCARNATION: "3", "log.retention.ms": "7"}
    decision = legacy_alter_configs(image, [(CLUSTER_DEFAULT, settings)], _RULES)
    assert decision.result == ((CLUSTER_DEFAULT, None),)
    assert image.apply(decision.records).configs.of(CLUSTER_DEFAULT) == settings
    decision = legacy_alter_configs(image, [(CLUSTER_DEFAULT, settings | {INCARNATION: "4"})], _RULES)
    assert decision.records == ()
    assert decision.result[0][1].message == "Cannot update these configs dynamically: [stratalog.incarnation]"


@pytest.mark.parametrize("incarnation", [3, -1], ids=["after a takeover", "a drill"])
def test_no_request_takes_the_incarnation(image, incarnation):
    """No client can lose what guards the bucket: a drill would begin to write into the archive of its owner."""
    record = ConfigRecord(resource_type=4, resource_name="", name=INCARNATION, value=str(incarnation))
    image = image.apply([record])
    after = image.apply(legacy_alter_configs(image, [(CLUSTER_DEFAULT, {})], _RULES).records)
    assert after.incarnation == incarnation
    failure = _failure(image, CLUSTER_DEFAULT, ("log.retention.ms", SET, "7"), (INCARNATION, DELETE, None))
    assert failure == Failure(
        ErrorCode.INVALID_REQUEST, "Cannot update these configs dynamically: [stratalog.incarnation]"
    )
    after, _ = _alter(image, CLUSTER_DEFAULT, ("log.retention.ms", SET, "7"))
    assert (after.incarnation, after.configs.of(CLUSTER_DEFAULT)["log.retention.ms"]) == (incarnation, "7")


def test_a_legacy_value_of_null_is_refused(image):
    """Kafka's sentence."""
    decision = legacy_alter_configs(image, [(_TOPIC, {"segment.ms": None})], _RULES)
    assert decision.result[0][1] == Failure(ErrorCode.INVALID_REQUEST, "Null value not supported for : segment.ms")


_VALUES = st.dictionaries(st.sampled_from(["segment.ms", "retention.ms", "flush.ms"]), st.integers(1, 9).map(str))


@given(_VALUES, _VALUES)
def test_incremental_changes_and_a_replacement_meet(before, after):
    """Deleting what goes and setting what comes gives the same image as replacing all."""
    image = EMPTY_IMAGE.apply(
        [
            TopicRecord(name="t", topic_id=b"t" * 16),
            *(
                ConfigRecord(resource_type=2, resource_name="t", name=name, value=value)
                for name, value in before.items()
            ),
        ]
    )
    changes = [ConfigChange(name, DELETE, None) for name in before if name not in after]
    changes += [ConfigChange(name, SET, value) for name, value in after.items()]
    one = image.apply(incremental_alter_configs(image, [(_TOPIC, changes)], _RULES).records)
    other = image.apply(legacy_alter_configs(image, [(_TOPIC, after)], _RULES).records)
    assert one == other
    assert one.topic_configs("t") == after
