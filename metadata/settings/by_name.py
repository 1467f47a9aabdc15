"""All settings by name: broker, topic and group level; and what to say about a name that is not among them."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Final

from stratalog.metadata.settings.catalogue.client_metrics import CLIENT_METRICS_SETTINGS
from stratalog.metadata.settings.catalogue.coordinator import COORDINATOR_SETTINGS
from stratalog.metadata.settings.catalogue.definition import ConfigDef, table
from stratalog.metadata.settings.catalogue.group_level import GROUP_SETTINGS
from stratalog.metadata.settings.catalogue.kraft import KRAFT_SETTINGS
from stratalog.metadata.settings.catalogue.log import LOG_SETTINGS
from stratalog.metadata.settings.catalogue.metrics import METRIC_SETTINGS
from stratalog.metadata.settings.catalogue.oauth import OAUTH_SETTINGS
from stratalog.metadata.settings.catalogue.own import OWN_SETTINGS
from stratalog.metadata.settings.catalogue.quota import QUOTA_SETTINGS
from stratalog.metadata.settings.catalogue.remote_log import REMOTE_LOG_SETTINGS
from stratalog.metadata.settings.catalogue.replication import REPLICATION_SETTINGS
from stratalog.metadata.settings.catalogue.sasl import SASL_SETTINGS, TOKEN_SETTINGS
from stratalog.metadata.settings.catalogue.server import SERVER_SETTINGS
from stratalog.metadata.settings.catalogue.share_groups import SHARE_SETTINGS, STREAMS_SETTINGS
from stratalog.metadata.settings.catalogue.socket import SOCKET_SETTINGS
from stratalog.metadata.settings.catalogue.tiering import TIERING_BROKER_SETTINGS, TIERING_TOPIC_SETTINGS
from stratalog.metadata.settings.catalogue.tls import TLS_SETTINGS
from stratalog.metadata.settings.catalogue.topic import TOPIC_SETTINGS
from stratalog.metadata.settings.catalogue.transaction import TRANSACTION_SETTINGS

__all__ = [
    "IGNORED_PREFIXES",
    "client_metrics_definitions",
    "definitions",
    "describe_unknown",
    "group_definitions",
    "is_security",
    "topic_definitions",
]

IGNORED_PREFIXES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "rsm.config.": "a setting of a remote storage plug-in; tiering is built in",
        "rlmm.config.": "a setting of a remote metadata plug-in; the manifest in the bucket takes its place",
        "config.providers.": "a setting of a config provider; values are not looked up in other places",
    }
)
"""Prefixes of plug-ins' settings, whose names are open: accepted, with one line why they have no effect."""

_SECURITY_PREFIXES: Final = ("sasl.", "ssl.", "security.", "delegation.token.")
_SECURITY_NAMES: Final = frozenset({"connections.max.reauth.ms", "principal.builder.class"})


def is_security(name: str) -> bool:
    """Whether an operator sets this in the belief that it keeps others out.

    Without effect it must not be accepted: a broker that looks guarded and is not would be worse than none.
    """
    return name.startswith(_SECURITY_PREFIXES) or name in _SECURITY_NAMES


_REMOVED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "auto.include.jmx.reporter": "metrics are served for Prometheus over HTTP",
        "control.plane.listener.name": "the controller's listeners are controller.listener.names",
        "controlled.shutdown.max.retries": "controlled.shutdown.enable is all that is left of it",
        "controlled.shutdown.retry.backoff.ms": "controlled.shutdown.enable is all that is left of it",
        "delegation.token.master.key": "its name is delegation.token.secret.key",
        "inter.broker.protocol.version": "the cluster's level is the feature metadata.version",
        "log.message.downconversion.enable": "only record format v2 is served",
        "log.message.format.version": "only record format v2 is stored",
        "log.message.timestamp.difference.max.ms": "its names are log.message.timestamp.before.max.ms and "
        "log.message.timestamp.after.max.ms",
        "offsets.commit.required.acks": "a commit always waits for all in-sync replicas",
        "password.encoder.secret": "passwords are not stored in ZooKeeper any more",
        "reserved.broker.max.id": "ids are given, not generated",
        "broker.id.generation.enable": "ids are given, not generated",
    }
)
"""Names that Kafka had before 4.0, with what to do instead."""


@cache
def definitions() -> Mapping[str, ConfigDef]:
    """Every broker setting of Kafka 4.3 and our own, by name."""
    return table(
        COORDINATOR_SETTINGS,
        KRAFT_SETTINGS,
        LOG_SETTINGS,
        METRIC_SETTINGS,
        OAUTH_SETTINGS,
        OWN_SETTINGS,
        QUOTA_SETTINGS,
        REMOTE_LOG_SETTINGS,
        REPLICATION_SETTINGS,
        SASL_SETTINGS,
        SERVER_SETTINGS,
        SHARE_SETTINGS,
        SOCKET_SETTINGS,
        STREAMS_SETTINGS,
        TIERING_BROKER_SETTINGS,
        TLS_SETTINGS,
        TOKEN_SETTINGS,
        TRANSACTION_SETTINGS,
    )


@cache
def topic_definitions() -> Mapping[str, ConfigDef]:
    """Every topic setting of Kafka 4.3, the copy lag of 4.4 and our own, by name."""
    return table(TOPIC_SETTINGS, TIERING_TOPIC_SETTINGS)


@cache
def group_definitions() -> Mapping[str, ConfigDef]:
    """Every group setting of Kafka 4.3, by name."""
    return table(GROUP_SETTINGS)


@cache
def client_metrics_definitions() -> Mapping[str, ConfigDef]:
    """Every setting of a client metrics subscription, by name."""
    return table(CLIENT_METRICS_SETTINGS)


def describe_unknown(name: str, known: Iterable[str] | None = None) -> str:
    """One sentence about an unknown broker setting: removed, ZooKeeper's, or misspelt with the nearest name."""
    if name.startswith("zookeeper."):
        return (
            f"Unknown setting {name}: there is no ZooKeeper; the cluster keeps its own metadata log. "
            "Remove it; controller.quorum.bootstrap.servers is what names the quorum."
        )
    if name in _REMOVED:
        return f"Unknown setting {name}: Kafka removed it; {_REMOVED[name]}."
    nearest = difflib.get_close_matches(name, list(definitions() if known is None else known), n=1, cutoff=0.6)
    return f"Unknown setting {name}" + (f": did you mean {nearest[0]}?" if nearest else ": no known name is near it.")
