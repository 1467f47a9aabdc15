"""EndTxn (key 26): commit or abort.

- 0: the whole of it. 1: throttling comes after the answer (KIP-219). 2: PRODUCER_FENCED may be answered (KIP-588).
- 3: flexible. 4: TRANSACTION_ABORTABLE may be answered (KIP-890).
- 5: the epoch is raised by every end, and the answer says with which id and epoch to go on (KIP-890).
"""

from __future__ import annotations

from stratalog.wire.schema import Bool, Int16, Int32, Int64, Message, field

__all__ = ["EndTxnRequest", "EndTxnResponse"]


class EndTxnRequest(Message, api_key=26, versions=(0, 5), flexible=3):
    """The transaction and how it ends."""

    transactional_id: str
    producer_id: Int64
    producer_epoch: Int16
    committed: Bool


class EndTxnResponse(Message, api_key=26, versions=(0, 5), flexible=3):
    """Decided, or why not; the next transaction begins with ``producer_id`` and ``producer_epoch``."""

    throttle_time_ms: Int32 = field()
    error_code: Int16
    producer_id: Int64 = field(-1, since=5)
    producer_epoch: Int16 = field(-1, since=5)
