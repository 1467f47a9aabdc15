"""AllocateProducerIds (key 67): a broker asks the controller for a block of producer ids (KIP-730).

- 0: the whole of it.
"""

from __future__ import annotations

from stratalog.wire.schema import Int16, Int32, Int64, Message, field

__all__ = [
    "AllocateProducerIdsRequest",
    "AllocateProducerIdsResponse",
]


class AllocateProducerIdsRequest(Message, api_key=67, versions=(0, 0), flexible=0):
    """The broker that asks, in the epoch of its registration."""

    broker_id: Int32
    broker_epoch: Int64 = field(-1)


class AllocateProducerIdsResponse(Message, api_key=67, versions=(0, 0), flexible=0):
    """``producer_id_len`` ids, the first of them ``producer_id_start``."""

    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()
    producer_id_start: Int64
    producer_id_len: Int32
