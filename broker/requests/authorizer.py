"""Permissions: the port that every dispatch row goes through, and the two authorizers that decide.

Without ``authorizer.class.name`` all clients may do everything. With Kafka's ``StandardAuthorizer`` the rules of the
metadata log decide, of a principal and a host: as long as clients are not authenticated, every principal is
``User:ANONYMOUS``.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Final, Protocol

from stratalog.broker.settings.config import BrokerConfig
from stratalog.metadata.access.acl_index import EVERYTHING
from stratalog.metadata.access.acl_rules import parse_super_users
from stratalog.metadata.access.acls import AclsImage

__all__ = [
    "CLUSTER_NAME",
    "OPERATIONS_ON",
    "AllowAll",
    "Authorizer",
    "Operation",
    "ReadOnly",
    "ResourceType",
    "StandardAuthorizer",
    "authorizer_of",
]

DECISIONS_MAX: Final = 32_768
"""Decisions that are kept; then all of them are made anew."""
_NAME_CHARACTERS_MAX: Final = 249
"""The names for which decisions are kept: callers choose those of groups and transactions, and they may be long."""

CLUSTER_NAME = "kafka-cluster"
"""The name of the only resource of type ``CLUSTER``."""


class Operation(IntEnum):
    """Kafka's ``AclOperation``. A row with ``ANY`` is open to every client, before authentication too."""

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


def _set(*operations: Operation) -> int:
    return sum(1 << operation for operation in operations)


OPERATIONS_ON: Final = {
    ResourceType.TOPIC: _set(
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: _set(
        Operation.READ,
        Operation.DELETE,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: _set(
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    ),
}
"""The operations on a resource of each type, as answers about authorised operations list them (KIP-430)."""

_READING: Final = _set(Operation.ANY, Operation.READ, Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS)


class Authorizer(Protocol):
    """Decides what may be done to one named resource. Sets of operations are numbers: bit n stands for operation n."""

    @property
    def version(self) -> int:
        """A decision about a principal and a host holds while this number stays the same; it only grows."""
        ...

    def allows(self, principal: str, host: str, operation: Operation, resource: ResourceType, name: str) -> bool:
        """Whether ``principal`` (``User:alice``), connected from ``host``, may do one operation."""
        return self.permitted(principal, host, resource, name) >> operation & 1 == 1

    def permitted(self, principal: str, host: str, resource: ResourceType, name: str) -> int:
        """The set of operations that it may do."""
        ...

    def allows_some(self, principal: str, host: str, operation: Operation, resource: ResourceType) -> bool:
        """Whether it may do ``operation`` to any resource of this type at all (KIP-679)."""
        ...


class AllowAll(Authorizer):
    """Allows every operation: a broker without ``authorizer.class.name``."""

    __slots__ = ()

    @property
    def version(self) -> int:
        """Always the same."""
        return 0

    def permitted(self, principal: str, host: str, resource: ResourceType, name: str) -> int:  # noqa: ARG002
        """All operations."""
        return EVERYTHING

    def allows_some(self, principal: str, host: str, operation: Operation, resource: ResourceType) -> bool:  # noqa: ARG002
        """True."""
        return True


class StandardAuthorizer(Authorizer):
    """Kafka's: super users may do everything, others what the rules say (KIP-801)."""

    __slots__ = ("_acls", "_permitted", "_seen", "_some", "_super_users", "_version", "_without_rules")

    def __init__(self, acls: Callable[[], AclsImage], *, super_users: frozenset[str], without_rules: bool) -> None:
        """``acls`` gives the rules of now; ``without_rules`` decides on resources that none of them means."""
        self._acls = acls
        self._super_users = super_users
        self._without_rules = without_rules
        self._seen: AclsImage | None = None
        self._version = 0
        self._permitted: dict[tuple[str, str, int, str], int] = {}
        self._some: dict[tuple[str, str, int, int], bool] = {}

    @property
    def version(self) -> int:
        """How often other rules than before were found."""
        acls = self._acls()
        if acls is not self._seen:
            self._learn(acls)
        return self._version

    def permitted(self, principal: str, host: str, resource: ResourceType, name: str) -> int:
        """The result of the rules; an answer is kept until one of them changes."""
        if principal in self._super_users:
            return EVERYTHING
        acls = self._acls()
        if acls is not self._seen:
            self._learn(acls)
        key = (principal, host, resource, name)
        permitted = self._permitted.get(key)
        if permitted is None:
            permitted = acls.about(resource).permitted(principal, host, name, otherwise=self._without_rules)
            if len(name) <= _NAME_CHARACTERS_MAX:
                if len(self._permitted) >= DECISIONS_MAX:
                    self._permitted.clear()
                self._permitted[key] = permitted
        return permitted

    def allows_some(self, principal: str, host: str, operation: Operation, resource: ResourceType) -> bool:
        """The result of the rules; an answer is kept until one of them changes."""
        if principal in self._super_users:
            return True
        acls = self._acls()
        if acls is not self._seen:
            self._learn(acls)
        key = (principal, host, operation, resource)
        allowed = self._some.get(key)
        if allowed is None:
            rules = acls.about(resource)
            allowed = rules.permits_some(principal, host, operation, otherwise=self._without_rules)
            if len(self._some) >= DECISIONS_MAX:
                self._some.clear()
            self._some[key] = allowed
        return allowed

    def _learn(self, acls: AclsImage) -> None:
        self._seen = acls
        self._version += 1
        self._permitted.clear()
        self._some.clear()


class ReadOnly(Authorizer):
    """Denies every change but those of groups, whose offsets are the broker's own; ``then`` decides on the rest."""

    __slots__ = ("_then",)

    def __init__(self, then: Authorizer) -> None:
        self._then = then

    @property
    def version(self) -> int:
        """That of the authorizer which decides on the rest."""
        return self._then.version

    def permitted(self, principal: str, host: str, resource: ResourceType, name: str) -> int:
        """Reading and describing, and whatever is done to a group."""
        permitted = self._then.permitted(principal, host, resource, name)
        return permitted if resource is ResourceType.GROUP else permitted & _READING

    def allows_some(self, principal: str, host: str, operation: Operation, resource: ResourceType) -> bool:
        """Reading and describing, and whatever is done to groups."""
        if resource is not ResourceType.GROUP and not _READING >> operation & 1:
            return False
        return self._then.allows_some(principal, host, operation, resource)


def authorizer_of(config: BrokerConfig, acls: Callable[[], AclsImage]) -> Authorizer | None:
    """The authorizer that the settings ask for; None where all clients may do everything."""
    chosen = _chosen_authorizer(config, acls)
    return ReadOnly(chosen or AllowAll()) if config.boolean("stratalog.read.only") else chosen


def _chosen_authorizer(config: BrokerConfig, acls: Callable[[], AclsImage]) -> Authorizer | None:
    if not config.text("authorizer.class.name"):
        return None
    return StandardAuthorizer(
        acls,
        super_users=parse_super_users(config.text("super.users") or ""),
        without_rules=config.boolean("allow.everyone.if.no.acl.found"),
    )
