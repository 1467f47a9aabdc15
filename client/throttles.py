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

__all__ = ["remove_throttle", "set_throttle", "throttled_topics"]

RATES: Final = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
LEADERS: Final = "leader.replication.throttled.replicas"
FOLLOWERS: Final = "follower.replication.throttled.replicas"
_TOPIC: Final = 2
_BROKER: Final = 4
_A_REQUEST: Final = 500
Changes = Mapping[str, str | None]


def set_throttle(
    client: Client,
    brokers: Collection[int],
    bytes_a_second: int,
    replicas: Mapping[str, tuple[Sequence[str], Sequence[str]]],
) -> None:
    """Set the rate on ``brokers``; ``replicas`` has for each topic the ``partition:broker`` pairs of leaders and followers.

    Raises `KafkaError`; some may be set then, and `remove_throttle` removes them.
    """
    _alter(
        client, _TOPIC, {name: {LEADERS: ",".join(of), FOLLOWERS: ",".join(to)} for name, (of, to) in replicas.items()}
    )
    rate = str(bytes_a_second)
    _alter_brokers(client, brokers, dict.fromkeys(RATES, rate))


def throttled_topics(client: Client, names: Iterable[str]) -> list[str]:
    """The topics of ``names`` that have throttled replicas. Raises `KafkaError`."""
    wanted, found = sorted(names), []
    for start in range(0, len(wanted), _A_REQUEST):
        settings = describe_topic_configs(client, wanted[start : start + _A_REQUEST], keys=[LEADERS, FOLLOWERS])
        found += [name for name, rows in settings.items() if any(one.source == ConfigSource.TOPIC for one in rows)]
    return found


def remove_throttle(client: Client, brokers: Collection[int], topics: Collection[str]) -> None:
    """Remove the rates of ``brokers`` and the throttled replicas of ``topics``; what is not set stays so. Raises `KafkaError`."""
    _alter_brokers(client, brokers, dict.fromkeys(RATES))
    _alter(client, _TOPIC, {name: dict.fromkeys((LEADERS, FOLLOWERS)) for name in sorted(topics)})


def _alter_brokers(client: Client, brokers: Collection[int], changes: Changes) -> None:
    """Each broker takes its own settings only. One that is away copies nothing, and a rate without replicas does nothing."""
    for broker in sorted(brokers):
        try:
            client.reach(broker)
        except BrokerAway:
            continue
        _alter(client, _BROKER, {str(broker): changes}, broker)


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
