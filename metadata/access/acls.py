"""All access rules of a cluster as one immutable value. Sources: KIP-801; Kafka's ``AclsImage``, ``AclCache``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from stratalog.metadata.access.acl_index import NO_RULES, ResourceRules, Source
from stratalog.metadata.access.acl_rules import ANY, AclFilter, AclRule
from stratalog.metadata.maps.persistent_map import PersistentMap
from stratalog.wire.errors import Corrupt
from stratalog.wire.records.metadata import AccessControlEntryRecord
from stratalog.wire.topic import Uuid

__all__ = ["AclsDraft", "AclsImage"]


@dataclass(frozen=True, slots=True)
class AclsImage:
    """All rules of a cluster, by id, and indexed by what they are about. A change costs the same however many there are."""

    by_id: PersistentMap[Uuid, AclRule] = field(default_factory=PersistentMap)
    _by_type: Mapping[int, ResourceRules] = field(default_factory=lambda: MappingProxyType({}), compare=False)

    @classmethod
    def of(cls, rules: Mapping[Uuid, AclRule]) -> AclsImage:
        """The image of these rules."""
        return cls().updated(rules, {})

    def about(self, resource_type: int) -> ResourceRules:
        """The rules about resources of one type."""
        return self._by_type.get(resource_type, NO_RULES)

    def candidates(self, wanted: AclFilter) -> Iterator[tuple[Uuid, AclRule]]:
        """Rules with their ids, in no particular order, among which are all that match.

        For a filter that names a resource or a principal they are few, for others all rules of its type.
        """
        for _, rules in self.sources(wanted):
            yield from rules(wanted.principal, wanted.host)

    def sources(self, wanted: AclFilter) -> Iterator[tuple[int, Source]]:
        """Where those candidates lie; see `ResourceRules.sources`. All have the resource type of the filter."""
        for resource_type in self._by_type if wanted.resource_type == ANY else (wanted.resource_type,):
            yield from self.about(resource_type).sources(wanted)

    def __contains__(self, rule: AclRule) -> bool:
        """Whether there is a rule that says the same."""
        return any(rule == one for _, one in self.candidates(AclFilter(*rule)))

    def updated(self, added: Mapping[Uuid, AclRule], removed: Mapping[Uuid, AclRule]) -> AclsImage:
        """The image without the rules ``removed``, which must be in it, and with those ``added``."""
        by_type: dict[int, tuple[dict[Uuid, AclRule], dict[Uuid, AclRule]]] = {}
        for at, rules in enumerate((added, removed)):
            for rule_id, rule in rules.items():
                by_type.setdefault(rule.resource_type, ({}, {}))[at][rule_id] = rule
        changed = {kind: self.about(kind).updated(*changes) for kind, changes in by_type.items()}
        return AclsImage(self.by_id.updated(added, removed), MappingProxyType({**self._by_type, **changed}))

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


class AclsDraft:
    """Changes to an `AclsImage`."""

    __slots__ = ("_added", "_base", "_removed")

    def __init__(self, base: AclsImage) -> None:
        self._base = base
        self._added: dict[Uuid, AclRule] = {}
        self._removed: dict[Uuid, AclRule] = {}

    def put(self, record: AccessControlEntryRecord) -> None:
        """A rule more, in the place of one with the same id."""
        rule_id = bytes(record.id)
        replaced = self._base.by_id.get(rule_id)
        if replaced is not None:
            self._removed[rule_id] = replaced
        self._added[rule_id] = AclRule(
            record.resource_type,
            record.resource_name,
            record.pattern_type,
            record.principal,
            record.host,
            record.operation,
            record.permission_type,
        )

    def remove(self, rule_id: Uuid) -> None:
        """A rule less. Raises `Corrupt` if it is not there."""
        if self._added.pop(rule_id, None) is not None:
            return
        rule = self._base.by_id.get(rule_id)
        if rule is None or rule_id in self._removed:
            raise Corrupt("a RemoveAccessControlEntryRecord for a rule that is not there")
        self._removed[rule_id] = rule

    def build(self) -> AclsImage:
        """The next image; the base itself if nothing changed."""
        if not self._added and not self._removed:
            return self._base
        return self._base.updated(self._added, self._removed)
