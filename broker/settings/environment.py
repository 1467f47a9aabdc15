"""Settings from environment variables: `STRATALOG_LOG_SEGMENT_BYTES` is `log.segment.bytes`. Pure: the mapping is an argument."""

from __future__ import annotations

from collections.abc import Mapping

from stratalog.broker.settings.file import Setting

PREFIX = "STRATALOG_"
# Read by the command line itself; not settings of a broker.
COMMAND_LINE_VARIABLES = frozenset({"STRATALOG_BOOTSTRAP", "STRATALOG_HTTP", "STRATALOG_CONFIG"})


def environment_settings(environment: Mapping[str, str]) -> list[Setting]:
    """The settings in `environment`, in the order of their names.

    An underscore stands for a dot; Kafka's names have no underscore. Whether the name exists is for the caller to check.
    """
    return [
        Setting(setting_name(variable), environment[variable], f"environment {variable}")
        for variable in sorted(environment)
        if variable.startswith(PREFIX) and variable not in COMMAND_LINE_VARIABLES
    ]


def setting_name(variable: str) -> str:
    """The setting a variable stands for: `STRATALOG_LOG_DIRS` is `log.dirs`."""
    return variable.removeprefix(PREFIX).lower().replace("_", ".")


def variable_name(setting: str) -> str:
    """The variable that stands for a setting: `log.dirs` is `STRATALOG_LOG_DIRS`."""
    return PREFIX + setting.upper().replace(".", "_").replace("-", "_")
