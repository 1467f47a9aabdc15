"""Fetches as tests describe them, and what else happens to a partition, for the rig without sockets."""

import struct
from dataclasses import dataclass

from stratalog.wire.batch import Record, build_batch, build_control_batch
from stratalog.wire.frame import encode_request
from stratalog.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from stratalog.wire.schema import decode, encode

FLEXIBLE_SINCE = 12


@dataclass(frozen=True)
class Asked:
    """One request as a test describes it; an ``offset`` of None goes on behind what was appended so far."""

    version: int = 16
    client_id: str | None = "client"
    topic: str = "t"
    partition: int = 0
    offset: int | None = None
    leader_epoch: int = -1
    last_epoch: int = -1
    isolation_level: int = 0
    wait_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 1 << 20
    partition_max_bytes: int = 1 << 20
    partition_count: int = 1
    session: str = "none"
    header_tags: bool = False
    behind: bytes = b""


class FetchFrames:
    """Turns descriptions into frames."""

    def __init__(self, rig) -> None:
        self._rig = rig
        rig.sequence = 0
        self._correlation_id = -3
        self._epoch = 0

    def frame(self, asked: Asked) -> bytes:
        """The frame, with the next correlation id."""
        self._correlation_id += 1
        offset = self._rig.partitions[0].log.log_end_offset if asked.offset is None else asked.offset
        partitions = [
            FetchPartition(
                partition=number,
                current_leader_epoch=asked.leader_epoch,
                fetch_offset=offset,
                last_fetched_epoch=asked.last_epoch,
                partition_max_bytes=asked.partition_max_bytes,
            )
            for number in range(asked.partition, asked.partition + asked.partition_count)
        ]
        request = FetchRequest(
            max_wait_ms=asked.wait_ms,
            min_bytes=asked.min_bytes,
            max_bytes=asked.max_bytes,
            isolation_level=asked.isolation_level,
            session_id=self._session_id() if asked.session in ("next", "old") else 0,
            session_epoch=self._epoch_of(asked.session),
            topics=[FetchTopic(topic=asked.topic, topic_id=asked.topic.encode().ljust(16), partitions=partitions)],
        )
        flexible = asked.version >= FLEXIBLE_SINCE
        body = b"".join(encode(request, asked.version)) + asked.behind
        frame = bytearray(
            b"".join(encode_request(1, asked.version, self._correlation_id, asked.client_id, [body], flexible=flexible))
        )
        if flexible and asked.header_tags:
            at = 4 + 10 + len((asked.client_id or "").encode())
            frame[at : at + 1] = b"\x01\x05\x02ab"
            frame[:4] = (len(frame) - 4).to_bytes(4, "big")
        return bytes(frame)

    def _session_id(self) -> int:
        """That of the latest session, or of none."""
        return max(self._rig.broker.fetch_sessions.cache._by_use, default=77)

    def _epoch_of(self, session: str) -> int:
        """The epoch of a request without a session, of one that begins it,
        the next one, or one that was sent before.
        """
        if session == "none":
            return -1
        if session == "old":
            return max(self._epoch - 1, 1)
        self._epoch = 0 if session == "begin" else self._epoch + 1
        return self._epoch


def note_decoded(rig):
    """The rig, on a new connection, of whose requests those that are decoded are counted."""
    rig.requests, rig.decoded = FetchFrames(rig), []
    dispatch = rig.dispatcher.dispatch
    rig.services.dispatch = lambda connection, frame: (rig.decoded.append(1), dispatch(connection, frame))
    rig.connect()
    return rig


def ask(rig, asked: Asked):
    """Send a request; the partitions of its answer, or None if it waits."""
    before = len(rig.connection._transport.sent)
    rig.receive(rig.requests.frame(asked))
    rig.loop.run()
    return answered(rig, asked, before)


def answered(rig, asked: Asked, before: int):
    """The partitions of the answer behind so many bytes that were sent."""
    answer = whole_answer(rig, asked, before)
    return None if answer is None else answer.responses[0].partitions


def whole_answer(rig, asked: Asked, before: int) -> FetchResponse | None:
    """The answer behind so many bytes that were sent."""
    frame = memoryview(bytes(rig.connection._transport.sent[before:]))
    return decode(FetchResponse, asked.version, frame, 9 if asked.version >= FLEXIBLE_SINCE else 8) if frame else None


def append(rig, value: bytes = b"v" * 40, number: int = 0, **options) -> None:
    """A batch for one partition; the loop runs afterwards."""
    partition = rig.partitions[number].partition
    if partition.leader is None:
        return
    batch = build_batch([Record(0, rig.clock.wall_ms(), None, value)], **options)
    partition.leader.append(batch, 1, None, Acknowledged())
    rig.loop.run()


def append_in_transaction(rig) -> None:
    """The next batch of a transaction, or the first."""
    append(rig, producer_id=7, producer_epoch=0, base_sequence=rig.sequence, transactional=True)
    rig.sequence += 1


def end_transaction(rig, *, commit: bool) -> None:
    """The marker of the transaction that is open, if one is."""
    partition = rig.partitions[0].partition
    if partition.log.producer_state.first_unstable_offset is None or partition.leader is None:
        return
    marker = build_control_batch(
        int(commit),
        struct.pack(">hi", 0, 0),
        offset=0,
        timestamp_ms=rig.clock.wall_ms(),
        leader_epoch=3,
        producer_id=7,
        producer_epoch=0,
        transactional=True,
    )
    partition.leader.append_marker(marker, 0, lambda _: None)
    rig.loop.run()


class Acknowledged:
    """An append without a waiting client."""

    deadline = float("inf")
    info = None

    def acknowledge(self, outcome) -> None:
        self.outcome = outcome


def wake(rig) -> None:
    """Call the partition's watchers."""
    rig.partitions[0].partition.wake()


def hold(rig, reason: str | None) -> None:
    """The partition takes no requests for now, or takes them again."""
    rig.partitions[0].partition.held_back = reason
    wake(rig)


def begin_epoch(rig) -> None:
    """The partition is led under a new leader epoch."""
    partition = rig.partitions[0].partition
    partition.lead(1, partition.leader_epoch + 1, replicas=(1,), in_sync=(1,))


def move_log_start(rig) -> None:
    """To the high watermark."""
    one = rig.partitions[0]
    one.log.advance_log_start(one.partition.high_watermark)
    one.partition.tick(rig.loop.now)


def pass_time(rig) -> None:
    """Part of a fetch's wait."""
    rig.loop.now += 0.3
    rig.partitions[0].partition.tick(rig.loop.now)


def change_table(rig) -> None:
    """Another topic has come."""
    rig.table.version += 1


def leave(rig) -> None:
    """The client goes, another comes."""
    rig.connection.abort()
    rig.connection.connection_lost(None)
    rig.connect()


EVENTS = {
    "append": append,
    "transaction": append_in_transaction,
    "commit": lambda rig: end_transaction(rig, commit=True),
    "abort": lambda rig: end_transaction(rig, commit=False),
    "time": pass_time,
    "remove": lambda rig: (rig.table.remove(rig.partitions[0]), wake(rig)),
    "add": lambda rig: rig.table.add(rig.partitions[0]),
    "another": change_table,
    "start": move_log_start,
    "hold": lambda rig: hold(rig, "the test says so"),
    "serve": lambda rig: hold(rig, None),
    "epoch": begin_epoch,
    "resign": lambda rig: rig.partitions[0].partition.resign(),
    "connect": lambda rig: rig.connect(),
    "leave": leave,
    "offline": lambda rig: rig.directory.fail(OSError(5, "gone")),
}
"""The events besides requests."""
