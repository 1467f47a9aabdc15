"""The quorum's messages, from the machine's values to Kafka's and back, for both ends of a connection."""

from __future__ import annotations

from stratalog.broker.quorum.wire.received_answers import answer_from_wire
from stratalog.broker.quorum.wire.received_requests import request_from_wire
from stratalog.broker.quorum.wire.sent_answers import answer_to_wire
from stratalog.broker.quorum.wire.sent_requests import FETCH_BYTES, oldest_version, request_to_wire

__all__ = [
    "FETCH_BYTES",
    "answer_from_wire",
    "answer_to_wire",
    "oldest_version",
    "request_from_wire",
    "request_to_wire",
]
