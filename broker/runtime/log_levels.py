"""The levels of this process's loggers under Kafka's names, as broker loggers of the configuration APIs (KIP-412).

A logger is named as Python names it (``stratalog.broker.node``), the one above all ``root``. A change holds at once
and until the process ends.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

from stratalog.metadata.controller.controller import ConfigChange, ConfigOperation
from stratalog.wire.errors import ErrorCode, KafkaError

__all__ = ["ROOT", "alter_levels", "levels"]

ROOT: Final = "root"
"""The logger that gives every other its level, unless that has one of its own."""

_LEVELS: Final = {
    "TRACE": 5,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}


def levels() -> dict[str, str]:
    """The level in force of every logger there is, by name."""
    names = [name for name, each in logging.root.manager.loggerDict.items() if isinstance(each, logging.Logger)]
    return {ROOT: _name(logging.root.level)} | {
        name: _name(logging.getLogger(name).getEffectiveLevel()) for name in sorted(names)
    }


def _name(level: int) -> str:
    """The first of Kafka's levels that is not below ``level``."""
    return next((name for name, number in _LEVELS.items() if level <= number), "FATAL")


def alter_levels(changes: Iterable[ConfigChange], *, validate_only: bool = False) -> None:
    """Set levels, or with DELETE give loggers that of the logger above them: all of them or none.

    Raises `KafkaError` INVALID_REQUEST or INVALID_CONFIG.
    """
    wanted = [(_logger(change.name), _wanted(change)) for change in changes]
    if not validate_only:
        for logger, level in wanted:
            logger.setLevel(level)


def _logger(name: str) -> logging.Logger:
    if name == ROOT:
        return logging.root
    found = logging.root.manager.loggerDict.get(name)
    if not isinstance(found, logging.Logger):
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Logger {name} does not exist!")
    return found


def _wanted(change: ConfigChange) -> int:
    """The number of the level that a change asks for; 0 for that of the logger above."""
    name, operation, value = change
    if operation == ConfigOperation.DELETE:
        if name == ROOT:
            why = f"Removing the log level of the {ROOT} logger is not allowed"
            raise KafkaError(ErrorCode.INVALID_REQUEST, why)
        return logging.NOTSET
    if operation in {ConfigOperation.APPEND, ConfigOperation.SUBTRACT}:
        why = f"{ConfigOperation(operation).name} operation is not allowed for the BROKER_LOGGER resource"
        raise KafkaError(ErrorCode.INVALID_REQUEST, why)
    if operation != ConfigOperation.SET:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown operation type {operation}")
    if value not in _LEVELS:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"Cannot set the log level of {name} to {value} as it is not a supported log level. Valid log levels are "
            f"{', '.join(sorted(_LEVELS))}",
        )
    return _LEVELS[value]
