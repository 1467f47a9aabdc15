"""The controller's answers to changes of settings: incremental (KIP-339) and legacy, of topics, brokers and groups.

Each resource changes as a whole or not at all. Sources of rules and texts: Kafka's ``ConfigurationControlManager``,
``ControllerConfigurationValidator``, ``ConfigAdminManager``, ``DynamicBrokerConfig``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from msgspec import Struct

from stratalog.metadata.controller.min_in_sync import check_minimum, forgetting_eligible
from stratalog.metadata.image.configs_image import CLUSTER_DEFAULT, ConfigResource, ResourceType, broker_id_of
from stratalog.metadata.image.decision import Decision, Failure, Steps, at_once, failure_of
from stratalog.metadata.image.image import INCARNATION, ClusterImage
from stratalog.metadata.image.topic_names import check_topic_name
from stratalog.metadata.settings.broker_rules import broker_problems
from stratalog.metadata.settings.by_name import (
    definitions,
    describe_unknown,
    group_definitions,
    is_security,
    topic_definitions,
)
from stratalog.metadata.settings.catalogue.definition import ConfigDef, UpdateMode
from stratalog.metadata.settings.catalogue.types import ConfigError, ConfigType
from stratalog.metadata.settings.listener_settings import is_listener_security, listener_definition
from stratalog.metadata.settings.resolution import ConfigResolver, resolve_broker_config
from stratalog.metadata.settings.resource_rules import check_client_metrics, check_group
from stratalog.metadata.settings.topic_rules import validate_topic_configs
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.records.metadata import ConfigRecord
from stratalog.wire.schema import Message

__all__ = [
    "ConfigChange",
    "ConfigOperation",
    "ConfigRules",
    "altering_configs",
    "incremental_alter_configs",
    "legacy_alter_configs",
    "replacing_configs",
]

_NOT_DYNAMIC: Final = "Cannot update these configs dynamically: [{}]"
_SECURITY_OF_LISTENERS: Final = frozenset(
    f"ssl.{name}"
    for name in (
        "key.password",
        "keystore.certificate.chain",
        "keystore.key",
        "keystore.location",
        "keystore.password",
        "keystore.type",
        "truststore.certificates",
        "truststore.location",
        "truststore.password",
        "truststore.type",
    )
)
"""Settings that Kafka changes at run time for one listener only. Source:
``SslConfigs.RECONFIGURABLE_CONFIGS`` of Kafka 4.3.1.
"""


class ConfigOperation(IntEnum):
    """The operations on one setting; the numbers are those of IncrementalAlterConfigs."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigChange(NamedTuple):
    """One change of one setting."""

    name: str
    operation: int
    value: str | None


class ConfigRules(Struct, frozen=True, kw_only=True):
    """The rules that new settings must keep. ``static`` is the broker's file."""

    resolver: ConfigResolver
    static: Mapping[str, str]
    tiering_enabled: bool = True


Results = tuple[tuple[ConfigResource, Failure | None], ...]


def altering_configs(
    image: ClusterImage,
    changes: Sequence[tuple[ConfigResource, Sequence[ConfigChange]]],
    rules: ConfigRules,
    *,
    validate_only: bool = False,
) -> Steps[Results]:
    """Change single settings and leave the rest."""
    records: list[Message] = []
    results: list[tuple[ConfigResource, Failure | None]] = []
    counts = Counter(resource for resource, _ in changes)
    for resource, each in changes:
        try:
            _check_unique(resource, counts)
            after = _changed(image, resource, each)
            records += _alter(image, resource, after, frozenset(change.name for change in each), rules)
        except KafkaError as error:
            results.append((resource, failure_of(error)))
        else:
            results.append((resource, None))
        yield
    records = yield from forgetting_eligible(image, records)
    return Decision(() if validate_only else tuple(records), tuple(results))


incremental_alter_configs = at_once(altering_configs)


def replacing_configs(
    image: ClusterImage,
    settings: Sequence[tuple[ConfigResource, Mapping[str, str | None]]],
    rules: ConfigRules,
    *,
    validate_only: bool = False,
) -> Steps[Results]:
    """Replace all settings of each resource; unnamed settings return to their defaults."""
    records: list[Message] = []
    results: list[tuple[ConfigResource, Failure | None]] = []
    counts = Counter(resource for resource, _ in settings)
    for resource, wanted in settings:
        try:
            _check_unique(resource, counts)
            missing = [name for name, value in wanted.items() if value is None]
            if missing:
                why = f"Null value not supported for : {','.join(missing)}"
                raise KafkaError(ErrorCode.INVALID_REQUEST, why)
            after = {name: value for name, value in wanted.items() if value is not None}
            kept = image.configs.of(resource).get(INCARNATION)
            if kept is not None:
                after.setdefault(INCARNATION, kept)
            records += _alter(image, resource, after, frozenset(wanted), rules)
        except KafkaError as error:
            results.append((resource, failure_of(error)))
        else:
            results.append((resource, None))
        yield
    records = yield from forgetting_eligible(image, records)
    return Decision(() if validate_only else tuple(records), tuple(results))


legacy_alter_configs = at_once(replacing_configs)


def _check_unique(resource: ConfigResource, counts: Counter[ConfigResource]) -> None:
    if counts[resource] > 1:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")


def _changed(image: ClusterImage, resource: ConfigResource, changes: Sequence[ConfigChange]) -> dict[str, str]:
    """The settings of ``resource`` after ``changes``. Raises `KafkaError` for a change that cannot be made."""
    if len({change.name for change in changes}) < len(changes):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    missing = [each.name for each in changes if each.value is None and each.operation != ConfigOperation.DELETE]
    if missing:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {','.join(missing)}")
    after = dict(image.configs.of(resource))
    for name, number, value in changes:
        try:
            operation = ConfigOperation(number)
        except ValueError as error:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown operation type {number}") from error
        if operation is ConfigOperation.DELETE:
            after.pop(name, None)
        elif operation is ConfigOperation.SET:
            after[name] = value or ""
        else:
            after[name] = _edited(resource, name, operation, after.get(name), value or "")
    return after


def _edited(resource: ConfigResource, name: str, operation: ConfigOperation, present: str | None, value: str) -> str:
    """A list setting with elements added or taken away."""
    row = _level(resource).get(name)
    if row is None or row.type is not ConfigType.LIST:
        if resource.type == ResourceType.BROKER:
            why = f"Config value {operation.name.lower()} is not allowed for config key: {name}"
        else:
            why = f"Can't {operation.name} to key {name} because its type is not LIST."
        raise KafkaError(ErrorCode.INVALID_CONFIG, why)
    text = row.default_text or "" if present is None else present
    elements = [element for element in text.split(",") if element]
    for element in value.split(","):
        if operation is ConfigOperation.APPEND and element not in elements:
            elements.append(element)
        elif operation is ConfigOperation.SUBTRACT and element in elements:
            elements.remove(element)
    return ",".join(elements)


def _level(resource: ConfigResource) -> Mapping[str, ConfigDef]:
    levels = {
        ResourceType.TOPIC: topic_definitions,
        ResourceType.BROKER: definitions,
        ResourceType.GROUP: group_definitions,
    }  # Kafka's controller knows no types of client metrics: none of theirs is a list
    level = levels.get(resource.type)  # type: ignore[call-overload]  # any number may stand in a request
    return {} if level is None else level()


def _alter(
    image: ClusterImage, resource: ConfigResource, after: dict[str, str], touched: frozenset[str], rules: ConfigRules
) -> list[Message]:
    """The records that turn the settings of ``resource`` into ``after``. Raises `KafkaError`."""
    before = image.configs.of(resource)
    try:
        if resource.type == ResourceType.TOPIC:
            _check_topic(image, resource.name)
            validate_topic_configs(after, rules.resolver, existing=before, tiering_enabled=rules.tiering_enabled)
        elif resource.type == ResourceType.BROKER:
            _check_broker(image, resource, after, touched, rules)
        elif resource.type == ResourceType.GROUP:
            _check_group(image, resource, after, rules)
        elif resource.type == ResourceType.CLIENT_METRICS:
            _check_client_metrics(resource, after)
        else:
            why = f"Unknown resource type {resource.type}"
            raise KafkaError(ErrorCode.INVALID_REQUEST, why)
    except ConfigError as error:
        of_broker = resource.type == ResourceType.BROKER  # Kafka's brokers check theirs before the controller does
        raise KafkaError(ErrorCode.INVALID_REQUEST if of_broker else ErrorCode.INVALID_CONFIG, str(error)) from error
    # KAFKA-14136: a broker's setting is written even if it stays, so that what it names is read again
    again = touched if resource.type == ResourceType.BROKER else frozenset()
    names = sorted(name for name in {*before, *after} if before.get(name) != after.get(name) or name in again)
    records: list[Message] = [
        ConfigRecord(resource_type=resource.type, resource_name=resource.name, name=name, value=after.get(name))
        for name in names
    ]
    check_minimum(image, records)
    return records


def _check_topic(image: ClusterImage, name: str) -> None:
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
    check_topic_name(name)
    if name not in image.topics.by_name:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")


def _check_group(image: ClusterImage, resource: ConfigResource, after: Mapping[str, str], rules: ConfigRules) -> None:
    if not resource.name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
    defaults = image.configs.of(CLUSTER_DEFAULT)
    entries = resolve_broker_config(rules.static, {}, defaults)
    resolver = ConfigResolver.for_groups(rules.static, {}, defaults)
    check_group(after, resolver, {name: entry.value for name, entry in entries.items()})


def _check_client_metrics(resource: ConfigResource, after: Mapping[str, str]) -> None:
    if not resource.name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Subscription name can't be empty")
    check_client_metrics(after)


def _check_broker(
    image: ClusterImage, resource: ConfigResource, after: Mapping[str, str], touched: frozenset[str], rules: ConfigRules
) -> None:
    """Raise `KafkaError` or `ConfigError` unless the broker (or all of them) may have ``after``.

    Checks set values only: a deleted setting, known or not, is absent afterwards.
    """
    if resource.name:
        _check_registered(image, resource.name)
    for name in sorted(touched & after.keys()):
        if name != INCARNATION:
            _check_broker_setting(name, after[name], of_all=not resource.name)
    # A tool may delete all that it finds, or name it unchanged.
    if image.configs.of(resource).get(INCARNATION) != after.get(INCARNATION):
        raise ConfigError(_NOT_DYNAMIC.format(INCARNATION))
    mine = after if resource.name else {}
    default = image.configs.of(CLUSTER_DEFAULT) if resource.name else after
    entries = resolve_broker_config(rules.static, mine, default)
    problems = broker_problems({name: entry.value for name, entry in entries.items()})
    if problems:
        raise ConfigError(problems[0])


def _check_broker_setting(name: str, text: str, *, of_all: bool) -> None:
    """Raise `ConfigError` unless a broker (``of_all``: every broker) may be given a setting while it runs.

    A security setting without effect is refused, as at a start.
    """
    row = definitions().get(name)
    of_listener = None if row is not None else listener_definition(name)
    known = row or of_listener
    if known is None:
        raise ConfigError(describe_unknown(name))
    if row is not None and not row.is_dynamic:
        raise ConfigError(_NOT_DYNAMIC.format(name))
    if name in _SECURITY_OF_LISTENERS:
        why = "These security configs can be dynamically updated only per-listener using the listener prefix"
        raise ConfigError(f"{why}: [{name}]")
    if row is not None and row.update_mode is UpdateMode.PER_BROKER and of_all:
        raise ConfigError(
            f"Cannot update these configs at default cluster level, broker id must be specified: [{name}]"
        )
    value = known.parse(text)
    protects = is_security(name) if of_listener is None else is_listener_security(name)
    if protects and known.why_not is not None and value != known.default:
        raise ConfigError(f"{name} would protect nothing: {known.why_not}")


def _check_registered(image: ClusterImage, name: str) -> None:
    broker_id = broker_id_of(name)
    if broker_id is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Unable to parse broker name as a base 10 number.")
    if broker_id not in image.brokers.brokers:
        raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"No broker with id {broker_id} found.")
