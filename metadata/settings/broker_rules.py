"""The rules that the settings of one broker must keep together. Each rule gives a sentence, or ``None`` if it holds.

The addresses of its listeners are checked where they are parsed, in the broker's configuration.

Source of the texts: Kafka's ``KafkaConfig.validateValues``, ``LogConfig.validateBrokerLogConfigValues`` and
``GroupCoordinatorConfig``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from stratalog.metadata.access.acl_rules import parse_super_users
from stratalog.metadata.settings.catalogue.server import STANDARD_AUTHORIZER
from stratalog.metadata.settings.catalogue.types import ConfigError, ConfigValue

__all__ = ["broker_problems"]

_RETENTION_IS_DEFAULT: Final = -2

Values = Mapping[str, ConfigValue]
Rule = Callable[[Values], str | None]


def _number(values: Values, name: str) -> int | None:
    value = values[name]
    return value if isinstance(value, int) else None


def _not_above(name: str, limit: str) -> Rule:
    def rule(values: Values) -> str | None:
        value, most = _number(values, name), _number(values, limit)
        if value is None or most is None or value <= most:
            return None
        return f"{limit} must be greater than or equal to {name}"

    return rule


def _roll(values: Values) -> str | None:
    roll, jitter = _number(values, "log.roll.ms"), _number(values, "log.roll.jitter.ms")
    if roll is not None and roll < 1:
        return "log.roll.ms must be greater than or equal to 1"
    if jitter is not None and jitter < 0:
        return "log.roll.jitter.ms must be greater than or equal to 0"
    return None


def _retention(values: Values) -> str | None:
    for name in ("log.retention.ms", "log.retention.minutes", "log.retention.hours"):
        value = _number(values, name)
        if value is None:
            continue
        if value == 0 or value < -1:
            return f"{name} must be unlimited (-1) or, greater than or equal to 1"
        return None
    return None


def _compaction_lag(values: Values) -> str | None:
    least = _number(values, "log.cleaner.min.compaction.lag.ms") or 0
    most = _number(values, "log.cleaner.max.compaction.lag.ms") or 0
    if least <= most:
        return None
    return f"conflict topic config setting min.compaction.lag.ms ({least}) > max.compaction.lag.ms ({most})"


def _connections_of_an_address(values: Values) -> str | None:
    if _number(values, "max.connections.per.ip") or values["max.connections.per.ip.overrides"]:
        return None
    return "max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides property is set."


def _total_retention(values: Values, unit: str) -> int | None:
    total = _number(values, f"log.retention.{unit}")
    if total is not None or unit != "ms":
        return total
    minutes = _number(values, "log.retention.minutes")
    return (_number(values, "log.retention.hours") or 0) * 3_600_000 if minutes is None else minutes * 60_000


def _copy_lag(values: Values) -> str | None:
    """Records that must leave the local disk must have been uploaded before."""
    if not values["remote.log.storage.system.enable"]:
        return None
    for unit in ("bytes", "ms"):
        name, local_name = f"log.remote.copy.lag.{unit}", f"log.local.retention.{unit}"
        lag, local = _number(values, name) or 0, _number(values, local_name)
        effective = _total_retention(values, unit) if local == _RETENTION_IS_DEFAULT else local
        if effective is not None and 0 <= effective < lag:
            why = (
                f"Value must not exceed {local_name} (effective value: {effective}): what is not uploaded yet cannot "
                f"leave the local disk. Lower {name}, or raise {local_name}"
            )
            return str(ConfigError.of(name, lag, why))
    return None


def _local_retention(values: Values) -> str | None:
    if not values["remote.log.storage.system.enable"]:
        return None
    for unit in ("bytes", "ms"):
        name, local_name = f"log.retention.{unit}", f"log.local.retention.{unit}"
        total, local = _total_retention(values, unit), _number(values, local_name)
        if total is None or local is None or total < 0 or local == _RETENTION_IS_DEFAULT:
            continue
        if local == -1 or local > total:
            return str(ConfigError.of(local_name, local, f"Value must not be more than {name} property value: {total}"))
    return None


def _replica_wait(values: Values) -> str | None:
    wait, lag = _number(values, "replica.fetch.wait.max.ms"), _number(values, "replica.lag.time.max.ms")
    if wait is None or lag is None or wait <= lag:
        return None
    return (
        "replica.fetch.wait.max.ms should always be less than or equal to replica.lag.time.max.ms to prevent frequent "
        "changes in ISR"
    )


_ORDERED: Final[Sequence[tuple[str, str]]] = (
    ("group.min.session.timeout.ms", "group.max.session.timeout.ms"),
    *(
        pair
        for kind in ("consumer", "share", "streams")
        for what in ("heartbeat.interval.ms", "session.timeout.ms", "assignment.interval.ms")
        for pair in (
            (f"group.{kind}.min.{what}", f"group.{kind}.max.{what}"),
            (f"group.{kind}.min.{what}", f"group.{kind}.{what}"),
            (f"group.{kind}.{what}", f"group.{kind}.max.{what}"),
        )
    ),
)


def _super_users(values: Values) -> str | None:
    try:
        parse_super_users(str(values["super.users"] or ""))
    except ValueError as error:
        return str(error)
    return None


def _authorizer(values: Values) -> str | None:
    """An operator who sets these believes the broker guarded."""
    if values["authorizer.class.name"]:
        return None
    for name in ("super.users", "allow.everyone.if.no.acl.found"):
        if values[name]:
            return f"{name} has no effect without authorizer.class.name: set that to {STANDARD_AUTHORIZER}, or remove {name}"
    return None


_RULES: Final[tuple[Rule, ...]] = (
    _roll,
    _retention,
    _compaction_lag,
    _connections_of_an_address,
    _local_retention,
    _copy_lag,
    _replica_wait,
    _super_users,
    _authorizer,
    *(_not_above(lower, upper) for lower, upper in _ORDERED),
)


def broker_problems(values: Values) -> list[str]:
    """The problems of ``values`` (every broker setting, typed) taken together; empty if there is none."""
    return [sentence for rule in _RULES if (sentence := rule(values)) is not None]
