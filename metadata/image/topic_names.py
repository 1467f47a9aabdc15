"""Names of topics: which are legal, which are the cluster's own, which collide.

Source of rules and texts: Kafka's ``Topic``. ``.`` and ``_`` look the same in the names of metrics, so two topics
that differ only in them are refused.
"""

from __future__ import annotations

from typing import Final

from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.topic import topic_name_problem

__all__ = [
    "CLUSTER_METADATA_TOPIC",
    "CONSUMER_OFFSETS_TOPIC",
    "TRANSACTION_STATE_TOPIC",
    "absence_code",
    "check_topic_name",
    "collision_key",
    "is_internal",
]

CONSUMER_OFFSETS_TOPIC: Final = "__consumer_offsets"
TRANSACTION_STATE_TOPIC: Final = "__transaction_state"
SHARE_STATE_TOPIC: Final = "__share_group_state"
CLUSTER_METADATA_TOPIC: Final = "__cluster_metadata"

_INTERNAL: Final = frozenset({CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, SHARE_STATE_TOPIC})


def check_topic_name(name: str) -> None:
    """Raise `KafkaError` INVALID_TOPIC_EXCEPTION for a name no topic may have."""
    problem = topic_name_problem(name)
    if problem is not None:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {problem}")


def absence_code(name: str) -> ErrorCode:
    """Why there is no topic of this name: INVALID_TOPIC_EXCEPTION if there cannot be one."""
    return (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if topic_name_problem(name) is None else ErrorCode.INVALID_TOPIC_EXCEPTION
    )


def is_internal(name: str) -> bool:
    """Whether clients see the topic marked as internal."""
    return name in _INTERNAL


def collision_key(name: str) -> str | None:
    """The key that two colliding names share; ``None`` for a name that cannot collide."""
    return name.replace(".", "_") if "." in name or "_" in name else None
