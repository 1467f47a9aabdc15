"""A fetch without a session: it names all its partitions, and its answer does, too."""

from __future__ import annotations

from collections.abc import Hashable

from stratalog.broker.fetches.fetch_attempt import FetchAttempt, FetchBroker
from stratalog.broker.fetches.fetch_sessions import FetchSessions
from stratalog.broker.fetches.replica_read import ReplicaReader
from stratalog.broker.requests.context import RequestContext
from stratalog.metadata.fetch_sessions.fetch_session import EPOCH_INITIAL, refuse_partition
from stratalog.wire.errors import KafkaError
from stratalog.wire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData

__all__ = ["FullFetch"]


class FullFetch(FetchAttempt):
    """A request that names all its partitions; so does its answer."""

    __slots__ = ("_sessions",)

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

    def attempt(self, *, final: bool) -> FetchResponse | None:
        """Every partition, or None if there is not enough yet and ``final`` is not set."""
        request = self.request
        find = self.finder()
        left_bytes = self.max_bytes
        found_bytes = 0
        self.begin()
        complete = final or not request.topics
        found: list[Hashable] = []
        self.watched = found
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
                    found.append(self.watch_key(unified))
                    size_bytes = self.read(unified, wanted, answer, left_bytes, min_one_batch=found_bytes == 0)
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
