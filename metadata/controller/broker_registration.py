"""The registration of brokers and controllers with the active controller of a cluster.

A new incarnation begins fenced, under a new broker epoch, and ends all that its former one led and was a member of. The
same incarnation may register again, for other directories say; it keeps epoch and state. Sources: Kafka's
``ClusterControlManager``; KIP-631, KIP-841, KIP-858, KIP-919, KIP-966. On purpose otherwise than there:

- a broker that does not name its former broker epoch may have lost data, and leaves in-sync sets also without eligible
  leader replicas, also as the last member
- a fenced broker's new incarnation is registered at once: see `broker_states`
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from stratalog.metadata.controller.broker_changes import ending_registration
from stratalog.metadata.controller.broker_heartbeats import BrokerHeartbeats
from stratalog.metadata.controller.broker_states import BrokerEvent, Response, response_to, state_of
from stratalog.metadata.controller.cluster_view import ClusterView
from stratalog.metadata.image.brokers_image import BrokerImage, ControllerImage, ListenerAddress, SupportedLevels
from stratalog.metadata.image.decision import Decision, Steps, at_once
from stratalog.metadata.image.directory_ids import is_reserved
from stratalog.metadata.image.features import DIRECTORIES_SINCE, METADATA_VERSION, REGISTER_CONTROLLER_SINCE
from stratalog.metadata.image.image import ClusterImage
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.schema import Message
from stratalog.wire.topic import Uuid, uuid_text

__all__ = [
    "BrokerRegistration",
    "ControllerRegistration",
    "check_features",
    "register",
    "register_controller",
    "registering",
]

_UNKNOWN_EPOCH: Final = -1
_NONE: Final = SupportedLevels(0, 0)


class BrokerRegistration(Struct, frozen=True, kw_only=True):
    """A starting broker's description of itself, as BrokerRegistration (key 62) carries it.

    Requests below version 2 name no directories, those below version 3 no former epoch: both are empty here then.
    ``previous_broker_epoch`` is -1 unless the broker stopped without a loss.
    """

    broker_id: int
    cluster_id: str
    incarnation_id: Uuid
    listeners: Mapping[str, ListenerAddress]
    features: Mapping[str, SupportedLevels]
    rack: str | None = None
    directories: tuple[Uuid, ...] = ()
    previous_broker_epoch: int = _UNKNOWN_EPOCH
    is_migrating: bool = False


class ControllerRegistration(Struct, frozen=True, kw_only=True):
    """A controller's description of itself, as ControllerRegistration (key 70) carries it."""

    controller_id: int
    incarnation_id: Uuid
    listeners: Mapping[str, ListenerAddress]
    features: Mapping[str, SupportedLevels]


def registering(
    heartbeats: BrokerHeartbeats,
    view: ClusterView,
    asked: BrokerRegistration,
    *,
    cluster_id: str,
    next_offset: int,
    now_ms: int,
) -> Steps[int]:
    """Register a broker; the result is its epoch.

    ``next_offset``, the offset of the first of the records, becomes the epoch of a new incarnation. The registration is
    the last record: a crash that leaves a part of them leaves a broker that registers again. Raises `KafkaError`
    INCONSISTENT_CLUSTER_ID, DUPLICATE_BROKER_REGISTRATION, BROKER_ID_NOT_REGISTERED, INVALID_REGISTRATION or
    UNSUPPORTED_VERSION, checked in this order.
    """
    if asked.cluster_id != cluster_id:
        why = f"Expected cluster ID {cluster_id}, but got cluster ID {asked.cluster_id}"
        raise KafkaError(ErrorCode.INCONSISTENT_CLUSTER_ID, why)
    present = view.image.brokers.brokers.get(asked.broker_id)
    response = Response.NEW_EPOCH if present is None else _response(heartbeats, present, asked, now_ms)
    if response is Response.DUPLICATE:
        why = (
            "Another broker is registered with that broker id. If the broker was recently restarted this should "
            "self-resolve once the heartbeat manager expires the broker's session."
        )
        raise KafkaError(ErrorCode.DUPLICATE_BROKER_REGISTRATION, why)
    if asked.is_migrating:
        raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, "Controller does not support registering ZK brokers.")
    if view.level >= DIRECTORIES_SINCE:
        _check_directories(view.image, asked)
    check_features(view.image, asked.features)
    broker = BrokerImage(
        broker_id=asked.broker_id,
        epoch=next_offset,
        incarnation_id=asked.incarnation_id,
        listeners=asked.listeners,
        features=asked.features,
        rack=asked.rack,
        directories=asked.directories if view.level >= DIRECTORIES_SINCE else (),
    )
    records: list[Message] = []
    if present is not None and response is Response.KEEP_EPOCH:
        broker = replace(
            broker,
            epoch=present.epoch,
            is_fenced=present.is_fenced,
            in_controlled_shutdown=present.in_controlled_shutdown,
        )
    else:
        is_clean = present is not None and asked.previous_broker_epoch == present.epoch
        records += yield from ending_registration(view, asked.broker_id, is_clean=is_clean)
    records.append(broker.to_record())
    heartbeats.registered(asked.broker_id, broker.epoch, next_offset + len(records) - 1)
    return Decision(tuple(records), broker.epoch, is_atomic=False)


register = at_once(registering)


def _response(heartbeats: BrokerHeartbeats, present: BrokerImage, asked: BrokerRegistration, now_ms: int) -> Response:
    if asked.incarnation_id == present.incarnation_id:
        event = BrokerEvent.REGISTERED_AGAIN
    elif heartbeats.has_session(asked.broker_id, present.epoch, now_ms):
        event = BrokerEvent.REGISTERED_ANEW
    else:
        event = BrokerEvent.REGISTERED_AFTER_SESSION
    return response_to(event, state_of(present))


def _check_directories(image: ClusterImage, asked: BrokerRegistration) -> None:
    if not asked.directories:
        raise KafkaError(ErrorCode.INVALID_REGISTRATION, "No directories specified in request")
    if any(map(is_reserved, asked.directories)):
        raise KafkaError(ErrorCode.INVALID_REGISTRATION, "Reserved directory ID in request")
    if len(set(asked.directories)) != len(asked.directories):
        raise KafkaError(ErrorCode.INVALID_REGISTRATION, "Duplicate directory ID in request")
    for other in image.brokers.brokers.values():
        if other.broker_id != asked.broker_id:
            for directory in asked.directories:
                if directory in other.directories:
                    why = f"Broker {other.broker_id} is already registered with directory {uuid_text(directory)}"
                    raise KafkaError(ErrorCode.INVALID_REGISTRATION, why)


def check_features(image: ClusterImage, named: Mapping[str, SupportedLevels]) -> None:
    """Check that a broker can run each level of the cluster, and names each feature that is in use.

    Raises `KafkaError` UNSUPPORTED_VERSION, or INVALID_REGISTRATION if it does not name ``metadata.version``.
    """
    for name, levels in named.items():
        _check_level(name, image.features.get(name, 0), levels)
    if METADATA_VERSION not in named:
        raise KafkaError(ErrorCode.INVALID_REGISTRATION, f"Request features do not contain '{METADATA_VERSION}'")
    for name, level in image.features.items():
        if name not in named:
            _check_level(name, level, _NONE)


def _check_level(name: str, level: int, levels: SupportedLevels) -> None:
    if not levels.minimum <= level <= levels.maximum:
        why = (
            f"Unable to register because the broker does not support finalized version {level} of {name}. The broker "
            f"wants a version between {levels.minimum} and {levels.maximum}, inclusive."
        )
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, why)


def register_controller(image: ClusterImage, asked: ControllerRegistration) -> Decision[None]:
    """Register a controller. Raises `KafkaError` UNSUPPORTED_VERSION below level 15 of ``metadata.version``."""
    if image.features.get(METADATA_VERSION, 0) < REGISTER_CONTROLLER_SINCE:
        why = "The current MetadataVersion is too old to support controller registrations."
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, why)
    controller = ControllerImage(
        controller_id=asked.controller_id,
        incarnation_id=asked.incarnation_id,
        listeners=asked.listeners,
        features=asked.features,
    )
    return Decision((controller.to_record(),), None)
