"""A small blocking client of brokers: what a read asks for what is not archived yet. Nothing but reading.

Versions are fixed ones that every Kafka since 3.0 serves. What a broker refuses because leadership moves is asked again
with fresh metadata, within `TIMEOUT_SECONDS`.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, Final, NamedTuple, Self, TypeVar

from stratalog.wire.errors import ErrorCode, Invalid, KafkaError, Retriable
from stratalog.wire.frame import decode_response_header, encode_request
from stratalog.wire.messages.fetch import (
    AbortedTransaction,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from stratalog.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from stratalog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from stratalog.wire.parts import FileSlice
from stratalog.wire.schema import Message, decode, encode
from stratalog.wire.topic import TopicPartition, Uuid

__all__ = ["EARLIEST_OFFSET", "LATEST_OFFSET", "TIMEOUT_SECONDS", "BrokerAway", "Fetched", "KafkaClient"]

TIMEOUT_SECONDS: Final = 30.0
EARLIEST_OFFSET: Final = -2
LATEST_OFFSET: Final = -1
"""Times in ListOffsets that stand for an end of the log; under read_committed the latest is the last stable offset."""

_METADATA_VERSION: Final = 12
_LIST_OFFSETS_VERSION: Final = 7
_FETCH_VERSION: Final = 12
_FRAME_BYTES_MAX: Final = 1 << 30
_PAUSE_SECONDS: Final = 0.1
_PORT: Final = 9092
_MOVES: Final = frozenset(
    {
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.REPLICA_NOT_AVAILABLE,
    }
)

_R = TypeVar("_R")


class BrokerAway(Retriable):
    """No broker answered."""


class Fetched(NamedTuple):
    """One answer: whole record batches and perhaps a part of one more, and the aborted transactions that overlap it."""

    data: bytes
    aborted: tuple[AbortedTransaction, ...]


class _Topic(NamedTuple):
    topic_id: Uuid
    leaders: dict[int, int]


class _Link:
    """One connection; requests and answers in turn."""

    def __init__(self, host: str, port: int) -> None:
        self._name = f"broker {host}:{port}"
        self._correlation_id = 0
        try:
            self._socket = socket.create_connection((host, port), timeout=TIMEOUT_SECONDS)
        except OSError as error:
            raise BrokerAway(f"{self._name}: {error.strerror or error}") from error
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def close(self) -> None:
        self._socket.close()

    def call(self, request: Message, answer: type[Message], version: int) -> Any:
        """Send a request and wait for its answer. Raises `BrokerAway`; the connection is of no use then."""
        self._correlation_id += 1
        kind = type(request)
        parts = encode(request, version)
        flexible = version >= kind.flexible_since
        frame = encode_request(kind.api_key, version, self._correlation_id, "stratalog-spark", parts, flexible=flexible)
        try:
            self._socket.sendall(b"".join(part for part in frame if not isinstance(part, FileSlice)))
            received = self._receive(int.from_bytes(self._receive(4), "big", signed=True))
        except OSError as error:
            raise BrokerAway(f"{self._name}: {error.strerror or error}") from error
        answered, position = decode_response_header(received, flexible=version >= answer.flexible_since)
        if answered != self._correlation_id:
            raise BrokerAway(f"{self._name}: answer {answered} came where {self._correlation_id} was due")
        return decode(answer, version, received, position)

    def _receive(self, length: int) -> memoryview:
        if not 0 < length <= _FRAME_BYTES_MAX:
            raise BrokerAway(f"{self._name}: a frame of {length} bytes; is this a Kafka port?")
        view = memoryview(bytearray(length))
        position = 0
        while position < length:
            count = self._socket.recv_into(view[position:])
            if not count:
                raise BrokerAway(f"{self._name}: the broker closed the connection")
            position += count
        return view


class KafkaClient:
    """A cluster, reached through any one of the brokers in ``bootstrap``: ``HOST:PORT``, separated by commas."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = [_address(text) for text in bootstrap.split(",") if text.strip()]
        if not self._bootstrap:
            raise Invalid("option 'kafka.bootstrap.servers' names no broker")
        self._brokers: dict[int, tuple[str, int]] = {}
        self._topics: dict[str, _Topic] = {}
        self._links: dict[tuple[str, int], _Link] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        for link in self._links.values():
            link.close()
        self._links.clear()

    def topics(self, names: Iterable[str] | None = None) -> dict[str, tuple[Uuid, list[int]]]:
        """The id and the partitions of those of these topics that the cluster has, of all without ``names``.

        Raises `BrokerAway` and `KafkaError`.
        """
        asked = None if names is None else [MetadataRequestTopic(name=name) for name in names]
        request = MetadataRequest(topics=asked, allow_auto_topic_creation=False)
        answer = self._ask_any(request, MetadataResponse, _METADATA_VERSION)
        self._brokers = {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}
        found = {}
        for topic in answer.topics:
            if topic.error_code in {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION}:
                continue
            if topic.error_code:
                raise KafkaError(ErrorCode(topic.error_code), f"topic {topic.name}")
            if topic.is_internal:
                continue
            leaders = {one.partition_index: one.leader_id for one in topic.partitions}
            self._topics[topic.name] = _Topic(topic.topic_id, leaders)
            found[topic.name] = (topic.topic_id, sorted(leaders))
        return found

    def list_offsets(
        self, times_ms: Mapping[TopicPartition, int], *, read_committed: bool
    ) -> dict[TopicPartition, int]:
        """For each partition the offset of the first record of a time or later, -1 if there is none; or an end.

        Raises `BrokerAway` and `KafkaError`.
        """
        return self._while_leaders_move(times_ms, lambda: self._list_offsets(times_ms, read_committed))

    def _list_offsets(self, times_ms: Mapping[TopicPartition, int], read_committed: bool) -> dict[TopicPartition, int]:
        by_leader: dict[int, dict[str, list[ListOffsetsPartition]]] = {}
        for partition, time_ms in times_ms.items():
            topics = by_leader.setdefault(self._leader(partition), {})
            wanted = ListOffsetsPartition(partition_index=partition.partition, timestamp=time_ms)
            topics.setdefault(partition.topic, []).append(wanted)
        found = {}
        for leader, topics in by_leader.items():
            request = ListOffsetsRequest(
                replica_id=-1,
                isolation_level=int(read_committed),
                topics=[ListOffsetsTopic(name=name, partitions=each) for name, each in topics.items()],
            )
            for topic in self._ask(leader, request, ListOffsetsResponse, _LIST_OFFSETS_VERSION).topics:
                for one in topic.partitions:
                    partition = TopicPartition(topic.name, one.partition_index)
                    _check(one.error_code, f"{partition}: its offsets are not told")
                    found[partition] = one.offset
        return found

    def fetch(
        self, partition: TopicPartition, offset: int, *, read_committed: bool, max_bytes: int, max_wait_ms: int
    ) -> Fetched:
        """The batches from the one that holds ``offset`` on; under read_committed up to the last stable offset.

        Raises `BrokerAway`, and `KafkaError` OFFSET_OUT_OF_RANGE for an offset that the log does not hold any more.
        """
        return self._while_leaders_move(
            [partition], lambda: self._fetch(partition, offset, read_committed, max_bytes, max_wait_ms)
        )

    def _fetch(
        self, partition: TopicPartition, offset: int, read_committed: bool, max_bytes: int, max_wait_ms: int
    ) -> Fetched:
        wanted = FetchPartition(partition=partition.partition, fetch_offset=offset, partition_max_bytes=max_bytes)
        request = FetchRequest(
            replica_id=-1,
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=max_bytes,
            isolation_level=int(read_committed),
            topics=[FetchTopic(topic=partition.topic, partitions=[wanted])],
            forgotten_topics_data=[],
        )
        answer = self._ask(self._leader(partition), request, FetchResponse, _FETCH_VERSION)
        _check(answer.error_code, f"{partition} at offset {offset}")
        one = answer.responses[0].partitions[0]
        _check(one.error_code, f"{partition} at offset {offset}")
        return Fetched(bytes(one.records or b""), tuple(one.aborted_transactions or ()))

    def _leader(self, partition: TopicPartition) -> int:
        if partition.topic not in self._topics:
            self.topics([partition.topic])
        topic = self._topics.get(partition.topic)
        if topic is None or partition.partition not in topic.leaders:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{partition}: the cluster has no such partition")
        leader = topic.leaders[partition.partition]
        if leader not in self._brokers:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{partition} has no leader now")
        return leader

    def _while_leaders_move(self, partitions: Iterable[TopicPartition], attempt: Callable[[], _R]) -> _R:
        names = {partition.topic for partition in partitions}
        deadline = time.monotonic() + TIMEOUT_SECONDS  # noqa: TID251 - this client is an edge
        moved = False
        while True:
            try:
                if moved:
                    self.topics(names)
                return attempt()
            except KafkaError as error:
                if error.code not in _MOVES or time.monotonic() >= deadline:  # noqa: TID251
                    raise
            except BrokerAway:
                if time.monotonic() >= deadline:  # noqa: TID251
                    raise
            moved = True
            time.sleep(_PAUSE_SECONDS)

    def _ask_any(self, request: Message, answer: type[Message], version: int) -> Any:
        away: BrokerAway | None = None
        for address in [*self._brokers.values(), *self._bootstrap]:
            try:
                return self._call(address, request, answer, version)
            except BrokerAway as error:
                away = error
        raise away or BrokerAway("there is no broker to ask")

    def _ask(self, node_id: int, request: Message, answer: type[Message], version: int) -> Any:
        return self._call(self._brokers[node_id], request, answer, version)

    def _call(self, address: tuple[str, int], request: Message, answer: type[Message], version: int) -> Any:
        link = self._links.get(address)
        if link is None:
            link = self._links[address] = _Link(*address)
        try:
            return link.call(request, answer, version)
        except BrokerAway:
            self._links.pop(address).close()
            raise


def _check(code: int, what: str) -> None:
    if code:
        raise KafkaError(ErrorCode(code), what)


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.strip().rpartition(":")
    if not colon:
        return text.strip(), _PORT
    if not port.isdecimal() or not host:
        raise Invalid(f"option 'kafka.bootstrap.servers' must be like HOST:PORT,HOST:PORT, got '{text}'")
    return host.strip("[]"), int(port)
