"""Classic groups of kafka-python and aiokafka: their strategies, one of our own, several clients in one group."""

import asyncio
import threading
import time

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor as AioRoundRobin
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor as AioSticky
from kafka import KafkaAdminClient, KafkaConsumer
from kafka.coordinator.assignors.abstract import AbstractPartitionAssignor
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment, ConsumerProtocolSubscription

WAIT_SECONDS = 40
OPAQUE = bytes(range(256)) + b"\xff\x00"


@pytest.fixture(scope="module")
def node(start_shared_node):
    """A broker with quick groups."""
    return start_shared_node(
        group_initial_rebalance_delay_ms=0, group_min_session_timeout_ms=1_000, offsets_topic_num_partitions=4
    )


def eventually(condition, what):
    """Wait until a condition holds."""
    end = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < end, what()
        time.sleep(0.02)


class Member:
    """A consumer of kafka-python in a thread of its own."""

    def __init__(self, node, group, topic, *strategies, **config) -> None:
        self.read, self.owned, self.failure = [], frozenset(), None
        self._ends = threading.Event()
        self.consumer = KafkaConsumer(
            bootstrap_servers=node.address,
            group_id=group,
            partition_assignment_strategy=strategies or (RangePartitionAssignor,),
            auto_offset_reset="earliest",
            auto_commit_interval_ms=100,
            session_timeout_ms=5_000,
            heartbeat_interval_ms=100,
            retry_backoff_ms=20,
            **config,
        )
        # Known beforehand: kafka-python 3.0 may fall silent when it learns of its topic while it joins.
        self.consumer.partitions_for_topic(topic)
        self.consumer.subscribe([topic])
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._ends.is_set():
                for records in self.consumer.poll(timeout_ms=100).values():
                    self.read += [(one.partition, one.offset) for one in records]
                self.owned = frozenset(one.partition for one in self.consumer.assignment())
        except Exception as error:  # noqa: BLE001 - looked at by the test
            self.failure = error
        self.consumer.close()

    def stop(self) -> None:
        """Leave the group."""
        self._ends.set()
        self._thread.join(WAIT_SECONDS)
        assert not self._thread.is_alive()
        self.owned = frozenset()


@pytest.fixture
def start(node):
    """Start members; all are closed after the test."""
    members = []

    def begin(group, topic, *strategies, **options):
        members.append(Member(node, group, topic, *strategies, **options))
        return members[-1]

    yield begin
    for one in members:
        one._ends.set()
    for one in members:
        one.stop()


def settle(*members, count):
    """Wait until the members have divided ``count`` partitions evenly, each once."""

    def divided():
        assert [one.failure for one in members] == [None] * len(members)
        owned = sorted(partition for one in members for partition in one.owned)
        sizes = [len(one.owned) for one in members]
        return owned == list(range(count)) and max(sizes) - min(sizes) <= 1

    eventually(divided, lambda: [sorted(one.owned) for one in members])


STRATEGIES = [RangePartitionAssignor, RoundRobinPartitionAssignor, StickyPartitionAssignor, CooperativeStickyAssignor]


@pytest.mark.story
@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda one: one.name)
def test_members_of_kafka_python_come_and_go(node, start, strategy):
    """By each of its strategies; what was written is read."""
    topic = f"py-{strategy.name}"
    node.create(topic, 6)
    members = [start(topic, topic, strategy) for _ in range(3)]
    settle(*members, count=6)
    members[0].stop()
    settle(*members[1:], count=6)
    for number in range(6):
        node.produce(topic, b"late", partition=number)
    eventually(lambda: sum(len(one.read) for one in members) == 6, lambda: [one.read for one in members])


class Opaque(AbstractPartitionAssignor):
    """A strategy that no broker knows, with bytes that are no text."""

    name = "backwards"
    version = 0
    seen: list = []  # noqa: RUF012 - the leader's member list and every member's assignment

    @classmethod
    def assign(cls, cluster, group_subscriptions):
        """All partitions to the last member."""
        last = max(one.member_id for one in group_subscriptions)
        given = {}
        for one in group_subscriptions:
            cls.seen.append(one.metadata.user_data)
            partitions = cluster.partitions_for_topic("opaque") if one.member_id == last else ()
            assigned = [("opaque", sorted(partitions))] if partitions else []
            given[one.member_id] = ConsumerProtocolAssignment(cls.version, assigned, OPAQUE)
        return given

    def metadata(self, topics):
        """The subscription, with bytes of our own."""
        return ConsumerProtocolSubscription(self.version, sorted(topics), OPAQUE)

    @classmethod
    def on_assignment(cls, assignment, *_):
        """The leader's assignments."""
        cls.seen.append(assignment.user_data)


def test_fact_a_strategy_of_ones_own(node, start):
    """Its name is passed on, its bytes come back as they were."""
    node.create("opaque", 3)
    members = [start("opaque", "opaque", Opaque) for _ in range(2)]
    eventually(lambda: sorted(len(one.owned) for one in members) == [0, 3], lambda: [one.failure for one in members])
    assert {bytes(seen) for seen in Opaque.seen} == {OPAQUE}
    group = node.run(lambda: node.node.groups.host.of("opaque").shard.groups["opaque"])
    assert group.protocol_name == "backwards"


def test_a_static_member_of_kafka_python(node, start):
    """Comes back within its session, in its old place with its old partitions."""
    node.create("py-static", 4)
    members = [start("py-static", "py-static", group_instance_id=name) for name in ("one", "two")]
    settle(*members, count=4)
    group = node.run(lambda: node.node.groups.host.of("py-static").shard.groups["py-static"])
    owned, before = members[1].owned, group.members.static_ids["two"]
    members[1].stop()
    assert group.members.static_ids["two"] == before, "a static member does not leave"
    back = start("py-static", "py-static", group_instance_id="two")
    eventually(lambda: back.owned == owned, lambda: (back.owned, back.failure))
    assert group.members.static_ids["two"] != before
    assert (len(group.members.by_id), group.sessions_expired) == (2, 0)


def test_groups_in_kafka_pythons_admin(node, start):
    """Groups are listed, described and deleted."""
    node.create("py-seen", 2)
    one = start("py-seen", "py-seen")
    settle(one, count=2)
    admin = KafkaAdminClient(bootstrap_servers=node.address)
    try:
        assert "py-seen" in str(admin.list_groups())
        assert "Stable" in str(admin.describe_groups(["py-seen"]))
        one.stop()
        assert "Empty" in str(admin.describe_groups(["py-seen"]))
        assert "py-seen" in str(admin.delete_groups(["py-seen"]))
        assert "py-seen" not in str(admin.list_groups())
    finally:
        admin.close()


@pytest.mark.parametrize("strategy", [None, AioRoundRobin, AioSticky], ids=str)
def test_members_of_aiokafka_come_and_go(node, strategy):
    """Two share the partitions; when one leaves the other has all, and reads what is new."""
    topic = "aio" if strategy is None else f"aio-{strategy.name}"
    node.create(topic, 4)
    node.produce(topic, b"early")

    def consumer():
        more = {} if strategy is None else {"partition_assignment_strategy": (strategy,)}
        return AIOKafkaConsumer(
            topic,
            bootstrap_servers=node.address,
            group_id=topic,
            auto_offset_reset="earliest",
            session_timeout_ms=5_000,
            heartbeat_interval_ms=100,
            retry_backoff_ms=20,
            **more,
        )

    async def settled(count, *consumers):
        async with asyncio.timeout(WAIT_SECONDS):
            while [len(one.assignment()) for one in consumers] != [count] * len(consumers):
                for one in consumers:
                    await one.getmany(timeout_ms=5)

    async def live():
        first, second = consumer(), consumer()
        await first.start()
        await settled(4, first)
        await second.start()
        await settled(2, first, second)
        assert not first.assignment() & second.assignment()
        await first.stop()
        await settled(4, second)
        for number in range(4):
            node.produce(topic, b"late", partition=number)
        found = set()
        async with asyncio.timeout(WAIT_SECONDS):
            while len(found) < 4:
                record = await second.getone()
                if record.value == b"late":
                    found.add(record.partition)
        await second.stop()

    asyncio.run(live())


def test_different_libraries_in_one_group(node, start):
    """They agree on the strategy that both know."""
    node.create("mixed", 4)
    ours = start("mixed", "mixed", RangePartitionAssignor, RoundRobinPartitionAssignor)
    settle(ours, count=4)

    async def theirs():
        consumer = AIOKafkaConsumer(
            "mixed", bootstrap_servers=node.address, group_id="mixed", heartbeat_interval_ms=100, retry_backoff_ms=20
        )
        await consumer.start()
        async with asyncio.timeout(WAIT_SECONDS):
            while not (len(ours.owned) == len(consumer.assignment()) == 2):
                await consumer.getmany(timeout_ms=20)
        owned = {one.partition for one in consumer.assignment()}
        await consumer.stop()
        return owned | ours.owned

    assert asyncio.run(theirs()) >= {0, 1, 2, 3}
    settle(ours, count=4)
