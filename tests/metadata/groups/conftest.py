"""A shard of groups whose log is a list, whose clock stands still, and whose topics come and go as a test says."""

from __future__ import annotations

from itertools import count

import pytest
from msgspec.structs import replace

from stratalog.metadata.coordination import Now, Reply, Write
from stratalog.metadata.groups.consumer.group import ConsumerGroup
from stratalog.metadata.groups.consumer.requests import DescribeConsumerGroup
from stratalog.metadata.groups.group import GroupRequest, GroupSettings
from stratalog.metadata.groups.shard.shard import GroupShard, TopicsChanged
from stratalog.metadata.image.image import EMPTY_IMAGE, Provenance
from stratalog.wire.errors import KafkaError
from stratalog.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from stratalog.wire.messages.heartbeat import HeartbeatRequest
from stratalog.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from stratalog.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from stratalog.wire.messages.sync_group import SyncGroupRequest
from stratalog.wire.records.consumer_protocol import (
    ConsumerProtocolSubscription,
    OwnedPartitions,
    decode_assignment,
    encode_protocol,
)
from stratalog.wire.records.metadata import ConfigRecord, PartitionRecord, RemoveTopicRecord, TopicRecord

GROUP_RESOURCE = 32
START_MS = 1_700_000_000_000


class GroupWorld:
    """One shard. Requests are answered at once, as if every append were committed at once."""

    def __init__(self, topics=None, **settings) -> None:
        self.settings = GroupSettings(**{"consumer_assignment_interval_ms": 0, **settings})
        self.image = EMPTY_IMAGE
        self.now = Now(0, START_MS)
        self.log = []
        self.answers = {}
        self.may_see = None
        self._tokens = count(1)
        self._ids = count(1)
        self.shard = GroupShard(0, self.settings, self.image)
        for name, partitions in (topics or {}).items():
            self.create(name, partitions)
        self.shard.loaded(self.now)

    # -- the cluster --

    def _apply(self, *records):
        removed = {
            record.topic_id: self.image.topics.by_id[record.topic_id].name
            for record in records
            if isinstance(record, RemoveTopicRecord)
        }
        offset = self.image.provenance.offset + len(records)
        self.image = self.image.apply(records, Provenance(offset, 1, self.now.wall_ms))
        self.take(self.shard.step(TopicsChanged(self.image, removed), self.now))

    def create(self, name, partitions):
        """A new topic; its id."""
        topic_id = next(self._ids).to_bytes(16)
        self._apply(TopicRecord(name=name, topic_id=topic_id))
        self.grow(name, partitions)
        return topic_id

    def grow(self, name, partitions):
        """A topic has so many partitions now."""
        topic = self.image.topics.by_name[name]
        self._apply(
            *(
                PartitionRecord(
                    partition_id=number,
                    topic_id=topic.topic_id,
                    replicas=[0],
                    isr=[0],
                    removing_replicas=[],
                    adding_replicas=[],
                    leader=0,
                    leader_epoch=0,
                    partition_epoch=0,
                )
                for number in range(len(topic.partitions), partitions)
            )
        )

    def delete(self, name):
        """A topic is gone."""
        self._apply(RemoveTopicRecord(topic_id=self.id(name)))

    def configure(self, group_id, **values):
        """Settings of a group."""
        self._apply(
            *(
                ConfigRecord(
                    resource_type=GROUP_RESOURCE, resource_name=group_id, name=name.replace("_", "."), value=value
                )
                for name, value in values.items()
            )
        )

    def id(self, name):
        """The id of a topic."""
        return self.image.topics.by_name[name].topic_id

    # -- the shard --

    def take(self, actions):
        """Carry actions out: records into the log, answers to who asked. How many records there were."""
        written = 0
        for action in actions:
            if isinstance(action, Write):
                self.log += action.records
                written += len(action.records)
                for reply in action.replies:
                    self.answers[reply.token] = reply.response
            else:
                assert isinstance(action, Reply)
                self.answers[action.token] = action.response
        return written

    def ask(self, request, group_id="g", *, version=1, client_id="client", host="/10.0.0.1"):
        """The token of a request."""
        token = next(self._tokens)
        event = GroupRequest(token, group_id, version, request, client_id, host, f"id-{token}", self.may_see)
        self.take(self.shard.step(event, self.now))
        return token

    def call(self, request, group_id="g", **options):
        """The answer to a request; raises the error that it is answered with."""
        answer = self.answers.pop(self.ask(request, group_id, **options))
        if isinstance(answer, KafkaError):
            raise answer
        return answer

    def advance(self, milliseconds):
        """Time passes; how many records that made."""
        self.now = Now(self.now.monotonic_ms + milliseconds, self.now.wall_ms + milliseconds)
        written = 0
        while (moment := self.shard.deadline()) is not None and moment <= self.now.monotonic_ms:
            written += self.take(self.shard.due(self.now))
        return written

    def reload(self):
        """Another broker takes over: the shard is made anew from the log."""
        shard = GroupShard(0, self.settings, self.image)
        for offset, (key, value) in enumerate(self.log):
            shard.replay(key, value, offset=offset, producer=None)
        self.take(shard.loaded(self.now))
        self.shard = shard
        return shard

    def set(self, **settings):
        """Broker settings change."""
        self.settings = self.shard.settings = replace(self.settings, **settings)

    # -- consumers --

    @property
    def group(self) -> ConsumerGroup:
        """The group ``g``."""
        return self.shard.groups["g"]

    @property
    def facts(self):
        """The group as its records say."""
        return self.group.facts

    def member(self, member_id):
        """A member of the group."""
        return self.facts.members[member_id]

    def partitions(self, **owned):
        """Partitions by topic name, as requests list them."""
        return [TopicPartitions(topic_id=self.id(name), partitions=list(numbers)) for name, numbers in owned.items()]

    def beat(self, member_id, epoch, *, owned=None, group_id="g", version=1, **fields):
        """A heartbeat; ``owned`` is a mapping of topic names to partitions."""
        listed = None if owned is None else self.partitions(**owned)
        request = ConsumerGroupHeartbeatRequest(
            group_id=group_id, member_id=member_id, member_epoch=epoch, topic_partitions=listed, **fields
        )
        return self.call(request, group_id, version=version)

    def join(self, member_id, *topics, pattern=None, timeout_ms=60_000, **fields):
        """A member joins; what it is given, by topic name."""
        names = None if pattern is not None and not topics else list(topics)
        self.answer = self.beat(
            member_id,
            0,
            owned={},
            rebalance_timeout_ms=timeout_ms,
            subscribed_topic_names=names,
            subscribed_topic_regex=pattern,
            **fields,
        )
        return self.given(self.answer)

    def given(self, answer):
        """The partitions of an answer by topic name; None if it does not tell."""
        if answer.assignment is None:
            return None
        by_id = self.image.topics.by_id
        return {by_id[part.topic_id].name: set(part.partitions) for part in answer.assignment.topic_partitions}

    def describe(self, group_id="g"):
        """The group as administrators see it."""
        return self.call(DescribeConsumerGroup(group_id), group_id).groups[0]

    # -- members of the classic protocol --

    def classic_join(self, member_id, *topics, owned=None, instance_id=None, version=5, protocols=("range",), **fields):
        """JoinGroup of a consumer; the answer, or the token if there is none yet."""
        subscription = ConsumerProtocolSubscription(
            topics=list(topics),
            owned_partitions=[
                OwnedPartitions(topic=name, partitions=list(numbers)) for name, numbers in (owned or {}).items()
            ],
        )
        metadata = encode_protocol(subscription, 1)
        request = JoinGroupRequest(
            group_id="g",
            session_timeout_ms=fields.get("session_timeout_ms", 45_000),
            rebalance_timeout_ms=fields.get("rebalance_timeout_ms", 60_000),
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type=fields.get("protocol_type", "consumer"),
            protocols=[JoinGroupRequestProtocol(name=name, metadata=metadata) for name in protocols],
        )
        token = self.ask(request, version=version)
        return self.answer_to(token)

    def answer_to(self, token):
        """The answer, or the token itself if there is none yet. Raises the error that it is."""
        answer = self.answers.pop(token, token)
        if isinstance(answer, KafkaError):
            raise answer
        return answer

    def classic_sync(self, member_id, generation, *, instance_id=None, assignments=(), **fields):
        """SyncGroup; the answer, or the token if there is none yet."""
        request = SyncGroupRequest(
            group_id="g",
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance_id,
            assignments=list(assignments),
            **{"protocol_type": "consumer", "protocol_name": "range", **fields},
        )
        return self.answer_to(self.ask(request, version=5))

    def classic_beat(self, member_id, generation, *, instance_id=None):
        """Heartbeat; the error code."""
        request = HeartbeatRequest(
            group_id="g", generation_id=generation, member_id=member_id, group_instance_id=instance_id
        )
        return self.call(request, version=4).error_code

    def classic_leave(self, *members, version=5):
        """LeaveGroup; the answer."""
        identities = [
            MemberIdentity(member_id=member_id, group_instance_id=instance_id) for member_id, instance_id in members
        ]
        request = LeaveGroupRequest(group_id="g", member_id=members[0][0], members=identities)
        return self.call(request, version=version)

    def read_assignment(self, data):
        """The partitions in an assignment of the classic protocol, by topic name."""
        return {part.topic: set(part.partitions) for part in decode_assignment(data).assigned_partitions}


@pytest.fixture
def group_world():
    """Make a world: topics with their partition counts, and settings."""
    return GroupWorld
