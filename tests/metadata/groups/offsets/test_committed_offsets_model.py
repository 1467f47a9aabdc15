"""Committed offsets against a model that keeps the offset of every record, with a reload at any point."""

from types import SimpleNamespace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from stratalog.metadata.coordination import Now, Producer
from stratalog.metadata.groups.group import GroupRequest, GroupSettings, GroupType
from stratalog.metadata.groups.offsets.committed_offsets import CommittedOffsets
from stratalog.metadata.groups.offsets.records import NEVER, read_offset, read_offset_key
from stratalog.metadata.groups.offsets.requests import FetchOffsets, TransactionEnded, WantedTopic
from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from stratalog.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from stratalog.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

GROUPS, TOPICS, PARTITIONS, PRODUCERS = ("g", "h"), ("t", "u"), (0, 1), (1, 2)
PLACES = [(group, topic, partition) for group in GROUPS for topic in TOPICS for partition in PARTITIONS]
RETENTION_MS = 100
GROUP = {
    name: SimpleNamespace(
        group_id=name, type=GroupType.CLASSIC, protocol_type="", state="Empty",
        empty_since_ms=-1, subscribes=lambda topic: topic == "u",
        check_offset_commit=lambda *_, **__: None, offset_committed=lambda *_: None, check_offset_fetch=lambda *_: None,
    )
    for name in GROUPS
}  # fmt: skip

places = st.sampled_from(PLACES)
some = st.integers(0, 99)


class Log:
    """The model: the log as Kafka replays it, an offset for every record and marker."""

    def __init__(self):
        self.entries = []
        self.committed = {}
        self.pending = {}
        self.unstable = {place: set() for place in PLACES}

    def append(self, key, value, producer):
        self.entries.append((key, value, producer))
        at = len(self.entries)
        place = read_offset_key(key)
        if value is None:
            self.committed.pop(place, None)
            for held in self.pending.values():
                held.pop(place, None)
            self.unstable[place].clear()
        elif producer is None:
            self.committed[place] = (at, read_offset(value))
        else:
            self.pending.setdefault(producer, {})[place] = (at, read_offset(value))
            self.unstable[place].add(producer)

    def end(self, producer, commit):
        self.entries.append((producer, commit))
        for place, held in self.pending.pop(producer, {}).items():
            self.unstable[place].discard(producer)
            if commit and held[0] > self.committed.get(place, (0,))[0]:
                self.committed[place] = held


class Offsets(RuleBasedStateMachine):
    """Requests in any order; markers reach the live state some time after they stand in the log."""

    @initialize()
    def begin(self):
        self.log = Log()
        self.wall_ms = 1_000
        self.on_the_way = []
        self.live = CommittedOffsets(GroupSettings(offsets_retention_ms=RETENTION_MS))

    def ask(self, step, request, group):
        event = GroupRequest(token="token", group_id=group, api_version=9, request=request)
        (action,) = step(GROUP[group], event, *([] if step == self.live.delete else [Now(0, self.wall_ms)]))
        for key, value in action.records:
            self.log.append(key, value, action.producer.producer_id if action.producer else None)

    @rule(place=places, offset=some, retention=st.sampled_from([-1, -1, 30]))
    def commit(self, place, offset, retention):
        group, topic, partition = place
        one = OffsetCommitRequestPartition(
            partition_index=partition, committed_offset=offset, committed_metadata=str(offset)
        )
        topics = [OffsetCommitRequestTopic(name=topic, topic_id=topic.encode() * 16, partitions=[one])]
        request = OffsetCommitRequest(group_id=group, member_id="", retention_time_ms=retention, topics=topics)
        self.ask(self.live.commit, request, group)

    @rule(place=places, offset=some, producer=st.sampled_from(PRODUCERS))
    def commit_in_transaction(self, place, offset, producer):
        if any(ended == producer for ended, _ in self.on_the_way):
            return  # a producer begins its next transaction when the last has ended
        group, topic, partition = place
        one = TxnOffsetCommitRequestPartition(
            partition_index=partition, committed_offset=offset, committed_metadata=None
        )
        topics = [TxnOffsetCommitRequestTopic(name=topic, partitions=[one])]
        request = TxnOffsetCommitRequest(
            transactional_id="x", group_id=group, producer_id=producer, producer_epoch=0, member_id="", topics=topics
        )
        self.ask(self.live.commit_in_transaction, request, group)

    @rule(producer=st.sampled_from(PRODUCERS), commit=st.booleans())
    def write_marker(self, producer, commit):
        self.log.end(producer, commit)
        self.on_the_way.append((producer, commit))

    @rule()
    def markers_committed(self):
        for producer, commit in self.on_the_way:
            self.live.transaction_ended(TransactionEnded(Producer(producer, 0), commit))
        self.on_the_way = []

    @rule(group=st.sampled_from(GROUPS), partitions=st.lists(st.sampled_from(PARTITIONS)))
    def delete(self, group, partitions):
        listed = [OffsetDeleteRequestPartition(partition_index=index) for index in partitions]
        request = OffsetDeleteRequest(group_id=group, topics=[OffsetDeleteRequestTopic(name="t", partitions=listed)])
        self.ask(self.live.delete, request, group)

    @rule(group=st.sampled_from(GROUPS))
    def delete_group(self, group):
        for key, value in self.live.delete_group(group):
            self.log.append(key, value, None)

    @rule(topic=st.sampled_from(TOPICS))
    def delete_topic(self, topic):
        records = self.live.topics_deleted({topic: topic.encode() * 16})
        while self.live.deletion_under_way:
            records += self.live.delete_of_topics()
        for key, value in records:
            self.log.append(key, value, None)

    @rule(later_ms=st.sampled_from([-60, 0, 20, 60, 150]))
    def expire(self, later_ms):
        self.wall_ms += later_ms
        self.markers_committed()
        due = {
            place
            for place, (_, offset) in self.log.committed.items()
            if place[1] == "t"
            and not self.log.unstable[place]
            and self.wall_ms
            >= (offset.commit_timestamp + RETENTION_MS if offset.expire_timestamp == NEVER else offset.expire_timestamp)
        }
        found = self.live.expire(GROUP, Now(0, self.wall_ms))
        assert not found.more
        assert {read_offset_key(key) for key, _ in found.records} == due
        for key, value in found.records:
            self.log.append(key, value, None)
        held = {place[0] for place in self.log.committed} | {p[0] for p in PLACES if self.log.unstable[p]}
        assert set(found.empty) == set(GROUPS) - held

    @rule()
    def reload(self):
        """The coordinator moves, or its broker starts again: nothing but the log is left."""
        self.on_the_way = []
        self.live = CommittedOffsets(GroupSettings(offsets_retention_ms=RETENTION_MS))
        for entry in self.log.entries:
            if len(entry) == 2:
                self.live.replay_marker(Producer(entry[0], 0), commit=entry[1])
            else:
                key, value, producer = entry
                self.live.replay(key, value, None if producer is None else Producer(producer, 0))

    @invariant()
    def answers_as_the_log(self):
        if self.on_the_way:
            return
        for group in GROUPS:
            wanted = [WantedTopic(topic, PARTITIONS) for topic in TOPICS]
            for stable in (False, True):
                request = FetchOffsets(group_id=group, topics=wanted, require_stable=stable)
                event = GroupRequest(token="token", group_id=group, api_version=9, request=request)
                (reply,) = self.live.fetch(GROUP[group], event)
                for topic in reply.response.groups[0].topics:
                    for one in topic.partitions:
                        place = (group, topic.name, one.partition_index)
                        if stable and self.log.unstable[place]:
                            assert one.error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT
                            continue
                        expected = self.log.committed.get(place)
                        found = (one.committed_offset, one.metadata)
                        assert found == ((expected[1].offset, expected[1].metadata) if expected else (-1, ""))
            assert self.live.has_offsets(group) == any(place[0] == group for place in self.log.committed)
            assert self.live.has_pending(group) == any(self.log.unstable[p] for p in PLACES if p[0] == group)


Offsets.TestCase.settings = settings(stateful_step_count=30)
TestOffsets = Offsets.TestCase
