"""A whole broker inside another process: on an event loop in a thread, on free ports, with its bucket in memory.

For tests. It is the broker that ``stratalog serve`` runs, with settings that suit a short life: nothing waits for the
disk but the metadata log, groups do not wait for more members, internal topics have one partition.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import threading
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, Final, TypeVar

from stratalog.broker.node import Node
from stratalog.broker.runtime.event_loop import BrokerLoop
from stratalog.broker.settings.config import Flags, load_config
from stratalog.client.admin import CreatedTopic, create_topic
from stratalog.client.client import Client
from stratalog.tier.stores.faulty_store import FaultRule, FaultyStore
from stratalog.tier.stores.memory_store import MemoryStore
from stratalog.tier.stores.opening import provide_store, withdraw_store

__all__ = ["SETTINGS", "EmbeddedBroker", "LoopThread"]

T = TypeVar("T")

WAIT_SECONDS: Final = 30
_HOST: Final = "127.0.0.1"
_numbers: Final = itertools.count()

SETTINGS: Final[Mapping[str, str]] = {
    "group.initial.rebalance.delay.ms": "0",
    "log.flush.interval.messages": str((1 << 63) - 1),
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "stratalog.ballast.bytes": "0",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
}
"""Where a broker for tests differs from one that serves."""


class LoopThread:
    """An event loop in a thread of its own; several brokers may live on it, one after the other or side by side."""

    def __init__(self) -> None:
        self.loop = BrokerLoop()
        """The code that runs on it belongs to its thread."""
        self._thread = threading.Thread(target=self.loop.run_forever, name="stratalog", daemon=True)
        self._thread.start()

    def run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Carry ``work`` out on the loop and wait for what it returns or raises."""
        return asyncio.run_coroutine_threadsafe(work(), self.loop).result(WAIT_SECONDS)

    def close(self) -> None:
        """End the loop and the thread; what still runs on it is cancelled."""
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(WAIT_SECONDS)
        tasks = asyncio.all_tasks(self.loop)
        for task in tasks:
            task.cancel()
        if tasks:
            self.loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()


class EmbeddedBroker:
    """One broker with its files below ``directory``. ``settings`` go before `SETTINGS`."""

    def __init__(self, directory: str, thread: LoopThread, settings: Mapping[str, object] | None = None) -> None:
        self.directory = directory
        self._thread = thread
        self._settings = {**SETTINGS, **{name: str(value) for name, value in (settings or {}).items()}}
        self._node: Node | None = None
        self._listen = f"{_HOST}:0"
        self._bucket = f"memory:embedded-{os.getpid()}-{next(_numbers)}"
        self.store = FaultyStore(MemoryStore(self._bucket))
        """The bucket; what tiered topics archive is here."""

    def start(self) -> EmbeddedBroker:
        """Start, or after a :meth:`stop` start again on the same port and files. Raises what `Node.start` raises."""
        provide_store(self._bucket, self.store)
        config = load_config(
            assignments=[f"{name}={value}" for name, value in self._settings.items()],
            environment={},
            flags=Flags(data=f"{self.directory}/data", bucket=self._bucket, listen=self._listen, http=f"{_HOST}:0"),
            host_name="localhost",
        )

        async def start() -> Node:
            node = Node(config)
            await node.start()
            return node

        self._node = self._thread.run(start)
        self._listen = self.bootstrap_servers
        return self

    def stop(self) -> None:
        """Stop in order; a second call does nothing."""
        node, self._node = self._node, None
        if node is not None:
            self._thread.run(node.stop)

    def restart(self) -> None:
        """Stop and start: clients find it again where it was."""
        self.stop()
        self.start()

    def discard(self) -> None:
        """Stop for good and let go of the bucket."""
        self.stop()
        withdraw_store(self._bucket)

    @property
    def node(self) -> Node:
        """The running broker itself, for white-box tests; its methods belong to its loop. Raises `RuntimeError`."""
        if self._node is None:
            raise RuntimeError("this broker is stopped")
        return self._node

    @property
    def port(self) -> int:
        """Where clients connect, on 127.0.0.1."""
        return self.node.kafka_address[1]

    @property
    def bootstrap_servers(self) -> str:
        """``HOST:PORT`` for clients."""
        return f"{_HOST}:{self.port}"

    @property
    def http_url(self) -> str:
        """Where ``/metrics`` and ``/tier/status`` are."""
        host, port = self.node.http_address
        return f"http://{host}:{port}"

    def create_topic(self, name: str, partitions: int = 1, **configs: object) -> CreatedTopic:
        """Create a topic; ``segment_bytes=1048576`` stands for ``segment.bytes``. Raises `KafkaError`."""
        named = {key.replace("_", "."): str(value) for key, value in configs.items()}
        with Client(self.bootstrap_servers) as client:
            return create_topic(client, name, partition_count=partitions, configs=named)

    def fail_store(self, *rules: FaultRule) -> None:
        """From now on requests to the bucket fail as the rules say; without rules they succeed again."""
        self.store.set_rules(rules)

    def archived_keys(self) -> Iterable[str]:
        """The keys of all objects in the bucket."""
        return [each.key for each in self.store.inner.list("")]
