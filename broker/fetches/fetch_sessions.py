"""Fetch sessions at work (KIP-227): which request goes on with which session, and who wakes it.

The session's memory and decisions are in `stratalog.metadata.fetch_sessions.fetch_session`. Here its partitions are
found, read and watched: a partition that had nothing to tell is called once by the watchers of the log, when its high
watermark, its last stable offset, its log start or its leadership changes, or when a chunk of its archive has come.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from stratalog.broker.fetches.awaited_followers import AwaitedFollowers
from stratalog.broker.fetches.fetch_attempt import TOPIC_IDS_SINCE, FetchAttempt
from stratalog.broker.fetches.fetch_broker import FetchBroker
from stratalog.broker.fetches.found_bytes import FEW, FoundBytes
from stratalog.broker.requests.context import RequestContext
from stratalog.broker.runtime.clock import Clock
from stratalog.broker.runtime.metrics import Metrics
from stratalog.broker.settings.config import BrokerConfig
from stratalog.hot.replica_state import NO_BROKER_EPOCH
from stratalog.metadata.fetch_sessions.cache import FetchSessionCache
from stratalog.metadata.fetch_sessions.fetch_session import (
    FetchSession,
    SessionPartition,
    Telling,
    TopicKey,
    next_epoch,
)
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData

__all__ = ["FetchSessions", "SessionFetch"]

NO_SESSION: Final = 0
_ID_BOUND: Final = 2**31 - 1


class SessionFetch(FetchAttempt):
    """A request that goes on with a session: only dirty partitions are looked at, only news is answered."""

    __slots__ = ()

    session: FetchSession

    def attempt(self, *, final: bool) -> FetchResponse | None:
        """The news; INVALID_FETCH_SESSION_EPOCH if another request has gone on with the session meanwhile."""
        session = self.session
        if session.epoch != self.session_epoch:
            return FetchResponse(error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH, session_id=session.id, responses=[])
        self.begin()
        self.found = FoundBytes() if len(session.dirty) > FEW and self.replica is None else None
        telling = session.gather(
            self._look,
            max_bytes=self.max_bytes,
            enough=self.enough,
            final=final,
            marks=self._marks_are_news,
            is_full=self.room.is_full,
        )
        if telling is None:
            return None
        topics = _by_topic(telling, by_id=self.by_id)
        response = FetchResponse(responses=topics, session_id=session.id)
        if self.pending_remote:
            self.throttle(response, partition_count=len(session))
        if self.quota is not None and not self.may_leave(response):
            return FetchResponse(responses=[], session_id=session.id)
        session.tell(telling)
        self.count(topics)
        self.name_leaders(response)
        return response

    def may_complete(self) -> bool:
        """A consumer that waits for many dirty partitions has the one looked at that was woken."""
        session, partition = self.session, self.session.woken
        if self.found is None or partition is None or session.epoch != self.session_epoch:
            return True
        if self.has_enough_with(partition, partition.wanted, partial(self._look, partition)):
            return True
        partition.watch()
        return False

    @property
    def _marks_are_news(self) -> bool:
        """Consumers that read from followers see records when these know the mark, so a follower does not wait for it."""
        return self.replica is not None and self.replica.marks_are_news

    def _look(self, partition: SessionPartition, answer: PartitionData, left_bytes: int, first: bool) -> int:
        wanted = partition.wanted
        try:
            unified = self.finder()(partition.topic, wanted.partition)
            watchers = self.watchers(unified)
            if self.replica is not None:
                partition.end_offset = unified.log.written_offset
            if partition.watchers is not watchers:
                partition.unwatch()
                partition.watchers = watchers
            cut_bytes = self.cut_bytes
            size_bytes = self.read(unified, wanted, answer, left_bytes, min_one_batch=first)
            if self.found is not None:
                self.found.note(partition, size_bytes + self.cut_bytes - cut_bytes)
        except KafkaError as error:
            self.note_refusal(error)
            raise
        return size_bytes


def _by_topic(telling: Telling, *, by_id: bool) -> list[FetchableTopicResponse]:
    """The answers in their order, those of one topic that follow each other under one head."""
    topics: list[FetchableTopicResponse] = []
    topic: TopicKey | None = None
    for partition, answer in telling:
        if not topics or partition.topic != topic:
            topic = partition.topic
            head = (
                FetchableTopicResponse(topic="", topic_id=topic, partitions=[])  # type: ignore[arg-type]
                if by_id
                else FetchableTopicResponse(topic=topic, partitions=[])  # type: ignore[arg-type]
            )
            topics.append(head)
        topics[-1].partitions.append(answer)
    return topics


class FetchSessions:
    """The sessions of one broker. ``random_int(bound)`` chooses their ids."""

    def __init__(self, config: BrokerConfig, clock: Clock, random_int: Callable[[int], int], metrics: Metrics) -> None:
        self.cache = FetchSessionCache(
            config.integer("max.incremental.fetch.session.cache.slots"),
            session_partitions_max=config.integer("stratalog.request.elements.max"),
        )
        self.followers = AwaitedFollowers(clock.monotonic)
        self._clock = clock
        self._random_int = random_int
        _add_figures(self.cache, metrics)

    def resume(self, context: RequestContext[FetchBroker], request: FetchRequest) -> FetchSession | None:
        """The session that a request goes on with; None if the request leaves it without partitions.

        Raises FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH, and FETCH_SESSION_TOPIC_ID_ERROR for a
        request that names topics otherwise than the session does.

        A session ends with the registration of its follower: the positions in it are of a log that may be gone, and
        would count as those of the new one. Kafka takes them over. So does one that has gathered more partitions than a full
        fetch may name.
        """
        session = self.cache.get(request.session_id)
        if session is None:
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != request.session_epoch:
            raise KafkaError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.by_id != (context.row.version >= TOPIC_IDS_SINCE):
            raise KafkaError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        if session.broker_epoch != _broker_epoch(request):
            self.close(session.id)
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        waiting = session.reader
        if isinstance(waiting, SessionFetch) and waiting.context.connection is context.connection:
            waiting.finish()  # its answer comes first, and this request knows it
        session.update(request.topics, request.forgotten_topics_data, request.isolation_level)
        if not session.partitions:
            self.close(session.id)
            return None
        if not self.cache.may_keep(session):
            self.close(session.id)
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        self.go_on(session)
        if session.reader is not None:
            session.reader.wake()  # to learn that its session has gone on without it
        return session

    def go_on(self, session: FetchSession) -> None:
        """A request with the session's epoch has come: the next one must bring the next."""
        self.cache.touch(session, self._elapsed_ms())
        session.epoch = next_epoch(session.epoch)

    def knows(self, session: FetchSession) -> bool:
        """Whether the session has not ended."""
        return self.cache.get(session.id) is session

    def may_go_on(self, session: FetchSession, epoch: int) -> bool:
        """Whether a request with ``epoch`` goes on with the session, and no other request of it waits."""
        return epoch == session.epoch and session.reader is None and self.knows(session)

    def _elapsed_ms(self) -> int:
        """Time by which sessions grow old: the wall clock may jump."""
        return int(self._clock.monotonic() * 1000)

    def close(self, session_id: int) -> None:
        """Forget a session, if there is one with this id; a request that waits in it is answered."""
        session = self.cache.remove(session_id)
        if session is not None:
            _end(session)

    def begin(
        self,
        context: RequestContext[FetchBroker],
        request: FetchRequest,
        topics: list[FetchableTopicResponse],
        *,
        privileged: bool = False,
    ) -> int:
        """The id of a new session for a full fetch that was answered with ``topics``; 0 where there is no room.

        ``privileged``: the reader is a replica, for which consumers make room.
        """
        count = sum(len(topic.partitions) for topic in request.topics)
        now_ms = self._elapsed_ms()
        if not self._make_room(now_ms, privileged=privileged, partition_count=count):
            return NO_SESSION
        by_id = context.api_version >= TOPIC_IDS_SINCE
        session = FetchSession(
            self._new_id(), now_ms, by_id=by_id, privileged=privileged, isolation_level=request.isolation_level
        )
        session.broker_epoch = _broker_epoch(request)
        told: Telling = []
        for asked, answered in zip(request.topics, topics, strict=True):
            for wanted, answer in zip(asked.partitions, answered.partitions, strict=True):
                told.append((session.want(asked.topic_id if by_id else asked.topic, wanted), answer))
        session.tell(told)
        self.cache.add(session, now_ms)
        return session.id

    def _make_room(self, now_ms: int, *, privileged: bool, partition_count: int) -> bool:
        """Whether a session of that worth may begin; those that give way have ended."""
        room = True
        victims: list[FetchSession] = []
        if not privileged:
            room, victims = self.cache.make_room_for_partitions(now_ms, partition_count)
        if room:
            room, victim = self.cache.make_room(now_ms, privileged=privileged, partition_count=partition_count)
            victims += [] if victim is None else [victim]
        for one in victims:
            _end(one)
        return room

    def _new_id(self) -> int:
        while True:
            session_id = 1 + self._random_int(_ID_BOUND)
            if session_id not in self.cache:
                return session_id


def _broker_epoch(request: FetchRequest) -> int:
    """The registration of the follower that asks; -1 for a consumer, and for a follower that does not tell it."""
    return NO_BROKER_EPOCH if request.replica_state is None else request.replica_state.replica_epoch


def _end(session: FetchSession) -> None:
    if isinstance(session.reader, SessionFetch):
        session.reader.finish()
    session.end()


def _add_figures(cache: FetchSessionCache, metrics: Metrics) -> None:
    name = "kafka_server_fetchsessioncache_"
    metrics.add_gauge(
        f"{name}numincrementalfetchsessions",
        "kafka.server:type=FetchSessionCache,name=NumIncrementalFetchSessions.",
        lambda: [({}, len(cache))],
    )
    metrics.add_gauge(
        f"{name}numincrementalfetchpartitionscached",
        "kafka.server:type=FetchSessionCache,name=NumIncrementalFetchPartitionsCached.",
        lambda: [({}, cache.partition_count)],
    )
    metrics.add_counter(
        f"{name}incrementalfetchsessionevictions",
        "kafka.server:type=FetchSessionCache,name=IncrementalFetchSessionEvictionsPerSec.",
        lambda: [({}, cache.eviction_count)],
    )
