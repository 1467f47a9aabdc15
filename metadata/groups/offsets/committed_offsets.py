"""The committed offsets of the groups of one shard, by Kafka's rules.

Requests come after the checks that need the cluster's metadata (see ``offset_topics``): they name topics that exist,
with name and id. Everything is kept as the bytes of the record that says so; the groups, which hold more than offsets,
are the shard's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from stratalog.metadata.coordination import Action, CoordinatorRecord, Now, Producer, Reply, Write
from stratalog.metadata.groups.group import Group, GroupRequest, GroupSettings, GroupType
from stratalog.metadata.groups.offsets.deleted_topics import DeletedTopics, same_topic
from stratalog.metadata.groups.offsets.expiry import OffsetExpiry
from stratalog.metadata.groups.offsets.pending_offsets import PendingOffsets
from stratalog.metadata.groups.offsets.records import (
    NEVER,
    CommittedOffset,
    check_offset,
    offset_key,
    pack_offset,
    read_offset,
    read_offset_key,
    tombstone,
)
from stratalog.metadata.groups.offsets.requests import Expired, FetchOffsets, TransactionEnded, WantedTopic
from stratalog.metadata.groups.offsets.topics import topic_id_of
from stratalog.metadata.image.image import ClusterImage
from stratalog.metadata.record_texts import TEXT_BYTES_MAX
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from stratalog.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from stratalog.wire.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from stratalog.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from stratalog.wire.topic import ZERO_UUID, Uuid

__all__ = ["CommittedOffsets", "FetchOffsets", "TransactionEnded"]

_COMMIT_BYTES_MAX: Final = 1 << 23
"""It is written in one turn of the loop. Kafka refuses a batch of more than 1 MiB, the topic's ``max.message.bytes``."""
_RECORD_BYTES: Final = 64
"""About what a record has besides its texts."""
_GROUP_NOT_FOUND_SINCE: Final = 9
_BROKERS_RETENTION: Final = -1
_TIME_MAX: Final = (1 << 63) - 1
"""The largest time a record can hold."""
_CONSUMER: Final = "consumer"
_MEMBERS_ABOUT: Final = ("Stable", "PreparingRebalance", "CompletingRebalance")
_DEAD: Final = "Dead"
_NO_TOPICS: Final = ClusterImage()
_Committed: TypeAlias = OffsetCommitRequestPartition | TxnOffsetCommitRequestPartition


class CommittedOffsets:
    """The offsets of one shard: committed ones, and those of open transactions."""

    def __init__(self, settings: GroupSettings) -> None:
        self._settings = settings
        self._groups: dict[str, dict[str, dict[int, bytes]]] = {}
        self._pending = PendingOffsets()
        self._deleted_topics = DeletedTopics()
        self._expiry = OffsetExpiry(settings.offsets_retention_ms)

    # -- the log ------------------------------------------------------------------------------------------------------

    def replay(self, key: bytes, value: bytes | None, producer: Producer | None) -> str:
        """Apply a record of the log and tell its group. Raises `Corrupt`."""
        group_id, topic, partition = read_offset_key(key)
        if value is None:
            self._remove(group_id, topic, partition)
            return group_id
        check_offset(value)
        if producer is None:
            self._put(group_id, topic, partition, value)
        else:
            self._pending.add(producer.producer_id, (group_id, topic, partition), value)
        return group_id

    def replay_marker(self, producer: Producer, *, commit: bool) -> None:
        """A transaction has ended: what it had brought is visible from now on, or void."""
        for place, one in self._pending.end(producer.producer_id).items():
            if commit and one.value is not None:
                self._store(*place, one.value)
                self._pending.overtake(place, before=one.sequence)

    def transaction_ended(self, event: TransactionEnded) -> None:
        """The same, called by the driver when the marker is committed."""
        self.replay_marker(event.producer, commit=event.commit)

    def _put(self, group_id: str, topic: str, partition: int, value: bytes) -> None:
        self._store(group_id, topic, partition, value)
        if self._pending:
            self._pending.overtake((group_id, topic, partition))

    def _store(self, group_id: str, topic: str, partition: int, value: bytes) -> None:
        topics = self._groups.get(group_id)
        if topics is None:
            topics = self._groups[group_id] = {}
        partitions = topics.get(topic)
        if partitions is None:
            partitions = topics[topic] = {}
        partitions[partition] = value
        self._expiry.stored(group_id, value)
        if self._deleted_topics.under_way:
            self._deleted_topics.stored((group_id, topic, partition), value)

    def _remove(self, group_id: str, topic: str, partition: int) -> None:
        if self._pending:
            self._pending.forget((group_id, topic, partition))
        topics = self._groups.get(group_id)
        if topics is None or (partitions := topics.get(topic)) is None:
            return
        partitions.pop(partition, None)
        if not partitions:
            del topics[topic]
            if not topics:
                del self._groups[group_id]
                self._expiry.forgotten(group_id)

    def _delete(self, places: Iterable[tuple[str, str, int]]) -> list[CoordinatorRecord]:
        """Tombstones for these offsets, each once; they are gone."""
        records = []
        for place in dict.fromkeys(places):
            records.append(tombstone(*place))
            self._remove(*place)
        return records

    # -- what is there ------------------------------------------------------------------------------------------------

    def has_offsets(self, group_id: str) -> bool:
        """Whether the group has a committed offset."""
        return group_id in self._groups

    def has_pending(self, group_id: str) -> bool:
        """Whether an open transaction holds an offset of the group."""
        return self._pending.has(group_id)

    def of(self, group_id: str) -> Iterator[tuple[str, int, CommittedOffset]]:
        """Topic, partition and offset of all that is committed when the first is asked for, in order."""
        topics = sorted(self._groups.get(group_id, {}).items())
        for topic, held in [(topic, sorted(partitions.items())) for topic, partitions in topics]:
            for partition, value in held:
                yield topic, partition, read_offset(value)

    # -- OffsetCommit -------------------------------------------------------------------------------------------------

    def commit(self, group: Group | None, event: GroupRequest, now: Now) -> list[Action]:
        """OffsetCommit. Without a group the client is no member, or has been gone for long."""
        request = event.request
        assert isinstance(request, OffsetCommitRequest)
        epoch = request.generation_id_or_member_epoch
        try:
            if group is not None:
                check = group.check_offset_commit(
                    request.member_id,
                    request.group_instance_id,
                    epoch,
                    transactional=False,
                    api_version=event.api_version,
                )
                group.offset_committed(request.member_id, now)
                if check is not None:
                    for one in request.topics:
                        for partition in one.partitions:
                            check(one.name, one.topic_id, partition.partition_index)
            elif epoch >= 0:
                _no_such_group(event.api_version)
            _check_size(event.group_id, request.topics)
        except KafkaError as error:
            return [Reply(event.token, error)]
        retention_ms = request.retention_time_ms
        expires = NEVER if retention_ms == _BROKERS_RETENTION else min(now.wall_ms + retention_ms, _TIME_MAX)
        records: list[CoordinatorRecord] = []
        topics = []
        for topic in request.topics:
            answers = []
            for index, value in self._packed(topic.partitions, now.wall_ms, expires, topic.topic_id):
                answer = OffsetCommitResponsePartition(partition_index=index)
                answers.append(answer)
                if value is None:
                    answer.error_code = ErrorCode.OFFSET_METADATA_TOO_LARGE
                    continue
                records.append(CoordinatorRecord(offset_key(event.group_id, topic.name, index), value))
                self._put(event.group_id, topic.name, index, value)
            topics.append(OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=answers))
        return [Write(records, [Reply(event.token, OffsetCommitResponse(topics=topics))])]

    def _packed(
        self, partitions: Sequence[_Committed], wall_ms: int, expires: int, topic_id: Uuid
    ) -> Iterator[tuple[int, bytes | None]]:
        """Pairs of a partition's number and the value of its record; None where the text beside the offset is too large."""
        for one in partitions:
            text = one.committed_metadata or ""
            if text and self._too_large(text):
                yield one.partition_index, None
                continue
            offset = CommittedOffset(one.committed_offset, one.committed_leader_epoch, text, wall_ms, expires, topic_id)
            yield one.partition_index, pack_offset(offset)

    def _too_large(self, text: str) -> bool:
        """Kafka counts in UTF-16, as Java does."""
        limit = self._settings.offset_metadata_max_bytes
        if 4 * len(text) <= min(limit, TEXT_BYTES_MAX):
            return False
        return len(text.encode("utf-16-le")) // 2 > limit or len(text.encode()) > TEXT_BYTES_MAX

    # -- TxnOffsetCommit ----------------------------------------------------------------------------------------------

    def commit_in_transaction(
        self, group: Group | None, event: GroupRequest, now: Now, image: ClusterImage = _NO_TOPICS
    ) -> list[Action]:
        """TxnOffsetCommit, once it is known that the transaction includes the group. Kafka keeps no topic ids here."""
        request = event.request
        assert isinstance(request, TxnOffsetCommitRequest)
        try:
            _check_in_transaction(group, request, event.api_version)
            _check_size(event.group_id, request.topics)
        except KafkaError as error:
            return [Reply(event.token, error)]
        producer = Producer(request.producer_id, request.producer_epoch)
        records: list[CoordinatorRecord] = []
        topics = []
        for topic in request.topics:
            answers = []
            for index, value in self._packed(topic.partitions, now.wall_ms, NEVER, topic_id_of(topic.name, image)):
                answer = TxnOffsetCommitResponsePartition(partition_index=index)
                answers.append(answer)
                if value is None:
                    answer.error_code = ErrorCode.OFFSET_METADATA_TOO_LARGE
                    continue
                records.append(CoordinatorRecord(offset_key(event.group_id, topic.name, index), value))
                self._pending.add(producer.producer_id, (event.group_id, topic.name, index), value)
            topics.append(TxnOffsetCommitResponseTopic(name=topic.name, partitions=answers))
        return [Write(records, [Reply(event.token, TxnOffsetCommitResponse(topics=topics))], producer)]

    # -- OffsetFetch --------------------------------------------------------------------------------------------------

    def fetch(self, group: Group | None, event: GroupRequest, image: ClusterImage = _NO_TOPICS) -> list[Action]:
        """The offsets of one group: -1 for each that is not there, also when the group is not.

        Those of a deleted topic may be there still: it went while they were being loaded. They are not the next topic's
        of that name; Kafka takes them for that if the client gives no id.
        """
        request = event.request
        assert isinstance(request, FetchOffsets)
        try:
            if group is not None:
                group.check_offset_fetch(request.member_id, request.member_epoch)
        except KafkaError as error:
            return [Reply(event.token, error)]
        wanted = request.topics
        if wanted is None:
            stored = self._groups.get(request.group_id, {})
            wanted = [WantedTopic(name, list(partitions)) for name, partitions in stored.items()]
        topics = [self._fetch_topic(request, one, topic_id_of(one.name, image)) for one in wanted]
        answer = OffsetFetchResponseGroup(group_id=request.group_id, topics=topics)
        return [Reply(event.token, OffsetFetchResponse(groups=[answer]), durable=True)]

    def _fetch_topic(self, request: FetchOffsets, wanted: WantedTopic, present_id: Uuid) -> OffsetFetchResponseTopics:
        topic_id = present_id if wanted.topic_id == ZERO_UUID else wanted.topic_id
        group_id, name = request.group_id, wanted.name
        stored = self._groups.get(group_id, {}).get(name, {})
        answers = []
        for index in wanted.partitions:
            answer = OffsetFetchResponsePartitions(partition_index=index, committed_offset=-1, metadata="")
            answers.append(answer)
            if request.require_stable and self._pending.unstable(group_id, name, index):
                answer.error_code = ErrorCode.UNSTABLE_OFFSET_COMMIT
                continue
            value = stored.get(index)
            if value is None:
                continue
            offset, place = read_offset(value), (group_id, name, index)
            if same_topic(offset.topic_id, topic_id) and not self._deleted_topics.is_gone(place, value):
                answer.committed_offset = offset.offset
                answer.committed_leader_epoch = offset.leader_epoch
                answer.metadata = offset.metadata
        return OffsetFetchResponseTopics(name=name, topic_id=wanted.topic_id, partitions=answers)

    # -- deletion -----------------------------------------------------------------------------------------------------

    def delete(self, group: Group | None, event: GroupRequest) -> list[Action]:
        """OffsetDelete: not in topics that members still read."""
        request = event.request
        assert isinstance(request, OffsetDeleteRequest)
        if group is None:
            error = KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {event.group_id} not found.")
            return [Reply(event.token, error)]
        if group.type is GroupType.CLASSIC and group.protocol_type != _CONSUMER and group.state in _MEMBERS_ABOUT:
            return [Reply(event.token, KafkaError(ErrorCode.NON_EMPTY_GROUP))]
        if group.state == _DEAD:
            return [Reply(event.token, KafkaError(ErrorCode.GROUP_ID_NOT_FOUND))]
        places = []
        topics = []
        for topic in request.topics:
            code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if group.subscribes(topic.name) else ErrorCode.NONE
            indexes = [one.partition_index for one in topic.partitions]
            answers = [OffsetDeleteResponsePartition(partition_index=index, error_code=code) for index in indexes]
            topics.append(OffsetDeleteResponseTopic(name=topic.name, partitions=answers))
            if not code:
                places += [
                    (event.group_id, topic.name, i) for i in indexes if self._holds(event.group_id, topic.name, i)
                ]
        replies = [Reply(event.token, OffsetDeleteResponse(topics=topics))]
        return [Write(self._delete(places), replies, divisible=True)]

    def _holds(self, group_id: str, topic: str, partition: int) -> bool:
        committed = partition in self._groups.get(group_id, {}).get(topic, ())
        return committed or self._pending.unstable(group_id, topic, partition)

    def delete_group(self, group_id: str) -> list[CoordinatorRecord]:
        """The group is deleted, with all its offsets."""
        committed = [
            (group_id, topic, partition)
            for topic, partitions in self._groups.get(group_id, {}).items()
            for partition in partitions
        ]
        return self._delete(committed + [(group_id, *pending) for pending in self._pending.partitions(group_id)])

    @property
    def deletion_under_way(self) -> bool:
        """Whether offsets of deleted topics may be left."""
        return self._deleted_topics.under_way

    def topics_deleted(self, topics: Mapping[str, Uuid]) -> list[CoordinatorRecord]:
        """Topics are gone, by name and id: so are the offsets of open transactions in them. Those that are committed follow."""
        self._deleted_topics.add(topics, self._groups)
        return self._delete(
            place
            for place, value in list(self._pending.items())
            if place[1] in topics and same_topic(read_offset(value).topic_id, topics[place[1]])
        )

    def delete_of_topics(self) -> list[CoordinatorRecord]:
        """Delete the next offsets of deleted topics, but none of newer topics of their names.

        Nor where an open transaction has brought one meanwhile, which is of a newer topic: a tombstone would take that, too.
        """
        places = self._deleted_topics.look(self._groups)
        return self._delete(place for place in places if not self._pending.brings(place))

    # -- expiry -------------------------------------------------------------------------------------------------------

    def expire(self, groups: Mapping[str, Group], now: Now) -> Expired:
        """Delete what has been kept for long enough, of some groups; call again while there is ``more``."""
        places, seen = self._expiry.look(groups, self._groups, self._pending, now)
        records = self._delete(places)
        empty = [one for one in seen if one not in self._groups and not self._pending.has(one)]
        return Expired(records, empty, self._expiry.under_way)


def _check_size(group_id: str, topics: Iterable[OffsetCommitRequestTopic | TxnOffsetCommitRequestTopic]) -> None:
    """Raises INVALID_COMMIT_OFFSET_SIZE if the records would be too much for one append. Each has the group's id."""
    size_bytes, group_bytes = 0, len(group_id.encode())
    for topic in topics:
        size_bytes += len(topic.partitions) * (group_bytes + len(topic.name.encode()) + _RECORD_BYTES)
        size_bytes += sum([len(one.committed_metadata or "") for one in topic.partitions])
    if size_bytes > _COMMIT_BYTES_MAX:
        raise KafkaError(ErrorCode.INVALID_COMMIT_OFFSET_SIZE)


def _no_such_group(api_version: int) -> None:
    if api_version >= _GROUP_NOT_FOUND_SINCE:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)
    raise KafkaError(ErrorCode.ILLEGAL_GENERATION)


def _check_in_transaction(group: Group | None, request: TxnOffsetCommitRequest, api_version: int) -> None:
    """Clients of transactions know ILLEGAL_GENERATION only."""
    if group is None:
        if request.generation_id >= 0:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
        return
    try:
        check = group.check_offset_commit(
            request.member_id,
            request.group_instance_id,
            request.generation_id,
            transactional=True,
            api_version=api_version,
        )
        if check is not None:
            for topic in request.topics:
                for partition in topic.partitions:
                    check(topic.name, ZERO_UUID, partition.partition_index)
    except KafkaError as error:
        if error.code == ErrorCode.STALE_MEMBER_EPOCH:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION, error.message) from error
        raise
