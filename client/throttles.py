"""The throttle of replication under Kafka's names, set and removed as `kafka-reassign-partitions` does.

Brokers have the rates, topics the replicas that they hold for: with the leader those that are there, with the follower those
that are added.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from stratalog.client.admin import ConfigOperation, ConfigSource, describe_topic_configs
from stratalog.client.client import BrokerAway, Client
from stratalog.client.commands import command
from stratalog.client.link import check, code_words
from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

__all__ = ["FOLLOWERS", "LEADERS", "RATES", "remove_throttle", "set_throttle", "throttled_replicas"]

RATES: Final = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
LEADERS: Final = "leader.replication.throttled.replicas"
FOLLOWERS: Final = "follower.replication.throttled.replicas"
_TOPIC: Final = 2
_BROKER: Final = 4
_A_REQUEST: Final = 500
_TEXT_BYTES_MAX: Final = 32_767
"""The bytes of a setting's value that a record of the metadata log can hold."""
Changes = Mapping[str, str | None]


def set_throttle(
    client: Client,
    brokers: Collection[int],
    bytes_a_second: int,
    replicas: Mapping[str, tuple[Sequence[str], Sequence[str]]],
) -> None:
    """Set the rate on ``brokers``; ``replicas`` has for each topic the ``partition:broker`` pairs of leaders and followers.

    A topic with too many of them is throttled as a whole: those in sync are not held back by that either. Raises
    `KafkaError`; some may be set then, and `remove_throttle` removes them.
    """
    _alter(client, _TOPIC, {name: {LEADERS: _list(of), FOLLOWERS: _list(to)} for name, (of, to) in replicas.items()})
    rate = str(bytes_a_second)
    _alter_brokers(client, brokers, dict.fromkeys(RATES, rate))


def _list(replicas: Sequence[str]) -> str:
    text = ",".join(replicas)
    return text if len(text) <= _TEXT_BYTES_MAX else "*"


def throttled_replicas(client: Client, names: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """The lists of throttled replicas that topics of ``names`` have set, as ``0:1,0:2`` or ``*``, by topic. Raises `KafkaError`."""
    wanted, found = sorted(names), dict[str, tuple[str, ...]]()
    for start in range(0, len(wanted), _A_REQUEST):
        some, keys = wanted[start : start + _A_REQUEST], [LEADERS, FOLLOWERS]
        settings = describe_topic_configs(client, some, keys, skip_missing=True)
        for name, rows in settings.items():
            lists = tuple(one.value or "" for one in rows if one.source == ConfigSource.TOPIC)
            if lists:
                found[name] = lists
    return found


def remove_throttle(client: Client, brokers: Collection[int], topics: Collection[str]) -> list[int]:
    """Remove the rates of ``brokers`` and the throttled replicas of ``topics``; what is not set stays so.

    Returns the brokers that are away and keep their rates. Raises `KafkaError`.
    """
    away = _alter_brokers(client, brokers, dict.fromkeys(RATES))
    _alter(client, _TOPIC, {name: dict.fromkeys((LEADERS, FOLLOWERS)) for name in sorted(topics)})
    return away


def _alter_brokers(client: Client, brokers: Collection[int], changes: Changes) -> list[int]:
    """Change brokers that are there, and return the others: each takes its own settings only.

    One that is away copies nothing, and a rate without replicas does nothing.
    """
    away = []
    for broker in sorted(brokers):
        if not _is_there(client, broker):
            away.append(broker)
            continue
        _alter(client, _BROKER, {str(broker): changes}, broker)
    return away


def _is_there(client: Client, broker: int) -> bool:
    if broker not in client.brokers:
        return False
    try:
        client.reach(broker)
    except BrokerAway:
        return False
    return True


def _alter(client: Client, kind: int, changes: Mapping[str, Changes], broker: int | None = None) -> None:
    """Set the settings that have a value and delete those without, resource by resource; at ``broker``, or at any."""
    names = list(changes)
    for start in range(0, len(names), _A_REQUEST):
        resources = [
            AlterConfigsResource(
                resource_type=kind, resource_name=name, configs=[_change(*each) for each in changes[name].items()]
            )
            for name in names[start : start + _A_REQUEST]
        ]
        request = IncrementalAlterConfigsRequest(resources=resources, validate_only=False)
        answer = command(client, request) if broker is None else client.call(request, broker)
        for one in answer.responses:
            if one.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:  # deleted meanwhile, with its settings
                check(one.error_code, f"{one.resource_name}: {one.error_message or code_words(one.error_code)}")


def _change(name: str, value: str | None) -> AlterableConfig:
    operation = ConfigOperation.DELETE if value is None else ConfigOperation.SET
    return AlterableConfig(name=name, config_operation=operation, value=value)
