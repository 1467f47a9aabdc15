"""The rules that the settings of one topic must keep together, with Kafka's sentences.

Source: ``LogConfig.validate``. One rule of Kafka's is left out on purpose: a compacted topic may be tiered here.
"""

from __future__ import annotations

from collections.abc import Mapping

from stratalog.metadata.settings.by_name import topic_definitions
from stratalog.metadata.settings.catalogue.tiering import PART_BYTES_DEFAULT
from stratalog.metadata.settings.catalogue.types import ConfigError, ConfigValue
from stratalog.metadata.settings.resolution import ConfigResolver

__all__ = ["check_topic_values", "validate_topic_configs"]

_RETENTION_IS_DEFAULT = -2


def validate_topic_configs(
    overrides: Mapping[str, str],
    resolver: ConfigResolver,
    *,
    existing: Mapping[str, str],
    tiering_enabled: bool,
) -> None:
    """Raise `ConfigError` unless a topic may have exactly ``overrides``; ``existing`` are those it has now."""
    known = topic_definitions()
    for name in overrides:
        if name not in known:
            raise ConfigError(f"Unknown topic config name: {name}")
    values = {name: entry.value for name, entry in resolver.resolve(overrides).items()}
    was_tiered = existing.get("remote.storage.enable", "false").strip().lower() == "true"
    check_topic_values(values, was_tiered=was_tiered, tiering_enabled=tiering_enabled)


def check_topic_values(values: Mapping[str, ConfigValue], *, was_tiered: bool, tiering_enabled: bool) -> None:
    """Raise `ConfigError` if the typed ``values``, all topic settings, contradict each other."""
    least, most = _number(values, "min.compaction.lag.ms"), _number(values, "max.compaction.lag.ms")
    if least > most:
        raise ConfigError(
            f"conflict topic config setting min.compaction.lag.ms ({least}) > max.compaction.lag.ms ({most})"
        )
    if not values["remote.storage.enable"]:
        if was_tiered and not values["remote.log.delete.on.disable"]:
            raise ConfigError(
                "It is invalid to disable remote storage without deleting remote data. If you want to keep the remote "
                "data and turn to read only, please set `remote.storage.enable=true,remote.log.copy.disable=true`. If "
                "you want to disable remote storage and delete all remote data, please set "
                "`remote.storage.enable=false,remote.log.delete.on.disable=true`."
            )
        return
    if not tiering_enabled:
        raise ConfigError(
            "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log "
            "storage."
        )
    for unit in ("bytes", "ms"):
        _check_local(values, f"local.retention.{unit}", f"retention.{unit}")
        if values["remote.log.copy.disable"]:
            _check_frozen(values, f"local.retention.{unit}", f"retention.{unit}")
        _check_lag(values, f"remote.copy.lag.{unit}", unit)
    _check_lag(values, "stratalog.upload.lag.ms", "ms")
    _check_parts(values)


def _check_local(values: Mapping[str, ConfigValue], local_name: str, name: str) -> None:
    local, total = _number(values, local_name), _number(values, name)
    if total < 0 or local == _RETENTION_IS_DEFAULT:
        return
    if local == -1:
        raise ConfigError.of(local_name, local, f"Value must not be -1 as {name} value is set as {total}.")
    if local > total:
        raise ConfigError.of(local_name, local, f"Value must not be more than {name} property value: {total}")


def _check_frozen(values: Mapping[str, ConfigValue], local_name: str, name: str) -> None:
    local = _number(values, local_name)
    if local not in {_RETENTION_IS_DEFAULT, _number(values, name)}:
        raise ConfigError(
            f"When `remote.log.copy.disable` is set to true, the `{local_name}` and `{name}` must be set to the "
            "identical value because there will be no more logs copied to the remote storage."
        )


def _check_lag(values: Mapping[str, ConfigValue], name: str, unit: str) -> None:
    """Check that records are uploaded before they must leave the local disk: Kafka 4.4's rule, with the remedy."""
    lag, local = _number(values, name), _number(values, f"local.retention.{unit}")
    effective = _number(values, f"retention.{unit}") if local == _RETENTION_IS_DEFAULT else local
    if lag > 0 and 0 <= effective < lag:
        given = f"local.retention.{unit}" if local != _RETENTION_IS_DEFAULT else f"retention.{unit}"
        why = (
            f"Value must not exceed local.retention.{unit} (effective value: {effective}): what is not uploaded yet "
            f"cannot leave the local disk. Lower {name}, or raise {given}"
        )
        raise ConfigError.of(name, lag, why)


def _check_parts(values: Mapping[str, ConfigValue]) -> None:
    part, segment = _number(values, "stratalog.upload.part.bytes"), _number(values, "segment.bytes")
    if part > max(segment, PART_BYTES_DEFAULT):
        why = (
            f"Value must not exceed segment.bytes ({segment}): no segment has a part of that size. Lower "
            "stratalog.upload.part.bytes, or raise segment.bytes"
        )
        raise ConfigError.of("stratalog.upload.part.bytes", part, why)


def _number(values: Mapping[str, ConfigValue], name: str) -> int:
    value = values[name]
    assert isinstance(value, int)
    return value
