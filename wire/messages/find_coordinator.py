"""FindCoordinator (key 10): which broker runs a group or a transactional id.

``key_type``: 0 group, 1 transaction, 2 share group.

- 0: one group. 1: the key type, throttle time and an error message. 2: throttling comes after the answer (KIP-219).
- 3: flexible. 4: many keys at once (KIP-699). 5: TRANSACTION_ABORTABLE may be answered (KIP-890).
- 6: share groups, keyed ``groupId:topicId:partition`` (KIP-932).
"""

from __future__ import annotations

from stratalog.wire.schema import Int8, Int16, Int32, Message, Struct, field

__all__ = [
    "Coordinator",
    "FindCoordinatorRequest",
    "FindCoordinatorResponse",
]


class FindCoordinatorRequest(Message, api_key=10, versions=(0, 6), flexible=3):
    """The keys to look up: ``key`` up to version 3, ``coordinator_keys`` from 4 on."""

    key: str = field(until=3)
    key_type: Int8 = field(since=1)
    coordinator_keys: list[str] = field(since=4)


class Coordinator(Struct):
    """The coordinator of one key; the node is -1 when an error stands instead."""

    key: str
    node_id: Int32
    host: str
    port: Int32
    error_code: Int16 = field()
    error_message: str | None = field()


class FindCoordinatorResponse(Message, api_key=10, versions=(0, 6), flexible=3):
    """The coordinator of ``key`` up to version 3, those of all keys from 4 on."""

    throttle_time_ms: Int32 = field(since=1)
    error_code: Int16 = field(until=3)
    error_message: str | None = field(since=1, until=3)
    node_id: Int32 = field(until=3)
    host: str = field(until=3)
    port: Int32 = field(until=3)
    coordinators: list[Coordinator] = field(since=4)
