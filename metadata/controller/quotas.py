"""The controller's answers about quotas of clients: set, remove, describe.

Sources of the rules: Kafka's ``ClientQuotaControlManager``, ``QuotaConfig``, ``ClientQuotasImage``; KIP-546, KIP-599,
KIP-612. Addresses are given as numbers: host names are not looked up.
"""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from stratalog.metadata.image.decision import Decision, Failure, failure_of
from stratalog.metadata.image.image import ClusterImage
from stratalog.metadata.image.quotas_image import CLIENT_ID, IP, USER, QuotaEntity, QuotasImage, entity_of, record_of
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.describe_client_quotas import MatchType
from stratalog.wire.schema import Message

__all__ = [
    "CONNECTION_CREATION_RATE",
    "CONSUMER_BYTE_RATE",
    "CONTROLLER_MUTATION_RATE",
    "PRODUCER_BYTE_RATE",
    "REQUEST_PERCENTAGE",
    "QuotaAlteration",
    "QuotaFilter",
    "alter_client_quotas",
    "quota_search",
]

PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"
CONNECTION_CREATION_RATE: Final = "connection_creation_rate"

_OF_CLIENTS: Final[Mapping[str, float]] = MappingProxyType(
    {
        PRODUCER_BYTE_RATE: 2**63 - 1,
        CONSUMER_BYTE_RATE: 2**63 - 1,
        REQUEST_PERCENTAGE: math.inf,
        CONTROLLER_MUTATION_RATE: math.inf,
    }
)
_OF_ADDRESSES: Final[Mapping[str, float]] = MappingProxyType({CONNECTION_CREATION_RATE: 2**31 - 1})
_WHOLE: Final = frozenset({PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE, CONNECTION_CREATION_RATE})
_FRACTION_MAX: Final = 1e-6


class QuotaAlteration(NamedTuple):
    """The changes for one entity: parts as (type, name), and values by key, where None removes the quota."""

    entity: Sequence[tuple[str, str | None]]
    operations: Sequence[tuple[str, float | None]]


class QuotaFilter(NamedTuple):
    """One component of a filter; ``name`` is None unless one name is meant."""

    entity_type: str
    match_type: int
    name: str | None


Results = tuple[tuple[Sequence[tuple[str, str | None]], Failure | None], ...]


def alter_client_quotas(
    image: ClusterImage, alterations: Sequence[QuotaAlteration], *, validate_only: bool = False
) -> Decision[Results]:
    """Change quotas entity by entity; a refusal does not stop the others."""
    records: list[Message] = []
    results: list[tuple[Sequence[tuple[str, str | None]], Failure | None]] = []
    seen: set[QuotaEntity] = set()
    for alteration in alterations:
        try:
            entity = _checked_entity(alteration.entity)
            if entity in seen:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "An entity may be named once in a request.")
            seen.add(entity)
            records += _altered(image.quotas, entity, alteration.operations)
        except KafkaError as error:
            results.append((alteration.entity, failure_of(error)))
        else:
            results.append((alteration.entity, None))
    return Decision(() if validate_only else tuple(records), tuple(results))


def _checked_entity(parts: Sequence[tuple[str, str | None]]) -> QuotaEntity:
    """The entity of these parts. Raises INVALID_REQUEST for one that cannot have quotas."""
    names = dict(parts)
    if not names:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Invalid empty client quota entity")
    if len(names) != len(parts):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "An entity has at most one name of each type.")
    for kind, name in names.items():
        if kind not in (USER, CLIENT_ID, IP):
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unhandled client quota entity type: {kind}")
        if not name and name is not None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Empty {kind} not supported")
    if IP in names:
        if len(names) > 1:
            why = "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId"
            raise KafkaError(ErrorCode.INVALID_REQUEST, why)
        if names[IP] is not None:
            _check_address(names[IP] or "")
    return entity_of(names)


def _check_address(text: str) -> None:
    try:
        ipaddress.ip_address(text)
    except ValueError as error:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"{text} is no IP address; names of hosts are not taken."
        ) from error


def _altered(image: QuotasImage, entity: QuotaEntity, operations: Sequence[tuple[str, float | None]]) -> list[Message]:
    """The records of one entity's changes. Raises INVALID_REQUEST if one of them cannot be made."""
    wanted = dict(operations)
    if len(wanted) != len(operations):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "A quota may be named once for an entity.")
    known = _OF_ADDRESSES if entity[0][0] == IP else _OF_CLIENTS
    present = image.of(entity)
    records: list[Message] = []
    for key, value in wanted.items():
        if value is not None:
            _check_value(known, key, value)
        if value != present.get(key):
            records.append(record_of(entity, key, value))
    return records


def _check_value(known: Mapping[str, float], key: str, value: float) -> None:
    largest = known.get(key)
    if largest is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Invalid configuration key {key}")
    if not value > 0:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Quota {key} must be greater than 0")
    if value > largest or math.isinf(value):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{value:g} is too large for {key}")
    if key in _WHOLE and value % 1.0 > _FRACTION_MAX:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{key} cannot be a fractional value.")


def quota_search(filters: Sequence[QuotaFilter], *, strict: bool) -> Callable[[QuotaEntity], bool]:
    """Whether all filters match an entity; ``strict``: and it has no other types.

    Raises INVALID_REQUEST for a filter that says nothing or too much, UNSUPPORTED_VERSION for an unknown type.
    """
    matches: dict[str, Callable[[str | None], bool]] = {}
    for each in filters:
        if not each.entity_type:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Invalid empty entity type.")
        if each.entity_type in matches:
            why = f"Entity type {each.entity_type} cannot appear more than once in the filter."
            raise KafkaError(ErrorCode.INVALID_REQUEST, why)
        if each.entity_type not in (USER, CLIENT_ID, IP):
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {each.entity_type}")
        matches[each.entity_type] = _match(each)
    if IP in matches and len(matches) > 1:
        why = (
            "Invalid entity filter component combination. "
            "IP filter component should not be used with user or clientId filter component."
        )
        raise KafkaError(ErrorCode.INVALID_REQUEST, why)

    def is_found(entity: QuotaEntity) -> bool:
        names = dict(entity)
        if strict and names.keys() != matches.keys():
            return False
        return all(kind in names and match(names[kind]) for kind, match in matches.items())

    return is_found


def _match(component: QuotaFilter) -> Callable[[str | None], bool]:
    wanted = component.name
    if component.match_type not in MatchType.__members__.values():
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown match type {component.match_type}")
    if (component.match_type == MatchType.EXACT) != (wanted is not None):
        kind = MatchType(component.match_type)
        given = "but set match string to null" if wanted is None else "but also specified a match string"
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Request specified MATCH_TYPE_{kind.name}, {given}.")
    if component.match_type == MatchType.SPECIFIED:
        return lambda _: True
    return lambda name: name == wanted
