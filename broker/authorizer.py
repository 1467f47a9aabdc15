"""Who may do what: Kafka's operations and resource types, and the port that every dispatch row goes through."""

from __future__ import annotations

from enum import IntEnum
from typing import Final, Protocol

__all__ = ["CLUSTER_NAME", "OPERATIONS_ON", "AllowAll", "Authorizer", "Operation", "ResourceType"]

CLUSTER_NAME = "kafka-cluster"
"""The name of the only resource of type ``CLUSTER``."""


class Operation(IntEnum):
    """Kafka's ``AclOperation``. A row with ``ANY`` is open to everybody, before authentication too."""

    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class ResourceType(IntEnum):
    """Kafka's ``ResourceType``."""

    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


OPERATIONS_ON: Final = {
    ResourceType.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        Operation.READ,
        Operation.DELETE,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    ),
}
"""What can be done to a resource of each type, as answers about authorised operations list it (KIP-430)."""


class Authorizer(Protocol):
    """Decides on one operation on one named resource."""

    def allows(self, principal: str, host: str, operation: Operation, resource: ResourceType, name: str) -> bool:
        """Whether ``principal`` (``User:alice``), connected from ``host``, may do it."""
        ...


class AllowAll:
    """Everybody may do everything: a broker without ``authorizer.class.name``."""

    __slots__ = ()

    def allows(self, principal: str, host: str, operation: Operation, resource: ResourceType, name: str) -> bool:  # noqa: ARG002
        """True."""
        return True
