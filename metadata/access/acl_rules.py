"""Access rules: what one says, and which of them a filter finds.

Sources: KIP-11, KIP-290 (prefixes); Kafka's ``AclBinding``, ``AclBindingFilter``. The numbers of operations, resource,
pattern and permission types are Kafka's, as requests and records carry them.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple

__all__ = ["ANY", "WILDCARD", "AclFilter", "AclRule", "PatternType", "Permission", "parse_super_users"]

ANY: Final = 1
"""The type of resource or the operation of a filter that asks for all of them."""
WILDCARD: Final = "*"
"""The literal name, and the host, that stands for all of them."""


class PatternType(IntEnum):
    """How a rule's resource name is meant; ``ANY`` and ``MATCH`` are filters only."""

    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Permission(IntEnum):
    """The effect of a rule; ``ANY`` is a filter only."""

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


class AclFilter(NamedTuple):
    """The rules that are looked for; None and the types ``ANY`` match everything."""

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
            self.resource_type in (ANY, rule.resource_type)
            and self._names(rule)
            and self.principal in (None, rule.principal)
            and self.host in (None, rule.host)
            and self.operation in (ANY, rule.operation)
            and self.permission in (ANY, rule.permission)
        )

    def _names(self, rule: AclRule) -> bool:
        name = self.resource_name
        if self.pattern_type == PatternType.MATCH:
            return name is None or rule.covers(name)
        return self.pattern_type in (ANY, rule.pattern_type) and name in (None, rule.resource_name)


def parse_super_users(text: str) -> frozenset[str]:
    """The principals of ``super.users``, which are separated by semicolons.

    Raises ValueError with a sentence for one that no client can be: Kafka stops for one without a colon, and would
    never match one of another type than ``User``, nor the star, which has no special meaning there.
    """
    users = [user.strip() for user in text.split(";") if user.strip()]
    for user in users:
        kind, colon, name = user.partition(":")
        if not colon or kind != "User" or not name:
            raise ValueError(
                f"super.users names {user!r}, which is no principal: write User:NAME, separated by semicolons"
            )
        if name == WILDCARD:
            raise ValueError(f"super.users names {user!r}, but the star has no special meaning there: name each user")
    return frozenset(users)
