"""Log directories whose disk has no room left, as brokers tell it (KIP-827)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from stratalog.client.client import BrokerAway, Client
from stratalog.wire.errors import KafkaError
from stratalog.wire.messages.describe_log_dirs import DescribeLogDirsRequest

__all__ = ["FULL_BELOW_BYTES", "FullDisk", "full_disks"]

FULL_BELOW_BYTES: Final = 1 << 20
"""A batch may be as large by default: with less room appends are refused now or in a moment."""


class FullDisk(NamedTuple):
    """A log directory, and the bytes that are left on its disk."""

    broker: int
    directory: str
    usable_bytes: int


def full_disks(client: Client, brokers: Iterable[int]) -> list[FullDisk]:
    """Those of these brokers. A broker that does not answer, or does not tell the bytes, is no error."""
    if not client.serves(DescribeLogDirsRequest):
        return []
    found = []
    for broker in brokers:
        if broker not in client.brokers:
            continue
        try:
            client.reach(broker)
            answer = client.call(DescribeLogDirsRequest(topics=[]), broker)
        except (BrokerAway, KafkaError):
            continue
        found += [
            FullDisk(broker, one.log_dir, one.usable_bytes)
            for one in answer.results
            if not one.error_code and 0 <= one.usable_bytes < FULL_BELOW_BYTES
        ]
    return found
