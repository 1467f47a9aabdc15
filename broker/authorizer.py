"""Who may do what: the port that every dispatch row goes through, and the two that decide.

Without ``authorizer.class.name`` everybody may do everything. With Kafka's ``StandardAuthorizer`` the rules of the
metadata log decide, of a principal and a host: as long as clients are not authenticated, every principal is
``User:ANONYMOUS``.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Final, Protocol

from stratalog.broker.config import BrokerConfig
from stratalog.metadata.acls import AclRule, AclsImage, is_allowed

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

DECISIONS_MAX: Final = 100_000
"""Decisions that are kept; then all of them are made anew."""

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


_READING: Final = frozenset({Operation.ANY, Operation.READ, Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS})


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


class StandardAuthorizer:
    """Kafka's: super users may do everything, others what the rules say (KIP-801)."""

    __slots__ = ("_acls", "_decided", "_rules", "_seen", "_super_users", "_without_rules")

    def __init__(self, acls: Callable[[], AclsImage], *, super_users: frozenset[str], without_rules: bool) -> None:
        """``acls`` gives the rules of now; ``without_rules`` decides on resources that none of them means."""
        self._acls = acls
        self._super_users = super_users
        self._without_rules = without_rules
        self._seen: AclsImage | None = None
        self._rules: dict[int, list[AclRule]] = {}
        self._decided: dict[tuple[str, str, int, int, str], bool] = {}

    def allows(self, principal: str, host: str, operation: Operation, resource: ResourceType, name: str) -> bool:
        """What the rules come to; an answer is kept until one of them changes."""
        if principal in self._super_users:
            return True
        acls = self._acls()
        if acls is not self._seen:
            self._learn(acls)
        key = (principal, host, operation, resource, name)
        decision = self._decided.get(key)
        if decision is None:
            if len(self._decided) >= DECISIONS_MAX:
                self._decided.clear()
            rules = self._rules.get(resource, ())
            decision = is_allowed(rules, principal, host, operation, name, otherwise=self._without_rules)
            self._decided[key] = decision
        return decision

    def _learn(self, acls: AclsImage) -> None:
        self._seen = acls
        self._decided.clear()
        self._rules.clear()
        for rule in acls.by_id.values():
            self._rules.setdefault(rule.resource_type, []).append(rule)


class ReadOnly:
    """Nobody may change anything but groups, whose offsets are the broker's own; ``then`` decides on the rest."""

    __slots__ = ("_then",)

    def __init__(self, then: Authorizer) -> None:
        self._then = then

    def allows(self, principal: str, host: str, operation: Operation, resource: ResourceType, name: str) -> bool:
        """Reading and describing, and whatever is done to a group."""
        if resource is not ResourceType.GROUP and operation not in _READING:
            return False
        return self._then.allows(principal, host, operation, resource, name)


def authorizer_of(config: BrokerConfig, acls: Callable[[], AclsImage]) -> Authorizer | None:
    """What the settings ask for; None where everybody may do everything."""
    chosen = _chosen_authorizer(config, acls)
    return ReadOnly(chosen or AllowAll()) if config.boolean("stratalog.read.only") else chosen


def _chosen_authorizer(config: BrokerConfig, acls: Callable[[], AclsImage]) -> Authorizer | None:
    if not config.text("authorizer.class.name"):
        return None
    users = config.text("super.users") or ""
    return StandardAuthorizer(
        acls,
        super_users=frozenset(user.strip() for user in users.split(";") if user.strip()),
        without_rules=config.boolean("allow.everyone.if.no.acl.found"),
    )
