"""The registered brokers and controllers of a cluster, as immutable values made from their records.

Sources: Kafka's ``BrokerRegistration``, ``ControllerRegistration`` and ``ClusterImage``; KIP-631, KIP-841, KIP-858.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from stratalog.metadata.image.directory_ids import MIGRATING, UNASSIGNED, is_online
from stratalog.wire.errors import Corrupt
from stratalog.wire.records.metadata import (
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    ControllerEndpoint,
    ControllerFeature,
    FenceBrokerRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)
from stratalog.wire.topic import Uuid

__all__ = ["BrokerImage", "BrokersImage", "ControllerImage", "ListenerAddress", "SupportedLevels"]


class ListenerAddress(NamedTuple):
    """Where one listener is reached. ``security_protocol``: 0 plaintext, 1 TLS, 2 SASL, 3 SASL over TLS."""

    host: str
    port: int
    security_protocol: int = 0


class SupportedLevels(NamedTuple):
    """The levels of one feature that a node can run."""

    minimum: int
    maximum: int


class BrokerImage(Struct, frozen=True):
    """One registered broker. Each start registers anew, with a higher ``epoch``."""

    broker_id: int
    epoch: int
    incarnation_id: Uuid
    listeners: Mapping[str, ListenerAddress]
    features: Mapping[str, SupportedLevels] = field(default_factory=lambda: MappingProxyType({}))
    rack: str | None = None
    is_fenced: bool = True
    in_controlled_shutdown: bool = False
    is_migrating: bool = False
    directories: tuple[Uuid, ...] = ()
    cordoned_directories: tuple[Uuid, ...] | None = None

    @property
    def is_active(self) -> bool:
        """Whether it may lead and join an in-sync set."""
        return not self.is_fenced and not self.in_controlled_shutdown

    @property
    def default_directory(self) -> Uuid:
        """The directory of a new replica: the broker's only one; with several the broker chooses and reports (KIP-858)."""
        if not self.directories:
            return MIGRATING
        return self.directories[0] if len(self.directories) == 1 else UNASSIGNED

    @property
    def has_room(self) -> bool:
        """Whether new replicas may be placed on it: not all its directories are cordoned."""
        if not self.directories or self.cordoned_directories is None:
            return True
        return not set(self.directories).issubset(self.cordoned_directories)

    @classmethod
    def of(cls, record: RegisterBrokerRecord) -> BrokerImage:
        """The broker of a registration."""
        return cls(
            broker_id=record.broker_id,
            epoch=record.broker_epoch,
            incarnation_id=bytes(record.incarnation_id),
            listeners=_addresses(record.end_points),
            features=_levels(record.features),
            rack=record.rack,
            is_fenced=record.fenced,
            in_controlled_shutdown=record.in_controlled_shutdown,
            is_migrating=record.is_migrating_zk_broker,
            directories=tuple(record.log_dirs),
            cordoned_directories=None if record.cordoned_log_dirs is None else tuple(record.cordoned_log_dirs),
        )

    def to_record(self) -> RegisterBrokerRecord:
        """The registration that says all of it."""
        return RegisterBrokerRecord(
            broker_id=self.broker_id,
            broker_epoch=self.epoch,
            incarnation_id=self.incarnation_id,
            end_points=[
                BrokerEndpoint(name=name, host=at.host, port=at.port, security_protocol=at.security_protocol)
                for name, at in self.listeners.items()
            ],
            features=[
                BrokerFeature(name=name, min_supported_version=levels.minimum, max_supported_version=levels.maximum)
                for name, levels in self.features.items()
            ],
            rack=self.rack,
            fenced=self.is_fenced,
            in_controlled_shutdown=self.in_controlled_shutdown,
            is_migrating_zk_broker=self.is_migrating,
            log_dirs=list(self.directories),
            cordoned_log_dirs=None if self.cordoned_directories is None else list(self.cordoned_directories),
        )

    def changed(self, record: BrokerRegistrationChangeRecord) -> BrokerImage:
        """The broker after a change of its registration."""
        return replace(
            self,
            is_fenced=self.is_fenced if record.fenced == 0 else record.fenced > 0,
            in_controlled_shutdown=(
                self.in_controlled_shutdown if record.in_controlled_shutdown == 0 else record.in_controlled_shutdown > 0
            ),
            directories=tuple(record.log_dirs) if record.log_dirs else self.directories,
            cordoned_directories=(
                self.cordoned_directories if record.cordoned_log_dirs is None else tuple(record.cordoned_log_dirs)
            ),
        )


class ControllerImage(Struct, frozen=True):
    """One registered controller."""

    controller_id: int
    incarnation_id: Uuid
    listeners: Mapping[str, ListenerAddress]
    features: Mapping[str, SupportedLevels] = field(default_factory=lambda: MappingProxyType({}))
    is_migration_ready: bool = False

    @classmethod
    def of(cls, record: RegisterControllerRecord) -> ControllerImage:
        """The controller of a registration."""
        return cls(
            controller_id=record.controller_id,
            incarnation_id=bytes(record.incarnation_id),
            listeners=_addresses(record.end_points),
            features=_levels(record.features),
            is_migration_ready=record.zk_migration_ready,
        )

    def to_record(self) -> RegisterControllerRecord:
        """The registration that says all of it."""
        return RegisterControllerRecord(
            controller_id=self.controller_id,
            incarnation_id=self.incarnation_id,
            zk_migration_ready=self.is_migration_ready,
            end_points=[
                ControllerEndpoint(name=name, host=at.host, port=at.port, security_protocol=at.security_protocol)
                for name, at in self.listeners.items()
            ],
            features=[
                ControllerFeature(name=name, min_supported_version=levels.minimum, max_supported_version=levels.maximum)
                for name, levels in self.features.items()
            ],
        )


def _addresses(endpoints: list[BrokerEndpoint] | list[ControllerEndpoint]) -> Mapping[str, ListenerAddress]:
    return MappingProxyType({at.name: ListenerAddress(at.host, at.port, at.security_protocol) for at in endpoints})


def _levels(features: list[BrokerFeature] | list[ControllerFeature]) -> Mapping[str, SupportedLevels]:
    return MappingProxyType(
        {each.name: SupportedLevels(each.min_supported_version, each.max_supported_version) for each in features}
    )


class BrokersImage(Struct, frozen=True):
    """All registered nodes by id."""

    brokers: Mapping[int, BrokerImage] = field(default_factory=lambda: MappingProxyType({}))
    controllers: Mapping[int, ControllerImage] = field(default_factory=lambda: MappingProxyType({}))

    def is_active(self, broker_id: int) -> bool:
        """Whether a broker is registered, not fenced and not about to stop."""
        broker = self.brokers.get(broker_id)
        return broker is not None and broker.is_active

    def serves(self, broker_id: int, directory: Uuid) -> bool:
        """Whether a broker is registered, and a replica of it in ``directory`` is on a directory that is online."""
        broker = self.brokers.get(broker_id)
        return broker is not None and is_online(directory, broker.directories)

    def with_broker(self, broker: BrokerImage) -> BrokersImage:
        """The image with ``broker`` in its present form."""
        return replace(self, brokers=MappingProxyType({**self.brokers, broker.broker_id: broker}))

    def with_controller(self, record: RegisterControllerRecord) -> BrokersImage:
        """The image with a newly registered controller."""
        controller = ControllerImage.of(record)
        return replace(self, controllers=MappingProxyType({**self.controllers, controller.controller_id: controller}))

    def with_change(self, record: BrokerRegistrationChangeRecord) -> BrokersImage:
        """The image after a change of one registration. Raises `Corrupt` if that registration is not the present one."""
        broker = self._present(record.broker_id, record.broker_epoch, "BrokerRegistrationChangeRecord")
        return self.with_broker(broker.changed(record))

    def with_fencing(self, record: FenceBrokerRecord | UnfenceBrokerRecord) -> BrokersImage:
        """The image with one broker fenced or not. Raises `Corrupt` if the registration is not the present one."""
        broker = self._present(record.id, record.epoch, type(record).__name__)
        return self.with_broker(replace(broker, is_fenced=isinstance(record, FenceBrokerRecord)))

    def without(self, record: UnregisterBrokerRecord) -> BrokersImage:
        """The image without one broker. Raises `Corrupt` if the registration is not the present one."""
        self._present(record.broker_id, record.broker_epoch, "UnregisterBrokerRecord")
        left = {number: broker for number, broker in self.brokers.items() if number != record.broker_id}
        return replace(self, brokers=MappingProxyType(left))

    def _present(self, broker_id: int, epoch: int, what: str) -> BrokerImage:
        broker = self.brokers.get(broker_id)
        if broker is None or broker.epoch != epoch:
            present = "not registered" if broker is None else f"registered with epoch {broker.epoch}"
            raise Corrupt(f"a {what} for broker {broker_id} with epoch {epoch}, which is {present}")
        return broker
