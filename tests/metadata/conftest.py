"""Builders of images and a world of classic groups for the tests of this room."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from stratalog.metadata.controller.controller import BrokerStart, TopicRules, register_broker
from stratalog.metadata.coordination import CoordinatorRecord, Now, Reply, Write
from stratalog.metadata.groups.group import GroupRequest, GroupSettings
from stratalog.metadata.groups.shard.shard import GroupShard
from stratalog.metadata.image.brokers_image import ListenerAddress
from stratalog.metadata.image.features import bootstrap_records
from stratalog.metadata.image.image import EMPTY_IMAGE, ClusterImage
from stratalog.metadata.maps import persistent_map
from stratalog.metadata.settings.configs import ConfigResolver
from stratalog.wire.errors import KafkaError
from stratalog.wire.messages.heartbeat import HeartbeatRequest
from stratalog.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from stratalog.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from stratalog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from stratalog.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment


@pytest.fixture
def start_of() -> Callable[..., BrokerStart]:
    """The description that broker N gives when it starts."""

    def build(broker_id: int, *, rack: str | None = None, directories: int = 1) -> BrokerStart:
        return BrokerStart(
            broker_id=broker_id,
            incarnation_id=bytes([broker_id]) * 16,
            listeners={"PLAINTEXT": ListenerAddress("localhost", 9092 + broker_id)},
            directories=tuple(bytes([broker_id, index + 100]) * 8 for index in range(directories)),
            rack=rack,
        )

    return build


@pytest.fixture
def cluster(start_of) -> Callable[..., ClusterImage]:
    """An image with the given brokers registered and alive."""

    def build(*broker_ids: int, racks: dict[int, str] | None = None) -> ClusterImage:
        image = EMPTY_IMAGE.apply(bootstrap_records())
        for index, broker_id in enumerate(broker_ids):
            start = start_of(broker_id, rack=(racks or {}).get(broker_id))
            decision = register_broker(image, start, broker_epoch=10 + index, unclean_allowed=lambda _: False)
            image = image.apply(decision.records)
        return image

    return build


@pytest.fixture
def rules() -> TopicRules:
    """Kafka's defaults for new topics, of any replication factor."""
    return TopicRules(resolver=ConfigResolver.for_topics())


@pytest.fixture
def topic_ids() -> Callable[[], bytes]:
    """A factory of ids that never repeats and leaves nothing to chance."""
    numbers: Iterator[int] = iter(range(1, 1 << 20))
    return lambda: next(numbers).to_bytes(16, "big")


class ClassicWorld:
    """One shard of classic groups: a clock that a test moves, a log that commits on demand, answers by token.

    Tokens are names, ``join-a`` say, so that tests read well. Member ids are ``<client>-<name>``.
    """

    def __init__(self, *, held=False, **settings) -> None:
        self.settings = GroupSettings(**{"initial_rebalance_delay_ms": 0, **settings})
        self.now = Now(0, 1_700_000_000_000)
        self.log: list[CoordinatorRecord] = []
        self.answers: dict[str, Any] = {}
        self.held = held
        self._writes: list[Write] = []
        self._late: list[Reply] = []
        self.shard = GroupShard(0, self.settings, EMPTY_IMAGE)
        self.shard.loaded(self.now)

    @property
    def group(self) -> Any:
        """The group ``g``."""
        return self.shard.groups["g"]

    @property
    def state(self) -> str:
        """Its state."""
        return self.group.state

    @property
    def ids(self) -> list[str]:
        """Its members."""
        return list(self.group.members.by_id)

    # -- driver ---------------------------------------------------------------------------------------------------

    def take(self, actions) -> None:
        """Carry actions out, as a driver does."""
        for action in actions:
            if isinstance(action, Write):
                self._writes.append(action)
            elif action.durable and self._writes:
                self._late.append(action)
            else:
                self._answer(action)
        if not self.held:
            self.commit()

    def commit(self) -> None:
        """Commit the written records."""
        writes, self._writes = self._writes, []
        late, self._late = self._late, []
        for write in writes:
            self.log += write.records
            for reply in write.replies:
                self._answer(reply)
        for reply in late:
            self._answer(reply)

    def _answer(self, reply: Reply) -> None:
        assert reply.token not in self.answers, f"{reply.token} is answered twice"
        self.answers[reply.token] = reply.response

    def advance(self, milliseconds: int) -> None:
        """Time passes; deadlines are met in their order."""
        end = Now(self.now.monotonic_ms + milliseconds, self.now.wall_ms + milliseconds)
        while (moment := self.shard.deadline()) is not None and moment <= end.monotonic_ms:
            step = max(moment, self.now.monotonic_ms) - self.now.monotonic_ms
            self.now = Now(self.now.monotonic_ms + step, self.now.wall_ms + step)
            self.take(self.shard.due(self.now))
        self.now = end

    def restart(self) -> None:
        """Load the committed records into another shard, much later by its clock."""
        self._writes, self._late = [], []
        self.now = Now(self.now.monotonic_ms + 10_000_000, self.now.wall_ms + 1_000)
        self.shard = GroupShard(0, self.settings, EMPTY_IMAGE)
        for offset, (key, value) in enumerate(self.log):
            self.shard.replay(key, value, offset=offset, producer=None)
        self.take(self.shard.loaded(self.now))

    def ask(self, token: str, request: Any, version: int = 5, group_id: str = "g", fresh: str = "x") -> Any:
        """Give the shard a request; its answer, or None while there is none."""
        event = GroupRequest(token, group_id, version, request, "client", "/10.0.0.1", fresh)
        self.take(self.shard.step(event, self.now))
        return self.answers.get(token)

    # -- members --------------------------------------------------------------------------------------------------

    def join(self, name: str, member_id: str = "", *, protocols=("range",), version: int = 3, **fields) -> Any:
        """JoinGroup; version 3 needs no id. ``protocols``: names, or names with metadata."""
        named = protocols if isinstance(protocols, dict) else dict.fromkeys(protocols, subscription("t"))
        values = {
            "group_id": "g",
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 60_000,
            "member_id": member_id,
            "protocol_type": "consumer",
            "protocols": [JoinGroupRequestProtocol(name=one, metadata=metadata) for one, metadata in named.items()],
            **fields,
        }
        return self.ask(f"join-{name}", JoinGroupRequest(**values), version, values["group_id"], fresh=name)

    def rejoin(self, name: str, member_id: str, **fields) -> Any:
        """JoinGroup once more."""
        self.answers.pop(f"join-{name}", None)
        return self.join(name, member_id, **fields)

    def sync(self, name: str, member_id: str, generation: int, *, given=None, version: int = 3, **fields) -> Any:
        """SyncGroup; ``given`` are assignments by member id, from the leader."""
        assignments = [SyncGroupRequestAssignment(member_id=one, assignment=two) for one, two in (given or {}).items()]
        request = SyncGroupRequest(
            group_id="g", generation_id=generation, member_id=member_id, assignments=assignments, **fields
        )
        self.answers.pop(f"sync-{name}", None)
        return self.ask(f"sync-{name}", request, version)

    def beat(self, member_id: str, generation: int, instance_id: str | None = None) -> int:
        """Heartbeat; its error code."""
        request = HeartbeatRequest(
            group_id="g", generation_id=generation, member_id=member_id, group_instance_id=instance_id
        )
        self.answers.pop("beat", None)
        return self.ask("beat", request, 4).error_code

    def leave(self, *members: tuple[str, str | None], version: int = 5, token: str = "leave") -> Any:
        """LeaveGroup of (member id, instance id)."""
        identities = [MemberIdentity(member_id=one, group_instance_id=two) for one, two in members]
        request = LeaveGroupRequest(group_id="g", member_id=members[0][0], members=identities)
        self.answers.pop(token, None)
        return self.ask(token, request, version)

    def commit_offset(self, group_id: str = "g", *, member_id: str = "", generation: int = -1) -> int:
        """OffsetCommit of one offset in the topic ``t``, whose id ends with its name; its error code."""
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=5, committed_metadata="")
        request = OffsetCommitRequest(
            group_id=group_id,
            member_id=member_id,
            generation_id_or_member_epoch=generation,
            topics=[OffsetCommitRequestTopic(name="t", topic_id=bytes(15) + b"t", partitions=[partition])],
        )
        self.answers.pop("commit", None)
        answer = self.ask("commit", request, 8, group_id)
        return answer.code if isinstance(answer, KafkaError) else answer.topics[0].partitions[0].error_code

    def stable(self, *names: str, **fields) -> int:
        """Bring the group to Stable with these members; the generation. Each is assigned its own name."""
        for name in names:
            self.join(name, **fields)
        while self.state == "PreparingRebalance":
            self.advance(self.settings.initial_rebalance_delay_ms)
        return self.synced()

    def synced(self) -> int:
        """Every member syncs; the generation."""
        group = self.group
        generation, leader = group.generation, group.members.leader_id
        given = {one: one.encode() for one in group.members.by_id}
        for member_id, member in list(group.members.by_id.items()):
            if member_id != leader:
                self.sync(member_id, member_id, generation, group_instance_id=member.instance_id)
        self.sync(
            leader,
            leader,
            generation,
            given=given,
            group_instance_id=group.members.by_id[leader].instance_id,
        )
        return generation


def subscription(*topics: str, user_data: bytes = b"") -> bytes:
    """A consumer's subscription, version 0."""
    names = b"".join(len(topic).to_bytes(2) + topic.encode() for topic in topics)
    return b"\0\0" + len(topics).to_bytes(4) + names + len(user_data).to_bytes(4) + user_data


@pytest.fixture
def classic_world() -> type[ClassicWorld]:
    """Make a world with settings of the test's own."""
    return ClassicWorld


@pytest.fixture
def consumer_subscription() -> Callable[..., bytes]:
    """Make the subscription of a consumer to some topics."""
    return subscription


@pytest.fixture
def copied_items():
    """Count the items in leaves that a map does not share with the one before. ``a_change_max``: so many a change may copy.

    That is one leaf; or, as the hashes of this run fall, one that is full and is taken apart for the new item.
    """

    def count(before, after):
        shared = set(map(id, before.leaves()))
        return sum(len(leaf) for leaf in after.leaves() if id(leaf) not in shared)

    count.a_change_max = persistent_map._LEAF_ITEMS_MAX + 1
    return count
