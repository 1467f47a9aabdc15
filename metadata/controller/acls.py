"""The controller's answers about access rules: create, remove, describe. Source: Kafka's ``AclControlManager``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from stratalog.metadata.access.acl_rules import AclFilter, AclRule, PatternType, Permission
from stratalog.metadata.image.decision import Decision, Failure, failure_of
from stratalog.metadata.image.image import ClusterImage
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.records.metadata import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from stratalog.wire.schema import Message
from stratalog.wire.topic import Uuid

__all__ = ["check_filter", "create_acls", "remove_acls"]

_OPERATIONS: Final = range(2, 16)
_RESOURCE_TYPES: Final = range(2, 8)
_CLUSTER_TYPE: Final = 4
_CLUSTER_NAME: Final = "kafka-cluster"


def create_acls(
    image: ClusterImage, rules: Sequence[AclRule], new_id: Callable[[], Uuid]
) -> Decision[tuple[Failure | None, ...]]:
    """Add rules. A rule that exists counts as added; a failure does not stop the others."""
    added: set[AclRule] = set()
    records: list[Message] = []
    results: list[Failure | None] = []
    for rule in rules:
        try:
            _check(rule)
        except KafkaError as error:
            results.append(failure_of(error))
            continue
        results.append(None)
        if rule not in added and rule not in image.acls:
            added.add(rule)
            records.append(
                AccessControlEntryRecord(
                    id=new_id(),
                    resource_type=rule.resource_type,
                    resource_name=rule.resource_name,
                    pattern_type=rule.pattern_type,
                    principal=rule.principal,
                    host=rule.host,
                    operation=rule.operation,
                    permission_type=rule.permission,
                )
            )
    return Decision(tuple(records), tuple(results))


def remove_acls(image: ClusterImage, rule_ids: Iterable[Uuid]) -> Decision[None]:
    """Remove rules. A rule that is gone counts as removed."""
    gone = [rule_id for rule_id in rule_ids if rule_id in image.acls.by_id]
    return Decision(tuple(RemoveAccessControlEntryRecord(id=rule_id) for rule_id in gone), None)


def check_filter(wanted: AclFilter) -> None:
    """Check a filter. Raises INVALID_REQUEST for an undefined number."""
    for what, number, known in (
        ("resource type", wanted.resource_type, (1, *_RESOURCE_TYPES)),
        ("pattern type", wanted.pattern_type, tuple(PatternType)),
        ("operation", wanted.operation, (1, *_OPERATIONS)),
        ("permission type", wanted.permission, tuple(Permission)),
    ):
        if number not in known:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"the filter's {what} {number} is not known")


def _check(rule: AclRule) -> None:
    """Check a rule. Raises INVALID_REQUEST for one that could never apply."""
    problem = None
    if rule.resource_type not in _RESOURCE_TYPES:
        problem = f"Invalid resourceType {rule.resource_type}"
    elif rule.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        problem = f"Invalid patternType {rule.pattern_type}"
    elif rule.operation not in _OPERATIONS:
        problem = f"Invalid operation {rule.operation}"
    elif rule.permission not in (Permission.DENY, Permission.ALLOW):
        problem = f"Invalid permissionType {rule.permission}"
    elif not rule.resource_name:
        problem = "Invalid empty resource name"
    elif rule.resource_type == _CLUSTER_TYPE and rule.resource_name != _CLUSTER_NAME:
        problem = f"The only valid name for the CLUSTER resource is {_CLUSTER_NAME}"
    elif ":" not in rule.principal:
        why = "no colon is present separating the principal type from the principal name"
        problem = f"Could not parse principal from `{rule.principal}` ({why})"
    if problem is not None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, problem)
