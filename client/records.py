"""Records through the client: batches to partition leaders, and back what a consumer may see.

Keys are placed by Kafka's default partitioner; records without key or partition go to the partitions in turn, one
batch each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import heapify, heappop
from typing import Final, NamedTuple

from msgspec import Struct, field

from stratalog.client.batch_pieces import BatchPieces
from stratalog.client.client import Client, by_topic
from stratalog.client.coordinators import while_coordinators_move
from stratalog.client.link import check, code_words
from stratalog.client.moving import LEADERSHIP_MOVES, check_led, lags
from stratalog.wire.batch import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    BatchHeader,
    Header,
    Record,
    build_batch,
    check_batch,
    iter_headers,
    iter_records,
    read_header,
)
from stratalog.wire.compression import Codec
from stratalog.wire.errors import Corrupt, ErrorCode, KafkaError
from stratalog.wire.messages.fetch import AbortedTransaction, FetchPartition, FetchRequest, FetchTopic, PartitionData
from stratalog.wire.messages.init_producer_id import InitProducerIdRequest
from stratalog.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from stratalog.wire.partitioner import partition_of_key
from stratalog.wire.topic import TopicPartition

__all__ = ["Delivered", "Fetched", "NewRecord", "Producer", "fetch", "produce_batches", "visible_records"]

_PIECE_RECORDS: Final = 10_000
_SEQUENCES: Final = 1 << 31
"""A sequence is below it; behind the highest one comes 0."""
_ALL: Final = -1
ABORT_MARKER: Final = 0
_PERHAPS_APPENDED: Final = frozenset(
    {
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
"""A leader answers with one of these before it appends a batch, and for a batch in its log that waits for other replicas."""


class NewRecord(NamedTuple):
    """A record that is still to be given an offset; without `partition` its key decides."""

    value: bytes | None
    timestamp_ms: int
    key: bytes | None = None
    headers: tuple[Header, ...] = ()
    partition: int | None = None


class Delivered(NamedTuple):
    """Where a record stands in the log; offset -1 with acks=0, timestamp that of the broker if the topic asks for it."""

    topic_partition: TopicPartition
    offset: int
    timestamp_ms: int


class _Identity(NamedTuple):
    """The producer id and epoch that a broker knows a repeated batch by, beside its sequence."""

    producer_id: int
    epoch: int


_NOBODY: Final = _Identity(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)


class Producer(Struct):
    """Sends records to one topic, waiting for each answer. No record is appended twice.

    An idempotent one asks for a producer id, so that a batch in doubt can be sent again: a leader that has it says so.
    Without an id, also where the broker gives none, a batch that may be in the log is not sent again.
    """

    client: Client
    topic: str
    acks: int = _ALL
    codec: Codec = Codec.NONE
    timeout_ms: int = 30_000
    idempotent: bool = False
    """It matters with acks=all alone: otherwise a leader refuses before it appends."""
    _turn: int = field(default=0)
    _identity: _Identity | None = field(default=None)
    _sequences: dict[int, int] = field(default_factory=dict)

    def send(self, records: Sequence[NewRecord]) -> list[Delivered]:
        """Append records and tell where each one is, in the order given.

        Raises `KafkaError` of the first batch that was refused; records of other partitions, and those before it, may be in
        the log. The offset is -1 where the leader says only that it has the batch.
        """
        identity, self._identity = self._identity or self._new_identity(), None
        groups: dict[int, list[int]] = {}
        keyless = self._next_partition()
        for index, record in enumerate(records):
            groups.setdefault(self._partition(record, keyless), []).append(index)
        delivered: list[Delivered | None] = [None] * len(records)
        pieces = BatchPieces(records, groups)
        while heads := pieces.heads():
            batches = {
                TopicPartition(self.topic, partition): self._batch(
                    partition, [records[index] for index in indexes], identity
                )
                for partition, indexes in heads.items()
            }
            answers = produce_batches(self.client, batches, acks=self.acks, timeout_ms=self.timeout_ms)
            for partition, indexes in heads.items():
                answer = answers[TopicPartition(self.topic, partition)]
                if answer.error_code == ErrorCode.MESSAGE_TOO_LARGE and pieces.halve(partition):
                    continue
                for index, one in zip(indexes, self._delivered(partition, indexes, records, answer), strict=True):
                    delivered[index] = one
                pieces.taken(partition)
                self._sequences[partition] = (self._sequences.get(partition, 0) + len(indexes)) % _SEQUENCES
        self._identity = identity  # another one after an error: a refused batch may have used its sequences up
        return [one for one in delivered if one is not None]

    def _delivered(
        self, partition: int, indexes: Sequence[int], records: Sequence[NewRecord], answer: PartitionProduceResponse
    ) -> Iterator[Delivered]:
        """Where each record of a batch stands. Raises `KafkaError` for one that was refused."""
        topic_partition = TopicPartition(self.topic, partition)
        _check_produced(topic_partition, answer, self.acks)
        time_ms = answer.log_append_time_ms
        for place, index in enumerate(indexes):
            offset = answer.base_offset + place if answer.base_offset >= 0 else -1
            yield Delivered(topic_partition, offset, time_ms if time_ms >= 0 else records[index].timestamp_ms)

    def _new_identity(self) -> _Identity:
        self._sequences.clear()
        if not self.idempotent or self.acks != _ALL:
            return _NOBODY
        try:
            return while_coordinators_move(self.client, self._ask_identity)
        except KafkaError:
            return _NOBODY  # no right to an id, or a broker that has none: records may be written all the same

    def _ask_identity(self) -> _Identity:
        answer = self.client.call(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=self.timeout_ms))
        check(answer.error_code)
        return _Identity(answer.producer_id, answer.producer_epoch)

    def _batch(self, partition: int, records: Sequence[NewRecord], identity: _Identity) -> bytearray:
        return build_batch(
            [Record(place, one.timestamp_ms, one.key, one.value, one.headers) for place, one in enumerate(records)],
            codec=self.codec,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            base_sequence=NO_SEQUENCE if identity is _NOBODY else self._sequences.get(partition, 0),
        )

    def _next_partition(self) -> int:
        self._turn += 1
        return (self._turn - 1) % len(self.client.topic(self.topic).partitions)

    def _partition(self, record: NewRecord, keyless: int) -> int:
        if record.partition is not None:
            return record.partition
        if record.key is None:
            return keyless
        return partition_of_key(record.key, len(self.client.topic(self.topic).partitions))


def _check_produced(topic_partition: TopicPartition, answer: PartitionProduceResponse, acks: int) -> None:
    if answer.error_code not in (0, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
        words = (answer.error_message or code_words(answer.error_code)).rstrip(".")
        named = words if str(topic_partition) in words else f"{topic_partition}: {words}"
        in_doubt = acks == _ALL and answer.error_code in _PERHAPS_APPENDED
        outcome = (
            "this batch may have been appended; look before sending it again"
            if in_doubt
            else ("nothing of this batch was appended")
        )
        check_led(answer.error_code, f"{named}; {outcome}")


def produce_batches(
    client: Client, batches: Mapping[TopicPartition, bytes | bytearray], *, acks: int, timeout_ms: int = 30_000
) -> dict[TopicPartition, PartitionProduceResponse]:
    """Send whole record batches to the leaders of their partitions and return each partition's answer.

    With acks=0 brokers do not answer: the answers are made here, with base offset -1. Batches that were refused because
    the leadership moves, or by a leader that has not heard of the topic, are sent again, unless they may be in a log under
    no producer id; raises the `KafkaError` of the refusal if that goes on for too long.
    """
    answers: dict[TopicPartition, PartitionProduceResponse] = {}

    def moves(one: TopicPartition) -> bool:
        code = answers[one].error_code
        in_doubt = (
            acks == _ALL and code in _PERHAPS_APPENDED and read_header(batches[one]).producer_id == NO_PRODUCER_ID
        )
        return lags(code) or (code in LEADERSHIP_MOVES and not in_doubt)

    def attempt() -> None:
        waiting = {one: batches[one] for one in batches if one not in answers or moves(one)}
        answers.update(_produce_once(client, waiting, acks, timeout_ms))
        for one in filter(moves, waiting):
            _check_produced(one, answers[one], acks)

    client.while_leaders_move({one.topic for one in batches}, attempt)
    return answers


def _produce_once(
    client: Client, batches: Mapping[TopicPartition, bytes | bytearray], acks: int, timeout_ms: int
) -> dict[TopicPartition, PartitionProduceResponse]:
    answers: dict[TopicPartition, PartitionProduceResponse] = {}
    for node_id, partitions in client.in_requests(batches):
        topics = by_topic(partitions)
        request = ProduceRequest(
            acks=acks,
            timeout_ms=timeout_ms,
            topic_data=[
                TopicProduceData(
                    name=name,
                    topic_id=client.topic(name).topic_id,
                    partition_data=[
                        PartitionProduceData(index=one.partition, records=memoryview(batches[one])) for one in group
                    ],
                )
                for name, group in topics.items()
            ],
        )
        if acks == 0:
            client.send_unanswered(request, node_id)
            for one in partitions:
                answers[one] = PartitionProduceResponse(index=one.partition, base_offset=-1)
            continue
        response: ProduceResponse = client.call(request, node_id)
        names = {client.topic(name).topic_id: name for name in topics}
        for topic in response.responses:
            for answer in topic.partition_responses:
                answers[TopicPartition(topic.name or names[topic.topic_id], answer.index)] = answer
    return answers


class Fetched(NamedTuple):
    """The part of one fetch that belongs to one partition; `data` holds whole record batches."""

    topic_partition: TopicPartition
    high_watermark: int
    log_start_offset: int
    last_stable_offset: int
    data: memoryview
    aborted: tuple[AbortedTransaction, ...]


def fetch(
    client: Client,
    positions: Mapping[TopicPartition, int],
    *,
    max_wait_ms: int = 500,
    min_bytes: int = 1,
    max_bytes: int = 50 << 20,
    partition_max_bytes: int = 1 << 20,
    read_committed: bool = True,
) -> list[Fetched]:
    """One fetch from the leader of each partition at its position.

    Raises `KafkaError` of the first partition that cannot be read, for example OFFSET_OUT_OF_RANGE.
    """
    names = {one.topic for one in positions}
    wanted = _Wanted(max_wait_ms, min_bytes, max_bytes, partition_max_bytes, read_committed)
    return client.while_brokers_return(names, lambda: _fetch_once(client, positions, wanted))


class _Wanted(NamedTuple):
    """How much a fetch brings, and of what."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    partition_max_bytes: int
    read_committed: bool


def _fetch_once(client: Client, positions: Mapping[TopicPartition, int], wanted: _Wanted) -> list[Fetched]:
    fetched: list[Fetched] = []
    requests = list(client.in_requests(positions))
    size_bytes = 0
    left_bytes = {node_id: wanted.max_bytes for node_id, _ in requests}
    for at, (node_id, partitions) in enumerate(requests, 1):
        topics = by_topic(partitions)
        # The last request to a node waits for all of them, unless there is something already.
        waits = size_bytes < wanted.min_bytes and (at == len(requests) or requests[at][0] != node_id)
        request = FetchRequest(
            max_wait_ms=wanted.max_wait_ms if waits else 0,
            min_bytes=wanted.min_bytes,
            max_bytes=max(left_bytes[node_id], 1),
            isolation_level=int(wanted.read_committed),
            topics=[
                FetchTopic(
                    topic=name,
                    topic_id=client.topic(name).topic_id,
                    partitions=[
                        FetchPartition(
                            partition=one.partition,
                            fetch_offset=positions[one],
                            partition_max_bytes=wanted.partition_max_bytes,
                        )
                        for one in group
                    ],
                )
                for name, group in topics.items()
            ],
        )
        response = client.call(request, node_id)
        check(response.error_code, f"fetch from node {node_id}: {code_words(response.error_code)}")
        names = {client.topic(name).topic_id: name for name in topics}
        for topic in response.responses:
            name = topic.topic or names[topic.topic_id]
            those = [_fetched(TopicPartition(name, one.partition_index), one, positions) for one in topic.partitions]
            found_bytes = sum(len(one.data) for one in those)
            size_bytes += found_bytes
            left_bytes[node_id] -= found_bytes
            fetched += those
    return fetched


def _fetched(
    topic_partition: TopicPartition, answer: PartitionData, positions: Mapping[TopicPartition, int]
) -> Fetched:
    if answer.error_code:
        words = code_words(answer.error_code)
        if answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            words += f"; the log starts at {answer.log_start_offset} and its high watermark is {answer.high_watermark}"
        raise KafkaError(
            ErrorCode(answer.error_code), f"{topic_partition} at offset {positions[topic_partition]}: {words}"
        )
    records = answer.records
    data = records if isinstance(records, memoryview) else memoryview(b"")
    return Fetched(
        topic_partition,
        answer.high_watermark,
        answer.log_start_offset,
        answer.last_stable_offset,
        data,
        tuple(answer.aborted_transactions or ()),
    )


def visible_records(
    fetched: Fetched, position: int, *, read_committed: bool = True
) -> Iterator[tuple[int, Sequence[Record]]]:
    """Batch by batch: the offset to go on from and the records at or behind `position` that a consumer may see.

    Markers are never seen, records of aborted transactions only without `read_committed` (KIP-98). A batch that
    ends the answer half-way is left for the next fetch; one of very many records comes in pieces of 10,000, for two
    kilobytes may hold millions. Raises `Corrupt`, naming partition and offset.
    """
    try:
        yield from _visible(fetched, position, read_committed=read_committed)
    except Corrupt as error:
        raise Corrupt(f"{fetched.topic_partition}: {error}") from error


def _visible(fetched: Fetched, position: int, *, read_committed: bool) -> Iterator[tuple[int, Sequence[Record]]]:
    waiting = [(one.first_offset, one.producer_id) for one in fetched.aborted] if read_committed else []
    heapify(waiting)
    aborted: set[int] = set()
    for at, header in iter_headers(fetched.data):
        check_batch(fetched.data, at)
        while waiting and waiting[0][0] <= header.last_offset:
            aborted.add(heappop(waiting)[1])
        if header.is_control:
            if _is_abort(fetched.data, at):
                aborted.discard(header.producer_id)
            yield header.next_offset, ()
        elif _hidden(header, aborted):
            yield header.next_offset, ()
        else:
            yield from _pieces(iter_records(fetched.data, at), position, header.next_offset)


def _hidden(header: BatchHeader, aborted: set[int]) -> bool:
    return header.is_transactional and header.producer_id in aborted


def _is_abort(data: memoryview, at: int) -> bool:
    marker = next(iter_records(data, at))
    return marker.key is not None and int.from_bytes(marker.key[2:4], "big") == ABORT_MARKER


def _pieces(records: Iterable[Record], position: int, next_offset: int) -> Iterator[tuple[int, Sequence[Record]]]:
    piece: list[Record] = []
    for record in records:
        if record.offset >= position:
            if len(piece) == _PIECE_RECORDS:
                yield record.offset, piece
                piece = []
            piece.append(record)
    yield next_offset, piece
