"""A fetch without a session: it names all its partitions, and its answer does, too."""

from __future__ import annotations

from collections.abc import Hashable
from copy import copy

from stratalog.broker.fetches.fetch_attempt import FetchAttempt
from stratalog.broker.fetches.fetch_broker import FetchBroker
from stratalog.broker.fetches.fetch_sessions import FetchSessions
from stratalog.broker.fetches.found_bytes import FEW, FoundBytes
from stratalog.broker.fetches.replica_read import ReplicaReader
from stratalog.broker.requests.context import RequestContext
from stratalog.metadata.fetch_sessions.fetch_session import EPOCH_INITIAL, TopicKey, refuse_partition
from stratalog.wire.errors import KafkaError
from stratalog.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)

__all__ = ["FullFetch"]


class FullFetch(FetchAttempt):
    """A request that names all its partitions; so does its answer."""

    __slots__ = ("_named", "_sessions")

    def __init__(
        self,
        context: RequestContext[FetchBroker],
        request: FetchRequest,
        sessions: FetchSessions,
        replica: ReplicaReader | None = None,
    ) -> None:
        """``sessions`` gives a reader that asks for one a session to go on with; ``replica`` reads if a follower asks."""
        super().__init__(context, request, replica=replica)
        self._sessions = sessions
        self._named: dict[Hashable, tuple[TopicKey, FetchPartition]] = {}
        """The partitions of the last attempt by the key under which the request hears of them."""

    def attempt(self, *, final: bool) -> FetchResponse | None:
        """Every partition, or None if there is not enough yet and ``final`` is not set."""
        request = self.request
        find = self.finder()
        left_bytes = self.max_bytes
        found_bytes = 0
        self.begin()
        complete = final or not request.topics
        self.watched = named = self._named = {}
        found = self.found = self._new_found()
        topics: list[FetchableTopicResponse] = []
        for topic in request.topics:
            key = topic.topic_id if self.by_id else topic.topic
            answers: list[PartitionData] = []
            topics.append(FetchableTopicResponse(topic=topic.topic, topic_id=topic.topic_id, partitions=answers))
            for wanted in topic.partitions:
                number = wanted.partition
                answer = PartitionData(partition_index=number, high_watermark=-1, records=b"")
                answers.append(answer)
                try:
                    unified = find(key, number)
                    watch_key, cut_bytes = self.watch_key(unified), self.cut_bytes
                    if watch_key in named:
                        self.request = _each_once(request, by_id=self.by_id)
                        return self.attempt(final=final)
                    named[watch_key] = (key, wanted)
                    size_bytes = self.read(unified, wanted, answer, left_bytes, min_one_batch=found_bytes == 0)
                    if found is not None:
                        found.note(watch_key, size_bytes + self.cut_bytes - cut_bytes)
                except KafkaError as error:
                    refuse_partition(answer, error)
                    self.note_refusal(error)
                    complete = True
                    continue
                if size_bytes:
                    found_bytes += size_bytes
                    left_bytes = max(left_bytes - size_bytes, 0)
                elif answer.diverging_epoch is not None or answer.preferred_read_replica >= 0:
                    complete = True
        if complete or (found_bytes and self.enough(found_bytes)):
            return self._answer(topics)
        return None

    def may_complete(self) -> bool:
        """A consumer that waits for many partitions has the one looked at that was woken, once all were looked at again."""
        assert self.waiter is not None
        watch_key = self.waiter.woken_by
        named = self._named.get(watch_key)
        if self.found is None or named is None:
            return True
        topic, wanted = named

        def look(answer: PartitionData, left_bytes: int, first: bool) -> int:
            unified = self.finder()(topic, wanted.partition)
            return self.read(unified, wanted, answer, left_bytes, min_one_batch=first)

        return self.has_enough_with(watch_key, wanted, look)

    def _new_found(self) -> FoundBytes | None:
        """Where to note bytes by partition, if that is worth while: the first attempt is the last one of most requests."""
        if self.replica is not None or self.waiter is None:
            return None
        return FoundBytes() if sum(len(topic.partitions) for topic in self.request.topics) > FEW else None

    def _answer(self, topics: list[FetchableTopicResponse]) -> FetchResponse:
        response = FetchResponse(responses=topics)
        if self.pending_remote:
            self.throttle(response, partition_count=sum(len(topic.partitions) for topic in topics))
        if self.quota is not None and not self.may_leave(response):
            return FetchResponse(responses=[])
        self.count(topics)
        self.name_leaders(response)
        if self.request.session_epoch == EPOCH_INITIAL:
            response.session_id = self._sessions.begin(
                self.context, self.request, topics, privileged=self.replica is not None
            )
        return response


def _each_once(request: FetchRequest, *, by_id: bool) -> FetchRequest:
    """The request with each partition once: of one that is named again the last mention counts, as in Kafka."""
    each: dict[tuple[TopicKey, int], FetchPartition] = {}
    for topic in request.topics:
        key: TopicKey = topic.topic_id if by_id else topic.topic
        for wanted in topic.partitions:
            each[key, wanted.partition] = wanted
    merged: dict[TopicKey, FetchTopic] = {}
    for (key, _), wanted in each.items():
        head = merged.get(key)
        if head is None:
            head = merged[key] = (
                FetchTopic(topic_id=key, partitions=[])  # type: ignore[arg-type]
                if by_id
                else FetchTopic(topic=key, partitions=[])  # type: ignore[arg-type]
            )
        head.partitions.append(wanted)
    request = copy(request)
    request.topics = list(merged.values())
    return request
