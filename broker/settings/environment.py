"""Settings from environment variables: `STRATALOG_LOG_SEGMENT_BYTES` is `log.segment.bytes`. Pure: the mapping is an argument."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from stratalog.broker.settings.file import Setting

PREFIX = "STRATALOG_"
# Read by the command line itself; not settings of a broker.
COMMAND_LINE_VARIABLES = frozenset({"STRATALOG_BOOTSTRAP", "STRATALOG_HTTP", "STRATALOG_CONFIG"})

_SERVICE_LINK: Final = re.compile(
    r"STRATALOG_(?:[A-Z0-9_]+_)?(?:SERVICE_HOST|SERVICE_PORT(?:_[A-Z0-9_]+)?|PORT_\d+_(?:TCP|UDP|SCTP)(?:_PROTO|_PORT|_ADDR)?)"
)
_LINKED_PORT: Final = re.compile(r"STRATALOG_(?:[A-Z0-9_]+_)?PORT")
_LINKED_TO: Final = ("tcp://", "udp://", "sctp://")


def environment_settings(environment: Mapping[str, str]) -> list[Setting]:
    """The settings in `environment`, in the order of their names.

    An underscore stands for a dot; Kafka's names have no underscore. Whether the name exists is for the caller to check.
    Variables that Kubernetes makes for a Service called stratalog, or stratalog-something, are none.
    """
    return [
        Setting(setting_name(variable), environment[variable], f"environment {variable}")
        for variable in sorted(environment)
        if variable.startswith(PREFIX)
        and variable not in COMMAND_LINE_VARIABLES
        and not _is_service_link(variable, environment[variable])
    ]


def _is_service_link(variable: str, value: str) -> bool:
    """Whether Kubernetes made this variable, as in ``STRATALOG_PORT=tcp://10.0.0.1:9092``: a pod gets some for each Service."""
    if _SERVICE_LINK.fullmatch(variable):
        return True
    return value.startswith(_LINKED_TO) and _LINKED_PORT.fullmatch(variable) is not None


def setting_name(variable: str) -> str:
    """The setting a variable stands for: `STRATALOG_LOG_DIRS` is `log.dirs`."""
    return variable.removeprefix(PREFIX).lower().replace("_", ".")


def variable_name(setting: str) -> str:
    """The variable that stands for a setting: `log.dirs` is `STRATALOG_LOG_DIRS`."""
    return PREFIX + setting.upper().replace(".", "_").replace("-", "_")
