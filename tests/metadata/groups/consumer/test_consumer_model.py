"""Consumers that join, leave, die, lose answers and take their time, while topics change and coordinators fail over.

After every step no partition has two owners, epochs only grow, and a group that is loaded equals the group that was
stored. When things calm down everything is assigned.
"""

import copy

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from stratalog.metadata.groups.consumer.state import ConsumerGroupState
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions

SESSION_MS = 45_000
REVOKE_MS = 20_000
NAMES = ("a", "b", "ab")
SUBSCRIPTIONS = [
    (("a",), None),
    (("a", "b"), None),
    (("b", "ab"), None),
    ((), "a.*"),
    (("b",), "a"),
    (("later",), None),
]


class Consumer:
    """A client's belief. It takes what it is given at once, and gives up in its own time."""

    def __init__(self, member_id, topics, pattern, instance_id, assignor) -> None:
        self.member_id = member_id
        self.topics = topics
        self.pattern = pattern
        self.instance_id = instance_id
        self.assignor = assignor
        self.epoch = 0
        self.owned = set()
        self.told = set()
        self.heard_ms = 0
        self.unsure = False
        self.alive = True

    def fenced(self):
        """It has nothing and must join again."""
        self.epoch = 0
        self.owned = set()
        self.told = set()

    @property
    def subscription(self):
        return {"subscribed_topic_names": list(self.topics), "subscribed_topic_regex": self.pattern}


class ConsumerGroupMachine(RuleBasedStateMachine):
    """The group ``g`` and its consumers."""

    world_class = None

    def __init__(self) -> None:
        super().__init__()
        self.world = self.world_class({"a": 3, "b": 2}, consumer_assignment_interval_ms=1_000)
        self.consumers = []
        self.number = 0
        self.group_epoch = 0

    # -- what clients do --

    def _living(self):
        return [consumer for consumer in self.consumers if consumer.alive]

    def _beat(self, consumer, *, lose=False):
        joins = consumer.epoch == 0
        fields = {"instance_id": consumer.instance_id}
        owned = {}
        for topic, partition in consumer.owned:
            owned.setdefault(topic, []).append(partition)
        if joins or consumer.unsure:
            fields |= {"rebalance_timeout_ms": REVOKE_MS, "server_assignor": consumer.assignor, **consumer.subscription}
        listed = [TopicPartitions(topic_id=topic, partitions=numbers) for topic, numbers in owned.items()]
        try:
            answer = self.world.call(
                ConsumerGroupHeartbeatRequest(
                    group_id="g",
                    member_id=consumer.member_id,
                    member_epoch=consumer.epoch,
                    topic_partitions=listed,
                    **fields,
                )
            )
        except KafkaError as error:
            assert error.code in {
                ErrorCode.UNKNOWN_MEMBER_ID,
                ErrorCode.FENCED_MEMBER_EPOCH,
                ErrorCode.FENCED_INSTANCE_ID,
                ErrorCode.UNRELEASED_INSTANCE_ID,
                ErrorCode.GROUP_ID_NOT_FOUND,
            }, error
            consumer.fenced()
            if error.code in {ErrorCode.FENCED_INSTANCE_ID, ErrorCode.UNRELEASED_INSTANCE_ID}:
                consumer.alive = False
            return
        consumer.heard_ms = self.world.now.monotonic_ms
        if lose:
            consumer.unsure = True
            return
        consumer.unsure = False
        assert joins or answer.member_epoch >= consumer.epoch
        consumer.epoch = answer.member_epoch
        if answer.assignment is not None:
            consumer.told = {
                (part.topic_id, partition)
                for part in answer.assignment.topic_partitions
                for partition in part.partitions
            }
            consumer.owned |= consumer.told

    def _revoke(self, consumer):
        consumer.owned &= consumer.told

    def _drop_expired(self):
        """Clients know themselves when their sessions have ended; the coordinator's fencing reaches the others."""
        for consumer in self.consumers:
            if self.world.now.monotonic_ms - consumer.heard_ms >= SESSION_MS:
                consumer.fenced()
        group = self.world.shard.groups.get("g")
        members = group.facts.members if group is not None else {}
        for consumer in self.consumers:
            if consumer.member_id not in members:
                consumer.fenced()

    # -- rules --

    @rule(
        subscription=st.sampled_from(SUBSCRIPTIONS),
        static=st.sampled_from([None, None, "i1", "i2"]),
        assignor=st.sampled_from([None, None, "range", "uniform"]),
    )
    def join(self, subscription, static, assignor):
        if len(self._living()) < 5 and not any(
            one.alive and one.instance_id == static for one in self.consumers if static
        ):
            self.number += 1
            consumer = Consumer(f"m{self.number}", *subscription, static, assignor)
            self.consumers.append(consumer)
            self._beat(consumer)

    @precondition(lambda self: self._living())
    @rule(data=st.data(), lose=st.booleans(), revoke=st.booleans())
    def heartbeat(self, data, lose, revoke):
        consumer = data.draw(st.sampled_from(self._living()))
        if revoke:
            self._revoke(consumer)
        self._beat(consumer, lose=lose)

    @rule()
    def all_heartbeat(self):
        for consumer in self._living():
            self._revoke(consumer)
            self._beat(consumer)

    @precondition(lambda self: self._living())
    @rule(data=st.data())
    def leave(self, data):
        consumer = data.draw(st.sampled_from(self._living()))
        consumer.alive = False
        consumer.owned = set()
        self._say_goodbye(consumer, -1)

    @precondition(lambda self: any(one.instance_id for one in self._living()))
    @rule(data=st.data())
    def restart(self, data):
        """A static member restarts: its next process takes over what it had."""
        former = data.draw(st.sampled_from([one for one in self._living() if one.instance_id]))
        former.alive = False
        former.owned = set()
        self._say_goodbye(former, -2)
        self.number += 1
        consumer = Consumer(f"m{self.number}", former.topics, former.pattern, former.instance_id, former.assignor)
        self.consumers.append(consumer)
        self._beat(consumer)

    def _say_goodbye(self, consumer, epoch):
        try:
            self.world.beat(consumer.member_id, epoch, instance_id=consumer.instance_id)
        except KafkaError as error:
            assert error.code in {
                ErrorCode.UNKNOWN_MEMBER_ID,
                ErrorCode.GROUP_ID_NOT_FOUND,
                ErrorCode.FENCED_INSTANCE_ID,
            }

    @precondition(lambda self: self._living())
    @rule(data=st.data())
    def die(self, data):
        data.draw(st.sampled_from(self._living())).alive = False

    @precondition(lambda self: self._living())
    @rule(data=st.data(), subscription=st.sampled_from(SUBSCRIPTIONS))
    def resubscribe(self, data, subscription):
        consumer = data.draw(st.sampled_from(self._living()))
        consumer.topics, pattern = subscription
        consumer.pattern = pattern or ""
        consumer.unsure = True
        self._beat(consumer)

    @rule(milliseconds=st.sampled_from([100, 1_500, 12_000, 30_000]))
    def time_passes(self, milliseconds):
        self.world.advance(milliseconds)
        self._drop_expired()

    @rule(name=st.sampled_from(NAMES), count=st.integers(1, 5))
    def topic_grows(self, name, count):
        if name in self.world.image.topics.by_name:
            self.world.grow(name, count)
        else:
            self.world.create(name, count)

    @rule(name=st.sampled_from(NAMES))
    def topic_goes(self, name):
        if name in self.world.image.topics.by_name:
            gone = self.world.id(name)
            self.world.delete(name)
            for consumer in self.consumers:
                consumer.owned = {one for one in consumer.owned if one[0] != gone}

    @rule()
    def fail_over(self):
        """Sessions begin anew; nothing else changes."""
        self.world.reload()

    # -- what always holds --

    @invariant()
    def one_owner(self):
        """No partition is owned by two members."""
        owners = {}
        for consumer in self.consumers:
            for partition in consumer.owned:
                assert owners.setdefault(partition, consumer) is consumer, (partition, vars(consumer))

    @invariant()
    def owners_may_commit(self):
        """The owner of a partition may commit for it, in the epoch of its last answer."""
        group = self.world.shard.groups.get("g")
        for consumer in self._living():
            if group is None or not consumer.epoch or group.facts.members[consumer.member_id].epoch < 0:
                continue
            check = group.check_offset_commit(
                consumer.member_id, consumer.instance_id, consumer.epoch, transactional=False, api_version=9
            )
            for topic, partition in consumer.owned if check is not None else ():
                check("", topic, partition)

    @invariant()
    def epochs_grow(self):
        """Neither the group nor its targets go back."""
        group = self.world.shard.groups.get("g")
        if group is not None:
            assert group.facts.epoch >= self.group_epoch
            assert group.facts.target_epoch <= group.facts.epoch
            self.group_epoch = group.facts.epoch

    @invariant()
    def reload_is_equal(self):
        """A group made from the log is the group itself."""
        group = self.world.shard.groups.get("g")
        if group is None:
            return
        before = comparable(group.facts)
        kept = self.world.shard, list(self.world.log)
        after = comparable(self.world.reload().groups["g"].facts)
        self.world.shard, self.world.log = kept
        assert after == before

    def teardown(self):
        """Left alone, the group settles: everything is assigned, and no member waits."""
        for _ in range(40):
            self.world.advance(2_500)
            self._drop_expired()
            for consumer in self._living():
                self._revoke(consumer)
                self._beat(consumer)
            self.one_owner()
        living = self._living()
        if not living:
            return
        facts = self.world.facts
        assert facts.state is ConsumerGroupState.STABLE
        wanted = {
            (topic.topic_id, number)
            for name, topic in self.world.image.topics.by_name.items()
            if name in facts.topics()
            for number in topic.partitions
        }
        assert set().union(*(consumer.owned for consumer in living)) == wanted


def comparable(facts):
    """Everything that records say, without the order in which it was said."""
    found = {name: copy.copy(value) for name, value in vars(facts).items()}
    found["_owners"] = {topic: owners for topic, owners in found["_owners"].items() if owners}
    return found


def test_consumer_group(group_world):
    """The machine, in some random lives."""
    machine = type("Machine", (ConsumerGroupMachine,), {"world_class": group_world})
    run_state_machine_as_test(machine, settings=settings(max_examples=25, stateful_step_count=25, deadline=None))
