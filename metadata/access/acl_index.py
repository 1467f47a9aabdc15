"""Finds the rules that decide about a caller and a resource, without a look at any others.

One index holds the rules about one type of resource. Literal names lie in a map and prefixes in an ordered map; below each
name the rules lie by principal and host. Sources: KIP-290, KIP-679; Kafka's ``StandardAuthorizerData`` and
``Authorizer.authorizeByResourceType``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from msgspec import Struct, field

from stratalog.metadata.access.acl_rules import WILDCARD, AclFilter, AclRule, PatternType, Permission
from stratalog.metadata.access.prefix_map import PrefixMap
from stratalog.metadata.maps.persistent_map import PersistentMap, changed
from stratalog.wire.topic import Uuid

__all__ = ["EVERYTHING", "NO_RULES", "ResourceRules", "Source"]

_EVERYBODY: Final = "User:*"
_ALL: Final = 2
"""The number of the operation that stands for all."""
_READ, _WRITE, _DELETE, _ALTER, _DESCRIBE, _DESCRIBE_CONFIGS, _ALTER_CONFIGS = 3, 4, 6, 7, 8, 10, 11
"""The numbers of operations (Kafka's ``AclOperation``)."""
_OPERATION_MAX: Final = 15

EVERYTHING: Final = (1 << _OPERATION_MAX + 1) - 1
"""The set of all operations. In a set of operations bit n stands for operation n."""
_DESCRIBING: Final = 1 << _READ | 1 << _WRITE | 1 << _DELETE | 1 << _ALTER
"""A permission for one of these implies DESCRIBE. A denial implies no other."""
_DESCRIBING_CONFIGS: Final = 1 << _ALTER_CONFIGS
"""A permission for this implies DESCRIBE_CONFIGS."""

_ANY_NAME: Final = "hardcode"
"""The name that Kafka asks about to learn whether a caller may use some resource of a type."""

Source = Callable[[str | None, str | None], Iterator[tuple[Uuid, AclRule]]]
"""Called with a principal and a host, or None for all: at least the rules of these, and more of the same place."""

V = TypeVar("V")
W_co = TypeVar("W_co", covariant=True)


class _Held(Protocol[W_co]):
    """The look-up of a map."""

    def get(self, key: str, /) -> W_co | None: ...


class _Grants(NamedTuple):
    """The rules with one pattern, principal and host: the operations they allow and deny, and the rules themselves."""

    allowed: int
    denied: int
    rules: Mapping[Uuid, AclRule]

    def __bool__(self) -> bool:
        return bool(self.rules)

    @classmethod
    def of(cls, rules: Mapping[Uuid, AclRule]) -> _Grants:
        """The operations that some rules allow and deny together."""
        allowed = denied = 0
        for rule in rules.values():
            operations = EVERYTHING if rule.operation == _ALL else EVERYTHING & 1 << max(rule.operation, 0)
            if rule.permission == Permission.DENY:
                denied |= operations
            else:
                allowed |= operations
        if allowed & _DESCRIBING:
            allowed |= 1 << _DESCRIBE
        if allowed & _DESCRIBING_CONFIGS:
            allowed |= 1 << _DESCRIBE_CONFIGS
        return cls(allowed, denied, rules)


_NO_GRANTS: Final = _Grants.of({})

_ByHost = Mapping[str, _Grants]
_ByPrincipal = Mapping[str, _ByHost]
_ById = Mapping[Uuid, AclRule]
_Changes = dict[str, dict[str, dict[str, list[tuple[Uuid, AclRule | None]]]]]
"""By name, principal and host: first the rules that are removed, each as None, then those that are added."""

_NONE: Final[Mapping[Any, Any]] = MappingProxyType({})


class ResourceRules(Struct, frozen=True):
    """The rules about one type of resource. Immutable: `updated` returns another one that shares most of it."""

    _literals: PersistentMap[str, _ByPrincipal] = field(default_factory=PersistentMap)
    """Literal rules by name; the name ``*`` stands for every resource."""
    _prefixes: PrefixMap[_ByPrincipal] = field(default_factory=PrefixMap)
    _principals: PersistentMap[str, _ById] = field(default_factory=PersistentMap)
    """All rules again, by principal and id."""

    def permitted(self, principal: str, host: str, name: str, *, otherwise: bool) -> int:
        """The set of operations that a caller may do to the resource called ``name``.

        One denial outweighs all permissions; a resource with rules is closed to those they do not mention;
        ``otherwise`` says whether one without any is open (``allow.everyone.if.no.acl.found``).
        """
        patterns = self._covering(name)
        if not patterns:
            return EVERYTHING if otherwise else 0
        allowed, denied = _added_up(patterns, principal, host)
        return allowed & ~denied

    def permits_some(self, principal: str, host: str, operation: int, *, otherwise: bool) -> bool:
        """Whether a caller may do ``operation`` to any resource: there is a permission that no denial covers.

        A permission that only implies ``operation`` does not count, and one for ``*`` yields to denials for ``*`` alone,
        as in Kafka; as there, ``otherwise`` counts if no rule means a resource called "hardcode".
        """
        wanted = 1 << operation
        if self.permitted(principal, host, _ANY_NAME, otherwise=otherwise) & wanted:
            return True
        everything = self._literals.get(WILDCARD)
        if everything is not None and _added_up((everything,), principal, host)[1] & wanted:
            return False
        for rule in self._concerning(principal, host):
            if rule.permission == Permission.DENY or rule.operation not in (operation, _ALL):
                continue
            name, literal = rule.resource_name, rule.pattern_type != PatternType.PREFIXED
            if literal and name == WILDCARD:
                return True
            patterns = self._covering(name) if literal else self._prefixes.matching(name)
            if not _added_up(patterns, principal, host)[1] & wanted:
                return True
        return False

    def sources(self, wanted: AclFilter) -> Iterator[tuple[int, Source]]:
        """Where the rules lie among which are all that match a filter, each with a number that is its own in this image.

        Those of a filter with a name have its name and its pattern type.
        """
        if wanted.resource_name is None:
            yield id(self), self._of_principal
            return
        for pattern in self._named(wanted.resource_name, wanted.pattern_type):
            yield id(pattern), partial(_rules, pattern)

    def updated(self, added: Mapping[Uuid, AclRule], removed: Mapping[Uuid, AclRule]) -> ResourceRules:
        """The index without the rules ``removed`` and with those ``added``.

        Raises `KeyError` if a rule that is removed is not there.
        """
        literals: _Changes = {}
        prefixes: _Changes = {}
        principals: dict[str, tuple[dict[Uuid, AclRule], list[Uuid]]] = {}
        for rules, is_added in ((removed, False), (added, True)):
            for rule_id, rule in rules.items():
                patterns = prefixes if rule.pattern_type == PatternType.PREFIXED else literals
                by_host = patterns.setdefault(rule.resource_name, {}).setdefault(rule.principal, {})
                by_host.setdefault(rule.host, []).append((rule_id, rule if is_added else None))
                items, gone = principals.setdefault(rule.principal, ({}, []))
                if is_added:
                    items[rule_id] = rule
                else:
                    gone.append(rule_id)
        by_principal: dict[str, _ById] = {
            principal: changed(self._principals.get(principal, _NONE), items, gone)
            for principal, (items, gone) in principals.items()
        }
        return ResourceRules(
            self._literals.updated(*_parted(self._literals, _changed_patterns(self._literals, literals))),
            self._prefixes.updated(*_parted(self._prefixes, _changed_patterns(self._prefixes, prefixes))),
            self._principals.updated(*_parted(self._principals, by_principal)),
        )

    def _covering(self, name: str) -> tuple[_ByPrincipal, ...]:
        """The patterns that cover a name: prefixes of it, the name itself, and ``*``."""
        found, literals = self._prefixes.matching(name), self._literals
        named, everything = literals.get(name), literals.get(WILDCARD)
        if named is not None:
            found = (*found, named)
        return found if everything is None else (*found, everything)

    def _named(self, name: str, pattern_type: int) -> Iterator[_ByPrincipal]:
        """The patterns that a filter with this name and pattern type matches, each once."""
        if pattern_type == PatternType.MATCH:
            yield from {id(pattern): pattern for pattern in self._covering(name)}.values()
            return
        literal = self._literals.get(name) if pattern_type != PatternType.PREFIXED else None
        prefixed = self._prefixes.get(name) if pattern_type != PatternType.LITERAL else None
        if literal is not None:
            yield literal
        if prefixed is not None:
            yield prefixed

    def _of_principal(self, principal: str | None, _host: str | None) -> Iterator[tuple[Uuid, AclRule]]:
        if principal is not None:
            yield from self._principals.get(principal, _NONE).items()
            return
        for rules in self._principals.values():
            yield from rules.items()

    def _concerning(self, principal: str, host: str) -> Iterator[AclRule]:
        for each in (principal, _EVERYBODY):
            for rule in self._principals.get(each, _NONE).values():
                if rule.host in (host, WILDCARD):
                    yield rule


NO_RULES: Final = ResourceRules()


def _added_up(patterns: Iterable[_ByPrincipal], principal: str, host: str) -> tuple[int, int]:
    """The sets of operations that rules with these patterns allow a caller, and deny."""
    allowed = denied = 0
    for pattern in patterns:
        for each in (principal, _EVERYBODY):
            by_host = pattern.get(each)
            if by_host is None:
                continue
            for address in (host, WILDCARD):
                grants = by_host.get(address)
                if grants is not None:
                    allowed |= grants.allowed
                    denied |= grants.denied
    return allowed, denied


def _rules(pattern: _ByPrincipal, principal: str | None, host: str | None) -> Iterator[tuple[Uuid, AclRule]]:
    for by_host in pattern.values() if principal is None else (pattern.get(principal, _NONE),):
        for grants in by_host.values() if host is None else (by_host.get(host, _NO_GRANTS),):
            yield from grants.rules.items()


def _changed_patterns(held: _Held[_ByPrincipal], changes: _Changes) -> dict[str, _ByPrincipal]:
    """The patterns that change, by name; a pattern without rules is empty."""
    patterns: dict[str, _ByPrincipal] = {}
    for name, principals in changes.items():
        pattern = held.get(name) or _NONE
        by_principal: dict[str, _ByHost] = {}
        for principal, hosts in principals.items():
            by_host: _ByHost = pattern.get(principal, _NONE)
            by_principal[principal] = changed(by_host, *_parted(by_host, _changed_grants(by_host, hosts)))
        patterns[name] = changed(pattern, *_parted(pattern, by_principal))
    return patterns


def _changed_grants(held: _ByHost, changes: Mapping[str, list[tuple[Uuid, AclRule | None]]]) -> dict[str, _Grants]:
    """The grants that change, by host; grants without rules are empty. Raises `KeyError` for a rule that is not there."""
    grants = {}
    for host, rules in changes.items():
        left = dict(held.get(host, _NO_GRANTS).rules)
        for rule_id, rule in rules:
            if rule is None:
                del left[rule_id]
            else:
                left[rule_id] = rule
        grants[host] = _Grants.of(left)
    return grants


def _parted(held: _Held[V], changes: Mapping[str, V]) -> tuple[dict[str, V], list[str]]:
    """The items of ``changes`` to put into ``held``, and the keys to remove from it because their values are empty."""
    items = {key: value for key, value in changes.items() if value}
    return items, [key for key, value in changes.items() if not value and held.get(key) is not None]
