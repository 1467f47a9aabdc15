"""Reads records not archived yet from the brokers: offsets from where the archive ends.

The manifest that a query has read says where the archive of a partition ends; the tail begins with exactly that offset
and ends where the log ended when the query was planned, under read_committed at the last stable offset. Brokers serve
offsets below their local log from the archive themselves, so it does not matter what is uploaded in between.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from threading import Lock
from typing import Final, NamedTuple

import pyarrow as pa
from msgspec.structs import replace

from stratalog.client.client import EARLIEST_OFFSET, LATEST_OFFSET, BrokerUnavailable, Client
from stratalog.client.records import fetch
from stratalog.spark.rows.decode import AbortedTransactions, OnDamage, Window, decode_batches
from stratalog.spark.source.fetch import ReadRequest
from stratalog.spark.source.options import Subscription
from stratalog.spark.source.planner import DataLoss
from stratalog.spark.source.quarantine import BadRange, Quarantine
from stratalog.tier.planning.slices import PartitionArchive
from stratalog.wire.address import AddressError, parse_address
from stratalog.wire.batch import check_batch, iter_headers, iter_records
from stratalog.wire.errors import Corrupt, ErrorCode, Invalid, KafkaError, Retriable
from stratalog.wire.messages.fetch import AbortedTransaction
from stratalog.wire.topic import ZERO_UUID, TopicPartition, Uuid, uuid_text

__all__ = [
    "HotSlice",
    "HotTail",
    "LogSpan",
    "aborted_in",
    "group_hot",
    "no_answer",
    "open_client",
    "read_hot_slices",
]

_FETCH_BYTES: Final = 8 << 20
_WAIT_MS: Final = 500
_EMPTY_ANSWERS_MAX: Final = 20
"""With `_WAIT_MS` ten seconds: records that were there when the query was planned are always there."""
_PIECES_MAX: Final = 1000
"""Records of one partition: offsets may have holes that the driver does not know."""
_ABORT_MARKER: Final = 0
_NEVER: Final = (1 << 63) - 1
_PORT: Final = 9092

_logger = logging.getLogger("stratalog.spark")


class HotSlice(NamedTuple):
    """Offsets ``[start_offset, end_offset)`` of one partition that are read from its leader.

    ``topic_id`` is that of the topic which was planned; zeros where it is not known.
    """

    topic: str
    partition: int
    start_offset: int
    end_offset: int
    topic_id: Uuid = ZERO_UUID

    @property
    def topic_partition(self) -> TopicPartition:
        """Whose offsets these are."""
        return TopicPartition(self.topic, self.partition)


class LogSpan(NamedTuple):
    """The offsets ``[start_offset, end_offset)`` that brokers have of a partition, what they have archived included."""

    start_offset: int
    end_offset: int


def open_client(bootstrap: str) -> Client:
    """A client of the brokers ``HOST:PORT``, separated by commas, that waits for those that are away for a moment.

    Port 9092 where none is named. Connections open on first use, so only the text is checked here. Raises `Invalid`.
    """
    servers = [_server(text.strip()) for text in bootstrap.split(",") if text.strip()]
    if not servers:
        raise Invalid("option 'kafka.bootstrap.servers' names no broker")
    return Client(",".join(servers), client_id="stratalog-spark", waits_for_brokers=True)


def _server(text: str) -> str:
    host, colon, port = text.rpartition(":")
    if not colon:
        host, port = text, str(_PORT)
    host = host.strip("[]")
    server = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    try:
        parse_address(server, "option 'kafka.bootstrap.servers'")
    except AddressError as error:
        raise Invalid(f"option 'kafka.bootstrap.servers' must be like HOST:PORT,HOST:PORT, got '{text}'") from error
    if not host:
        raise Invalid(f"option 'kafka.bootstrap.servers' must name a host for each port, got '{text}'")
    return server


class HotTail:
    """Requests of the driver to the cluster for one query."""

    def __init__(self, client: Client, *, read_committed: bool) -> None:
        self._client = client
        self._read_committed = read_committed
        self._topics: Mapping[str, tuple[Uuid, list[int]]] = {}
        self._archived_ends: dict[TopicPartition, int] = {}
        self._lock = Lock()  # one connection, many partitions resolved at once

    def find(self, subscription: Subscription) -> set[TopicPartition]:
        """The partitions of the cluster that are subscribed to. Raises `BrokerAway` and `KafkaError`."""
        names = subscription.topics or tuple(subscription.assignment or ()) or None
        self._topics = {
            topic.name: (topic.topic_id, [each.partition for each in topic.partitions])
            for topic in self._client.refresh(names, skip_missing=True)
            if not topic.internal and subscription.wants_topic(topic.name)
        }
        assigned = subscription.assignment
        return {
            TopicPartition(name, number)
            for name, (_, numbers) in self._topics.items()
            for number in numbers
            if assigned is None or number in assigned[name]
        }

    def topic_id(self, topic: str) -> Uuid:
        """The id of a topic that `find` has found, as the cluster said then; zeros for another one."""
        return self._topics.get(topic, (ZERO_UUID, []))[0]

    def logs(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, LogSpan]:
        """Where the logs of these partitions start and end now. Raises `BrokerAway` and `KafkaError`."""
        there = sorted(partitions)
        ends = self._client.list_offsets(dict.fromkeys(there, LATEST_OFFSET), read_committed=self._read_committed)
        starts = self._client.list_offsets(dict.fromkeys(there, EARLIEST_OFFSET), read_committed=self._read_committed)
        return {each: LogSpan(starts[each].offset, max(starts[each].offset, ends[each].offset)) for each in there}

    def extend(
        self, archives: Sequence[PartitionArchive], logs: Mapping[TopicPartition, LogSpan]
    ) -> tuple[list[PartitionArchive], list[PartitionArchive]]:
        """The archives, with empty ones where only ``logs`` have anything; and the same as far as ``logs`` go.

        ``logs`` must be younger than the archives: then nothing lies between the two. Raises `Invalid` for a topic
        that is not the archived one.
        """
        archived = {archive.partition: archive for archive in archives}
        for archive in archives:
            self._check_same(archive)
        for partition, log in logs.items():
            known = archived.get(partition)
            if known is None or known.end_offset < log.start_offset:
                topic_id = self.topic_id(partition.topic) if known is None else known.topic_id
                archived[partition] = PartitionArchive(partition, log.start_offset, log.start_offset, (), topic_id)
        all_archives = [archived[partition] for partition in sorted(archived)]
        self._archived_ends = {each.partition: each.end_offset for each in all_archives}
        return all_archives, [
            replace(each, end_offset=max(each.end_offset, logs[each.partition].end_offset))
            if each.partition in logs
            else each
            for each in all_archives
        ]

    def _check_same(self, archive: PartitionArchive) -> None:
        topic_id, _ = self._topics.get(archive.partition.topic, (archive.topic_id, []))
        if ZERO_UUID not in {topic_id, archive.topic_id} and topic_id != archive.topic_id:
            raise Invalid(
                f"topic '{archive.partition.topic}' has the id {uuid_text(topic_id)} in the cluster and "
                f"{uuid_text(archive.topic_id)} in the archive: it was deleted and made again, or the brokers are those of "
                f"another cluster. To read only what is archived, set option 'hotTail' to 'false'"
            )

    def find_timestamp(self, log: PartitionArchive, timestamp_ms: int) -> int | None:
        """The first offset behind what is archived of ``log`` whose record is not older; None if there is none."""
        partition = log.partition
        if partition.topic not in self._topics:
            return None
        with self._lock:
            listed = self._client.list_offsets({partition: timestamp_ms}, read_committed=self._read_committed)
        found = listed[partition].offset
        if found < 0 or found >= log.end_offset:
            return None
        return max(found, self._archived_ends[partition])


def no_answer(bootstrap: str, error: Exception) -> Retriable:
    """The error that ends a query whose brokers did not answer, or refused."""
    why = str(error)
    return Retriable(
        f"the brokers {bootstrap} were asked for what is not archived yet: {why}{'' if why.endswith('?') else '.'} To read only what is archived, set "
        f"option 'hotTail' to 'false'"
    )


def group_hot(slices: Iterable[HotSlice], core_count: int, records_max: int | None) -> list[tuple[HotSlice, ...]]:
    """Tasks of about as many offsets, two for each core at most, unless ``records_max`` asks for smaller ones."""
    pieces: list[HotSlice] = []
    for each in slices:
        count = each.end_offset - each.start_offset
        step = max(records_max or count, -(-count // _PIECES_MAX))
        pieces += [
            each._replace(start_offset=start, end_offset=min(start + step, each.end_offset))
            for start in range(each.start_offset, each.end_offset, step)
        ]
    total = sum(each.end_offset - each.start_offset for each in pieces)
    share = records_max or -(-total // max(1, 2 * core_count))
    tasks: list[tuple[HotSlice, ...]] = []
    task: list[HotSlice] = []
    used = 0
    for each in pieces:
        count = each.end_offset - each.start_offset
        if task and used + count > share:
            tasks.append(tuple(task))
            task, used = [], 0
        task.append(each)
        used += count
    return [*tasks, tuple(task)] if task else tasks


def read_hot_slices(
    bootstrap: str, slices: Sequence[HotSlice], request: ReadRequest, quarantine: Quarantine | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of ``slices``, in their order, from the brokers.

    Raises `DataLoss` for offsets that a broker does not hold any more, unless the request accepts that, `BrokerAway`,
    `KafkaError`, and `Corrupt`. With a ``quarantine`` that receives the batches that are as their producer sent them and
    cannot be read, and the rest is read.
    """
    with open_client(bootstrap) as client:
        for each in slices:
            yield from _read(client, each, request, None if quarantine is None else _aside(quarantine, bootstrap, each))


def _aside(quarantine: Quarantine, bootstrap: str, each: HotSlice) -> OnDamage:
    def told(start_offset: int, end_offset: int, reason: str) -> None:
        quarantine.add(
            BadRange(each.topic, each.partition, start_offset, end_offset, bootstrap, "", None, None, reason)
        )

    return told


def _read(client: Client, each: HotSlice, request: ReadRequest, on_damage: OnDamage | None) -> Iterator[pa.RecordBatch]:
    position = each.start_offset
    empty = 0
    while position < each.end_offset:
        try:
            (fetched,) = fetch(
                client,
                {each.topic_partition: position},
                read_committed=request.read_committed,
                max_bytes=_FETCH_BYTES,
                partition_max_bytes=_FETCH_BYTES,
                max_wait_ms=_WAIT_MS,
            )
        except KafkaError as error:
            if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
                raise
            if _is_another_topic(client, each):
                _tell_of_another_topic(each, position, request)
                return
            position = _behind_loss(client, each, position, request, error)
            continue
        if _is_another_topic(client, each):
            _tell_of_another_topic(each, position, request)
            return
        whole = [(at, header) for at, header in iter_headers(fetched.data)]
        if not whole:
            empty += 1
            if empty > _EMPTY_ANSWERS_MAX:
                raise BrokerUnavailable(
                    f"{each.topic_partition}: the broker has sent nothing from offset {position} on, though its log reached to "
                    f"{each.end_offset} when the query was planned; run the query again"
                )
            continue
        empty = 0
        at, header = whole[-1]
        data = bytes(fetched.data[: at + header.size_bytes])
        if on_damage is not None:
            _check_crcs(
                each, data
            )  # what was damaged on its way may say other offsets, and is whole when it is read again
        aborted = aborted_in(data, fetched.aborted) if request.read_committed else None
        window = Window(position, each.end_offset, aborted)
        yield from decode_batches(
            data,
            each.topic_partition,
            request.columns,
            window,
            batch_bytes=request.batch_bytes,
            required=request.required,
            checked=on_damage is not None,
            on_damage=on_damage,
        )
        position = header.next_offset


def _is_another_topic(client: Client, each: HotSlice) -> bool:
    """Whether the brokers, as far as the client knows by its last fetch, have another topic of the name than was planned."""
    there = client.topic(each.topic).topic_id
    return ZERO_UUID not in {there, each.topic_id} and there != each.topic_id


def _tell_of_another_topic(each: HotSlice, position: int, request: ReadRequest) -> None:
    loss = (
        f"{each.topic_partition}: the topic was deleted and made again since the query was planned, and with it the offsets "
        f"{position} to {each.end_offset - 1} are gone"
    )
    if request.fail_on_data_loss:
        raise DataLoss(f"{loss}. To read what there is, set option 'failOnDataLoss' to 'false'")
    _logger.warning("%s; skipped, because failOnDataLoss is false", loss)


def _check_crcs(each: HotSlice, data: bytes) -> None:
    for at, header in iter_headers(data):
        try:
            check_batch(data, at)
        except Corrupt as error:
            raise Corrupt(f"{each.topic_partition}, offset {header.base_offset}: {error}") from error


def _behind_loss(client: Client, each: HotSlice, position: int, request: ReadRequest, error: KafkaError) -> int:
    """Where reading goes on behind offsets that are gone, which is where the log starts now."""
    partition = each.topic_partition
    start = client.list_offsets({partition: EARLIEST_OFFSET})[partition].offset
    if start <= position:
        raise BrokerUnavailable(
            f"{partition}: the log ends before offset {position}, though it reached to {each.end_offset} when the query was "
            f"planned; run the query again"
        ) from error
    loss = (
        f"{partition}: the offsets {position} to {min(start, each.end_offset) - 1} are not on the broker any more, whose "
        f"log starts at {start}: retention or DeleteRecords removed them while the query ran"
    )
    if request.fail_on_data_loss:
        raise DataLoss(f"{loss}. To read what there is, set option 'failOnDataLoss' to 'false'") from error
    _logger.warning("%s; skipped, because failOnDataLoss is false", loss)
    return start


def aborted_in(data: bytes, listed: Iterable[AbortedTransaction]) -> AbortedTransactions:
    """The aborted transactions ``listed`` in an answer: each ends with its marker, or reaches beyond ``data``.

    A broker may name a transaction more than once, and in any order: each counts once.
    """
    waiting: dict[int, deque[int]] = {}
    for first_offset, producer_id in sorted({(one.first_offset, one.producer_id) for one in listed}):
        waiting.setdefault(producer_id, deque()).append(first_offset)
    found: dict[int, list[tuple[int, int]]] = {}
    for at, header in iter_headers(data):
        open_ones = waiting.get(header.producer_id)
        if not header.is_control or not open_ones or open_ones[0] > header.base_offset or not _is_abort(data, at):
            continue
        found.setdefault(header.producer_id, []).append((open_ones.popleft(), header.last_offset))
    for producer_id, left in waiting.items():
        found.setdefault(producer_id, []).extend((first, _NEVER) for first in left)
    return found


def _is_abort(data: bytes, at: int) -> bool:
    for record in iter_records(data, at):
        return record.key is not None and int.from_bytes(record.key[2:4], "big") == _ABORT_MARKER
    return False
