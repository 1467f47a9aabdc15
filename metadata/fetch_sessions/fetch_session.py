"""A broker's memory of one consumer's fetches, so that neither side repeats itself (KIP-227).

A session knows the position of its reader in every partition and the last answer about each. The
partitions that may have something to tell are its *dirty set*; the others were looked at since they last changed and
had nothing. So a request costs what its dirty partitions cost, not what its partitions are in number. The holder of a
session makes sure that a partition becomes dirty whenever something about it changes, see :meth:`FetchSession.touch`.
One that is unknown changes unseen, so it stays dirty; of many such ones a few are looked at for each answer.

A partition is reported when it has records or an error, when the reader's history parts from the log's, or when its
high watermark, its last stable offset or its log start differs from the one last reported. Which of the dirty ones come
first decides who gets the bytes of an answer: those that got some go to the end of the queue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, Protocol

from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.fetch import FetchPartition, FetchTopic, ForgottenTopic, PartitionData
from stratalog.wire.topic import Uuid

__all__ = [
    "EPOCH_FINAL",
    "EPOCH_INITIAL",
    "LASTING_LOOKS_MAX",
    "FetchSession",
    "Look",
    "SessionPartition",
    "SessionReader",
    "Telling",
    "TopicKey",
    "next_epoch",
    "refuse_partition",
]

EPOCH_INITIAL: Final = 0
"""The epoch of a full fetch after which a session may begin."""

EPOCH_FINAL: Final = -1
"""The epoch of a full fetch that ends its session."""

_EPOCH_MAX: Final = 2**31 - 1
_NOT_TOLD: Final = -1
_READ_COMMITTED: Final = 1

_LASTING: Final = frozenset(
    {ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.TOPIC_AUTHORIZATION_FAILED}
)
"""Errors that do not pass by asking again at once: answered once, they no longer keep an answer from waiting."""

LASTING_LOOKS_MAX: Final = 500
"""Partitions with such an error that are looked at again for one answer: they stay dirty, and a client may name any number."""

TopicKey = str | Uuid
"""A topic as requests of the session name it: by name, or since version 13 by id."""


def next_epoch(epoch: int) -> int:
    """The epoch of the request that follows one with ``epoch``; it begins anew at 1 and never passes through 0."""
    if epoch < 0:
        return EPOCH_FINAL
    return 1 if epoch == _EPOCH_MAX else epoch + 1


class SessionReader(Protocol):
    """A request of a session that waits."""

    def wake(self) -> object:
        """A partition has become dirty: look again."""
        ...


class Watched(Protocol):
    """Where a partition's changes are heard of."""

    def add(self, watcher: Callable[[], object], /) -> object:
        """Have it called when something changes."""

    def discard(self, watcher: Callable[[], object], /) -> object:
        """Call it no longer."""


class SessionPartition:
    """One partition of a session: the position its reader wants, and the facts last reported to it.

    Calling it says that something about the partition has changed. It is called once for each :meth:`watch`, by the
    set of callables that it is a member of until then.
    """

    __slots__ = (
        "end_offset",
        "session",
        "told_error",
        "told_high_watermark",
        "told_last_stable_offset",
        "told_log_start_offset",
        "topic",
        "wanted",
        "watchers",
    )

    def __init__(self, session: FetchSession, topic: TopicKey, wanted: FetchPartition) -> None:
        self.session = session
        self.topic = topic
        self.wanted = wanted
        self.told_high_watermark = _NOT_TOLD
        self.told_last_stable_offset = _NOT_TOLD
        self.told_log_start_offset = _NOT_TOLD
        self.told_error = 0
        self.end_offset: int | None = None
        """Where a follower's reading ends, as of the last look; None for consumers, whose reading ends at the marks."""
        self.watchers: Watched | None = None
        """The callables to call when something about the partition changes; set by
        the one that looks at it, None where there are none.
        """

    def __call__(self) -> None:
        """Something has changed."""
        self.unwatch()
        self.session.touch(self)

    def watch(self) -> None:
        """From now on it is called when something changes, once."""
        if self.watchers is not None:
            self.watchers.add(self)

    def unwatch(self) -> None:
        """It is no longer called."""
        if self.watchers is not None:
            self.watchers.discard(self)

    def tells(self, answer: PartitionData) -> bool:
        """Whether ``answer`` holds anything that the reader does not know."""
        return bool(
            answer.records
            or answer.high_watermark != self.told_high_watermark
            or answer.error_code
            or answer.last_stable_offset != self.told_last_stable_offset
            or answer.log_start_offset != self.told_log_start_offset
            or answer.diverging_epoch is not None
            or answer.preferred_read_replica >= 0
        )

    def note(self, answer: PartitionData) -> None:
        """Remember ``answer`` as reported to the reader."""
        self.told_error = answer.error_code
        # Marks are reported again after an error, so that the reader sees it gone, and once it has cut its log: it takes none before.
        is_taken = not answer.error_code and answer.diverging_epoch is None
        self.told_high_watermark = answer.high_watermark if is_taken else _NOT_TOLD
        self.told_last_stable_offset = answer.last_stable_offset
        self.told_log_start_offset = answer.log_start_offset

    def exhausted(self, answer: PartitionData) -> bool:
        """Whether nothing can be read behind ``answer``, which has no records, until something changes."""
        if answer.error_code or answer.diverging_epoch is not None or answer.preferred_read_replica >= 0:
            return False
        if self.end_offset is not None:
            return self.wanted.fetch_offset >= self.end_offset
        committed = self.session.isolation_level == _READ_COMMITTED
        return self.wanted.fetch_offset >= (answer.last_stable_offset if committed else answer.high_watermark)


Look = Callable[[SessionPartition, PartitionData, int, bool], int]
"""``look(partition, answer, bytes left, at least one batch) -> bytes``: fill ``answer``, say who is called on changes.

Raises `KafkaError` for what becomes the partition's error.
"""

Telling = list[tuple[SessionPartition, PartitionData]]
"""The contents of an answer, partition by partition."""


def refuse_partition(answer: PartitionData, error: KafkaError) -> None:
    """A partition that cannot be read is reported by its error alone, whatever was known by then."""
    answer.error_code = error.code
    if answer.high_watermark >= 0:
        answer.high_watermark = answer.last_stable_offset = answer.log_start_offset = -1
        answer.aborted_transactions = None


class FetchSession:
    """The partitions of one reader, and which of them are dirty. ``reader`` is the request that waits, if one does."""

    __slots__ = (
        "aged",
        "broker_epoch",
        "by_id",
        "cached_size",
        "created_ms",
        "dirty",
        "epoch",
        "id",
        "isolation_level",
        "last_used_ms",
        "partitions",
        "privileged",
        "reader",
        "woken",
    )

    def __init__(self, session_id: int, now_ms: int, *, by_id: bool, privileged: bool, isolation_level: int) -> None:
        """``by_id``: requests name topics by id. ``privileged``: the reader is a replica, not a consumer."""
        self.id = session_id
        self.by_id = by_id
        self.privileged = privileged
        self.isolation_level = isolation_level
        self.created_ms = self.last_used_ms = now_ms
        self.cached_size = 0
        """The number of partitions as the cache last counted it."""
        self.aged = False
        """Whether the cache counts it among those that have outlived their safety."""
        self.broker_epoch = -1
        """The registration under which a follower has told where it stands (KIP-903); -1 for consumers."""
        self.epoch = next_epoch(EPOCH_INITIAL)
        """The epoch that the next request must bring."""
        self.partitions: dict[tuple[TopicKey, int], SessionPartition] = {}
        self.dirty: dict[SessionPartition, None] = {}
        """In the order in which they are looked at."""
        self.reader: SessionReader | None = None
        self.woken: SessionPartition | None = None
        """While the reader is woken: the partition that has changed."""

    def __len__(self) -> int:
        """The number of partitions."""
        return len(self.partitions)

    @property
    def only_partition(self) -> SessionPartition | None:
        """The partition of a session that has one alone."""
        return next(iter(self.partitions.values())) if len(self.partitions) == 1 else None

    def tell_records(
        self,
        partition: SessionPartition,
        offset: int,
        *,
        high_watermark: int,
        last_stable_offset: int,
        log_start_offset: int,
    ) -> None:
        """The reader has asked for the only partition from ``offset`` on, and gets records with these numbers."""
        partition.wanted.fetch_offset = offset
        partition.told_error = 0
        partition.told_high_watermark = high_watermark
        partition.told_last_stable_offset = last_stable_offset
        partition.told_log_start_offset = log_start_offset
        self.dirty[partition] = None

    def touch(self, partition: SessionPartition) -> None:
        """Something about ``partition`` has changed: it is looked at when the next answer is made."""
        self.dirty[partition] = None
        if self.reader is not None:
            self.woken = partition
            self.reader.wake()
            self.woken = None

    def want(self, topic: TopicKey, wanted: FetchPartition) -> SessionPartition:
        """Take a partition in, or note where its reader has got to; it is dirty either way."""
        key = (topic, wanted.partition)
        partition = self.partitions.get(key)
        if partition is None:
            partition = self.partitions[key] = SessionPartition(self, topic, wanted)
        else:
            if wanted.current_leader_epoch != partition.wanted.current_leader_epoch:
                partition.told_high_watermark = _NOT_TOLD  # a follower that begins anew may have lost its mark
            partition.wanted = wanted
        self.dirty[partition] = None
        return partition

    def update(self, topics: Iterable[FetchTopic], forgotten: Iterable[ForgottenTopic], isolation_level: int) -> None:
        """Take in what a request adds and changes, and what it takes out.

        Another isolation level makes every partition dirty: what may be read of it is not what it was.
        """
        by_id = self.by_id
        for topic in topics:
            for wanted in topic.partitions:
                self.want(topic.topic_id if by_id else topic.topic, wanted)
        for gone in forgotten:
            name: TopicKey = gone.topic_id if by_id else gone.topic
            for number in gone.partitions:
                partition = self.partitions.pop((name, number), None)
                if partition is not None:
                    self.dirty.pop(partition, None)
                    partition.unwatch()
        if isolation_level != self.isolation_level:
            self.isolation_level = isolation_level
            self.dirty.update(dict.fromkeys(self.partitions.values()))

    def gather(
        self,
        look: Look,
        *,
        max_bytes: int,
        enough: Callable[[int], bool],
        final: bool,
        marks: bool = False,
        is_full: Callable[[], bool] = bool,
    ) -> Telling | None:
        """The news for the reader, or None if that is not enough yet and ``final`` is not set.

        Enough are as many bytes of records as ``enough`` says, an error, a history that parts from the log's, another
        replica to read from, and with ``marks`` a high watermark that the reader does not know. After None every
        partition is watched. Once the answer ``is_full`` no more are looked at: they come first next time.
        """
        telling: Telling = []
        found_bytes = 0
        complete = final
        for partition in self._turns(is_full):
            answer = PartitionData(partition_index=partition.wanted.partition, high_watermark=-1, records=b"")
            try:
                size_bytes = look(partition, answer, max(max_bytes - found_bytes, 0), found_bytes == 0)
            except KafkaError as error:
                refuse_partition(answer, error)
                complete = complete or error.code not in _LASTING or partition.told_error != error.code
                telling.append((partition, answer))
                continue
            found_bytes += size_bytes
            complete = complete or answer.diverging_epoch is not None or answer.preferred_read_replica >= 0
            complete = complete or (marks and answer.high_watermark != partition.told_high_watermark)
            if partition.tells(answer):
                telling.append((partition, answer))
            elif partition.exhausted(answer):
                self._settle(partition)
        if complete or enough(found_bytes):
            return telling
        for partition in self.dirty:
            partition.watch()
        return None

    def _turns(self, is_full: Callable[[], bool]) -> Iterator[SessionPartition]:
        """The dirty partitions that are looked at for one answer."""
        lasting = 0
        for partition in list(self.dirty):
            if is_full():
                return
            if partition.told_error and partition.told_error in _LASTING:
                lasting += 1
                if lasting > LASTING_LOOKS_MAX:
                    continue
            yield partition

    def tell(self, telling: Telling) -> None:
        """The answer leaves. Partitions that got records, or an error, let the others go first next time."""
        dirty = self.dirty
        for partition, answer in telling:
            partition.note(answer)
            if answer.records or answer.error_code:
                del dirty[partition]
                dirty[partition] = None
            elif partition.exhausted(answer):
                self._settle(partition)

    def end(self) -> None:
        """Stop watching all partitions."""
        for partition in self.partitions.values():
            partition.unwatch()

    def _settle(self, partition: SessionPartition) -> None:
        """``partition`` has no news until it changes; as long as no watcher would call it, it stays dirty."""
        if partition.watchers is not None:
            del self.dirty[partition]
            partition.watchers.add(partition)
