"""Access rules: what one says, which match a filter, and what all of them together allow.

Sources: KIP-11, KIP-290 (prefixes), KIP-801; Kafka's ``StandardAuthorizerData``, ``AclBindingFilter``. The numbers of
operations, resource, pattern and permission types are Kafka's, as requests and records carry them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from types import MappingProxyType
from typing import Final, NamedTuple

from stratalog.wire.errors import Corrupt
from stratalog.wire.records.metadata import AccessControlEntryRecord
from stratalog.wire.topic import Uuid

__all__ = ["WILDCARD", "AclFilter", "AclRule", "AclsImage", "PatternType", "Permission", "is_allowed"]

WILDCARD: Final = "*"
_EVERYBODY: Final = "User:*"
_ANY: Final = 1
_ALL: Final = 2
_DESCRIBE, _DESCRIBE_CONFIGS = 8, 10

_IMPLIED_BY: Final[Mapping[int, frozenset[int]]] = MappingProxyType(
    {_DESCRIBE: frozenset({3, 4, 6, 7}), _DESCRIBE_CONFIGS: frozenset({11})}
)
"""Who may read, write, delete or alter may describe, too; who may alter settings may see them. Denials imply nothing."""


class PatternType(IntEnum):
    """How a rule's resource name is meant; ``ANY`` and ``MATCH`` are filters only."""

    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Permission(IntEnum):
    """What a rule does; ``ANY`` is a filter only."""

    ANY = 1
    DENY = 2
    ALLOW = 3


class AclRule(NamedTuple):
    """One rule."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission: int

    def covers(self, name: str) -> bool:
        """Whether the rule is about the resource of this name (of its own type)."""
        if self.pattern_type == PatternType.PREFIXED:
            return name.startswith(self.resource_name)
        return self.resource_name in (name, WILDCARD)

    def concerns(self, principal: str, host: str, operation: int) -> bool:
        """Whether it is about this caller doing this."""
        return (
            self.principal in (principal, _EVERYBODY)
            and self.host in (host, WILDCARD)
            and (
                self.operation in (operation, _ALL)
                or (self.permission == Permission.ALLOW and self.operation in _IMPLIED_BY.get(operation, ()))
            )
        )


class AclFilter(NamedTuple):
    """What rules are looked for; None and the types ``ANY`` match everything."""

    resource_type: int
    resource_name: str | None
    pattern_type: int
    principal: str | None
    host: str | None
    operation: int
    permission: int

    def matches(self, rule: AclRule) -> bool:
        """Whether a rule is among them."""
        return (
            self.resource_type in (_ANY, rule.resource_type)
            and self._names(rule)
            and self.principal in (None, rule.principal)
            and self.host in (None, rule.host)
            and self.operation in (_ANY, rule.operation)
            and self.permission in (_ANY, rule.permission)
        )

    def _names(self, rule: AclRule) -> bool:
        name = self.resource_name
        if self.pattern_type == PatternType.MATCH:
            return name is None or rule.covers(name)
        return self.pattern_type in (_ANY, rule.pattern_type) and name in (None, rule.resource_name)


@dataclass(frozen=True, slots=True)
class AclsImage:
    """All rules of a cluster, by id."""

    by_id: Mapping[Uuid, AclRule] = field(default_factory=lambda: MappingProxyType({}))

    def with_acl(self, record: AccessControlEntryRecord) -> AclsImage:
        """The image with a rule more."""
        rule = AclRule(
            record.resource_type,
            record.resource_name,
            record.pattern_type,
            record.principal,
            record.host,
            record.operation,
            record.permission_type,
        )
        return AclsImage(MappingProxyType({**self.by_id, bytes(record.id): rule}))

    def without(self, rule_id: Uuid) -> AclsImage:
        """The image with a rule less. Raises `Corrupt` if it is not there."""
        if rule_id not in self.by_id:
            raise Corrupt("a RemoveAccessControlEntryRecord for a rule that is not there")
        return AclsImage(MappingProxyType({key: rule for key, rule in self.by_id.items() if key != rule_id}))

    def to_records(self) -> Iterator[AccessControlEntryRecord]:
        """The records that make this image from nothing."""
        for rule_id, rule in self.by_id.items():
            yield AccessControlEntryRecord(
                id=rule_id,
                resource_type=rule.resource_type,
                resource_name=rule.resource_name,
                pattern_type=rule.pattern_type,
                principal=rule.principal,
                host=rule.host,
                operation=rule.operation,
                permission_type=rule.permission,
            )


def is_allowed(
    rules: Iterable[AclRule], principal: str, host: str, operation: int, name: str, *, otherwise: bool
) -> bool:
    """What ``rules``, all of one resource type, say of a caller and the resource called ``name``.

    One denial outweighs all permissions; a resource with rules is closed to those they do not mention; ``otherwise``
    is the answer for one without any (``allow.everyone.if.no.acl.found``).
    """
    covered = allowed = False
    for rule in rules:
        if not rule.covers(name):
            continue
        covered = True
        if rule.concerns(principal, host, operation):
            if rule.permission == Permission.DENY:
                return False
            allowed = True
    return allowed if covered else otherwise
