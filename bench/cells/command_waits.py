"""How long short commands to the controller take while other clients send long ones all the time.

The long ones create, delete or only validate thousands of topics in each request. The short ones, from one more client,
create a topic and change a setting of it.
"""

from __future__ import annotations

import statistics
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

from bench.cell import Cell, Line
from bench.outcome import Bound, Outcome
from bench.settings import Settings
from bench.worst.worst import ELEMENTS
from stratalog.broker.embedded import EmbeddedBroker, LoopThread
from stratalog.client.link import BrokerLink, check
from stratalog.wire.frame import encode_request
from stratalog.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from stratalog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from stratalog.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from stratalog.wire.parts import FileSlice
from stratalog.wire.schema import Message, encode

__all__ = ["CELL", "absent_topics", "short_waits_ms", "validated_topics"]

_CLIENTS: Final = 8
_SHORT_COUNT: Final = 20
_TIMEOUT_SECONDS: Final = 300.0
_TOPIC: Final = 2

_LINE = Line("command-wait", "ms, worst short command beside 8 clients with long ones", Bound("<=", 500))


def validated_topics(client: int, count: int) -> Message:
    """A command that asks whether so many topics could be created."""
    return CreateTopicsRequest(topics=[_topic(f"new-{client}-{number}") for number in range(count)], validate_only=True)


def absent_topics(client: int, count: int) -> Message:
    """A command that deletes so many topics which do not exist."""
    topics = [DeleteTopicState(name=f"absent-{client}-{number}", topic_id=bytes(16)) for number in range(count)]
    return DeleteTopicsRequest(topics=topics, topic_names=[], timeout_ms=1000)


def short_waits_ms(
    port: int, clients: int, long: Callable[[int, int], Message], *, size: int = ELEMENTS, count: int = _SHORT_COUNT
) -> tuple[list[float], int]:
    """Send ``count`` short commands beside ``clients`` with ``long`` ones. Returns their times, and the long ones done."""
    stop = threading.Event()
    done: list[int] = []
    threads = [
        threading.Thread(target=_send, args=(port, _frame(long(client, size)), stop, done)) for client in range(clients)
    ]
    with BrokerLink("127.0.0.1", port, timeout_seconds=_TIMEOUT_SECONDS) as link:
        link.api_ranges()
        for thread in threads:
            thread.start()
        try:
            time.sleep(0.5)  # the long ones are under way
            waits = [
                _timed(link, request)
                for number in range(count // 2)
                for request in _short(f"short-{long.__name__}-{number}")
            ]
        finally:
            stop.set()
            for thread in threads:
                thread.join()
    return waits, len(done)


def _topic(name: str) -> CreatableTopic:
    return CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[])


def _short(name: str) -> Sequence[Message]:
    change = AlterableConfig(name="retention.ms", config_operation=0, value="1000")
    resource = AlterConfigsResource(resource_type=_TOPIC, resource_name=name, configs=[change])
    return CreateTopicsRequest(topics=[_topic(name)]), IncrementalAlterConfigsRequest(
        resources=[resource], validate_only=False
    )


def _timed(link: BrokerLink, request: Message) -> float:
    begun = time.perf_counter()
    answer = link.call(request)
    waited = (time.perf_counter() - begun) * 1e3
    for each in answer.topics if isinstance(request, CreateTopicsRequest) else answer.responses:
        check(each.error_code)
    return waited


def _frame(request: Message) -> bytes:
    """The request as it is sent; encoded once, so that clients in this process take little of its time."""
    version = type(request).versions[1]
    parts = encode(request, version)
    flexible = version >= type(request).flexible_since
    frame = encode_request(type(request).api_key, version, 1, "long", parts, flexible=flexible)
    return b"".join(bytes(part) for part in frame if not isinstance(part, FileSlice))


def _send(port: int, frame: bytes, stop: threading.Event, done: list[int]) -> None:
    with BrokerLink("127.0.0.1", port, timeout_seconds=_TIMEOUT_SECONDS) as link:
        while not stop.is_set():
            link.send_raw(frame)
            done.append(len(link.receive_frame()))


def _measure(settings: Settings) -> list[Outcome]:
    thread = LoopThread()
    found: dict[str, float] = {}
    with settings.folder(settings.memory) as folder:
        broker = EmbeddedBroker(str(folder), thread).start()
        try:
            for name, long in (("validates", validated_topics), ("deletes-absent", absent_topics)):
                waits, done = short_waits_ms(broker.port, _CLIENTS, long)
                found[f"{name}-worst"], found[f"{name}-median"] = max(waits), statistics.median(waits)
                print(f"  {name}: {max(waits):.0f} ms worst, {done} long commands done", file=sys.stderr)
        finally:
            broker.discard()
            thread.close()
    outcome = _LINE.outcome(max(found.values()), **found)
    outcome.note = f"{_CLIENTS} clients, {ELEMENTS:,} topics in each of their commands"
    return [outcome]


CELL = Cell(_LINE.cell, (_LINE,), _measure)
"""Short commands beside long ones."""
