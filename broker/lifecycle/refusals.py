"""The controller's refusals of a broker's registration, in sentences: an answer has a number and no words.

The broker follows the metadata log also before it is registered, so its image often has the reason: who has its id, its
directory, or a feature that it lacks.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from stratalog.metadata.image.brokers_image import BrokerImage, SupportedLevels
from stratalog.metadata.image.image import ClusterImage
from stratalog.wire.errors import ErrorCode
from stratalog.wire.topic import Uuid, uuid_text

__all__ = ["why_refused"]

_NONE = SupportedLevels(0, 0)


def why_refused(
    error_code: int,
    image: ClusterImage,
    *,
    broker_id: int,
    cluster_id: str,
    directories: Collection[Uuid],
    features: Mapping[str, SupportedLevels],
) -> str:
    """The meaning of a refused registration, and what to do; empty for a code that speaks for itself."""
    match error_code:
        case ErrorCode.INCONSISTENT_CLUSTER_ID:
            return (
                f"the controllers belong to another cluster, and this broker to cluster {cluster_id}, as meta.properties "
                "says: correct controller.quorum.bootstrap.servers or controller.quorum.voters, or log.dirs"
            )
        case ErrorCode.DUPLICATE_BROKER_REGISTRATION:
            return (
                f"another process is registered with node.id={broker_id}{_at(image.brokers.brokers.get(broker_id))}. If it was "
                "this broker's own, which was killed, its session ends soon; else give one of the two another node.id"
            )
        case ErrorCode.INVALID_REGISTRATION:
            return _other_owner(image, broker_id, directories)
        case ErrorCode.UNSUPPORTED_VERSION:
            return _missing_levels(image, features)
    return ""


def _at(other: BrokerImage | None) -> str:
    addresses = [] if other is None else [f"{one.host}:{one.port}" for one in other.listeners.values()]
    return f" at {', '.join(addresses)}" if addresses else ""


def _other_owner(image: ClusterImage, broker_id: int, directories: Collection[Uuid]) -> str:
    for other in image.brokers.brokers.values():
        for directory in directories:
            if other.broker_id != broker_id and directory in other.directories:
                return (
                    f"broker {other.broker_id}{_at(other)} is registered with the directory {uuid_text(directory)}, which "
                    "this broker's meta.properties names, too: one of the two is a copy. Name the directories of this broker "
                    "in log.dirs, or format empty ones"
                )
    return "its directories, listeners or features are none that this cluster takes: the controller's log says which"


def _missing_levels(image: ClusterImage, features: Mapping[str, SupportedLevels]) -> str:
    missing = [
        f"{name} {level} (it runs {known.minimum} to {known.maximum})"
        for name, level in sorted(image.features.items())
        for known in [features.get(name, _NONE)]
        if not known.minimum <= level <= known.maximum
    ]
    if not missing:
        return "the cluster has a feature level that this broker does not run: kafka-features describe shows the levels"
    return f"the cluster has {', '.join(missing)}: update this broker, or lower the level with kafka-features downgrade"
