"""AddOffsetsToTxn (key 25): the transaction will commit offsets of a group.

- 0: the whole of it. 1: throttling comes after the answer (KIP-219). 2: PRODUCER_FENCED may be answered (KIP-588).
- 3: flexible. 4: TRANSACTION_ABORTABLE may be answered (KIP-890).
"""

from __future__ import annotations

from stratalog.wire.schema import Int16, Int32, Int64, Message, field

__all__ = ["AddOffsetsToTxnRequest", "AddOffsetsToTxnResponse"]


class AddOffsetsToTxnRequest(Message, api_key=25, versions=(0, 4), flexible=3):
    """The transaction, and the group whose offsets will be committed in it."""

    transactional_id: str
    producer_id: Int64
    producer_epoch: Int16
    group_id: str


class AddOffsetsToTxnResponse(Message, api_key=25, versions=(0, 4), flexible=3):
    """Done, or why not."""

    throttle_time_ms: Int32 = field()
    error_code: Int16
