"""DeleteTopics (key 20): delete topics by name or by id.

- 1: throttle time. 2: throttling comes after the answer (KIP-219). 3: TOPIC_DELETION_DISABLED may be answered.
- 4: flexible. 5: error messages; THROTTLING_QUOTA_EXCEEDED may be answered (KIP-599).
- 6: topics are named by a struct that holds a name or an id (KIP-516).
"""

from __future__ import annotations

from stratalog.wire.schema import Int16, Int32, Message, Struct, Uuid, field

__all__ = [
    "DeletableTopicResult",
    "DeleteTopicState",
    "DeleteTopicsRequest",
    "DeleteTopicsResponse",
]


class DeleteTopicState(Struct):
    """One topic: by name, or by id when the name is null."""

    name: str | None = field()
    topic_id: Uuid = field()


class DeleteTopicsRequest(Message, api_key=20, versions=(1, 6), flexible=4):
    """The topics to delete: ``topic_names`` up to version 5, ``topics`` from 6 on."""

    topics: list[DeleteTopicState] = field(since=6)
    topic_names: list[str] = field(until=5)
    timeout_ms: Int32


class DeletableTopicResult(Struct):
    """One topic; the name stays null for an unknown id."""

    name: str | None = field("", nullable_since=6)
    topic_id: Uuid = field(since=6)
    error_code: Int16 = field()
    error_message: str | None = field(since=5)


class DeleteTopicsResponse(Message, api_key=20, versions=(1, 6), flexible=4):
    """The outcome for each topic."""

    throttle_time_ms: Int32 = field()
    responses: list[DeletableTopicResult]
