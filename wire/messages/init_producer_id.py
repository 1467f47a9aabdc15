"""InitProducerId (key 22): a producer id and epoch for an idempotent or transactional producer.

- 0: the whole of it. 1: throttling comes after the answer (KIP-219). 2: flexible.
- 3: the producer names the id and epoch it had, to go on after an error (KIP-360).
- 4: PRODUCER_FENCED may be answered (KIP-588). 5: TRANSACTION_ABORTABLE may be answered (KIP-890).

Version 6 (two-phase commit, KIP-939) is not stable in Kafka 4.3 and not declared.
"""

from __future__ import annotations

from stratalog.wire.schema import Int16, Int32, Int64, Message, field

__all__ = [
    "InitProducerIdRequest",
    "InitProducerIdResponse",
]


class InitProducerIdRequest(Message, api_key=22, versions=(0, 5), flexible=2):
    """The producer that asks; the transactional id is null for one that is only idempotent."""

    transactional_id: str | None
    transaction_timeout_ms: Int32
    producer_id: Int64 = field(-1, since=3)
    producer_epoch: Int16 = field(-1, since=3)


class InitProducerIdResponse(Message, api_key=22, versions=(0, 5), flexible=2):
    """The id and epoch to produce with."""

    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()
    producer_id: Int64 = field(-1)
    producer_epoch: Int16
