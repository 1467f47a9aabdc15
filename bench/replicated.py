"""Topics with replicas on a cluster: how they are made, who leads them, and when all replicas are in sync."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from stratalog.client.admin import create_topic, delete_topics
from stratalog.client.client import BrokerAway, Client, Partition
from stratalog.wire.errors import KafkaError

__all__ = ["REPLICAS", "REPLICATED", "Replicated", "await_true"]

REPLICAS: Final = 3
REPLICATED: Final[Mapping[str, str]] = {"min.insync.replicas": "2"}
"""The settings of every topic here."""

_ASK_SECONDS: Final = 3.0
_LOOK_SECONDS: Final = 0.05


class Replicated:
    """The replicated topics of one cluster, through any of its brokers."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def create(self, name: str, partition_count: int = 1, **configs: str) -> None:
        """A topic of three replicas, all in sync when this returns; ``flush_messages="1"`` sets ``flush.messages``."""
        settings = {**REPLICATED, **{key.replace("_", "."): value for key, value in configs.items()}}
        with Client(self.bootstrap, timeout_seconds=60.0) as client:
            create_topic(client, name, partition_count=partition_count, replication_factor=REPLICAS, configs=settings)
        await_true(lambda: self.in_sync(name) == partition_count, f"{name} is in sync")

    def delete(self, *names: str) -> None:
        """Delete topics."""
        with Client(self.bootstrap, timeout_seconds=60.0) as client:
            delete_topics(client, names)

    def partitions(self, name: str, *, asked: str | None = None) -> Sequence[Partition]:
        """The partitions of a topic as a broker sees them now; none if it does not answer."""
        try:
            with Client(asked or self.bootstrap, timeout_seconds=_ASK_SECONDS) as client:
                client.refresh([name])
                return client.topic(name).partitions
        except (BrokerAway, KafkaError, OSError):
            return ()

    def in_sync(self, *names: str) -> int:
        """How many partitions are led and have all replicas in sync."""
        return sum(
            one.leader >= 0 and len(one.in_sync) == len(one.replicas) for name in names for one in self.partitions(name)
        )

    def leaders(self, names: Iterable[str], *, asked: str | None = None) -> Counter[int]:
        """How many partitions each broker leads; under -1 those without a leader."""
        return Counter(one.leader for name in names for one in self.partitions(name, asked=asked))

    def leader(self, name: str) -> int:
        """The leader of partition 0."""
        return self.partitions(name)[0].leader


def await_true(holds: Callable[[], bool], what: str, seconds: float = 120.0) -> float:
    """Look until ``holds``; how long that took. Raises ``SystemExit`` if it takes longer than ``seconds``."""
    began = time.monotonic()
    while not holds():
        if time.monotonic() - began > seconds:
            raise SystemExit(f"after {seconds:g} s it is not so that {what}")
        time.sleep(_LOOK_SECONDS)
    return time.monotonic() - began
