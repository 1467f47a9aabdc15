"""Consumers of confluent-kafka with ``group.protocol=consumer`` (KIP-848) against a broker of ours."""

import contextlib
import threading
import time

import pytest
from confluent_kafka import Consumer, ConsumerGroupState, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from stratalog.metadata.groups.consumer import update as consumer_update
from stratalog.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from stratalog.wire.partitioner import coordinator_partition

WAIT_SECONDS = 40
SHARES = {1: [4], 2: [2, 2], 3: [1, 1, 2]}
"""How many of four partitions each of so many members has."""
PROTOCOLS = {
    "consumer": {"group.protocol": "consumer"},
    "classic": {"session.timeout.ms": 6_000, "heartbeat.interval.ms": 200},
}


def eventually(condition, what="what was waited for did not happen"):
    """Wait until a condition holds; what it returned."""
    end = time.monotonic() + WAIT_SECONDS
    while not (found := condition()):
        assert time.monotonic() < end, what() if callable(what) else what
        time.sleep(0.02)
    return found


class Member:
    """A consumer in a thread of its own, which keeps what it has read and what it owns."""

    def __init__(self, node, group, *topics, protocol="consumer", **config) -> None:
        settings = {
            "bootstrap.servers": node.address,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 100,
            "log_level": 0,
            **PROTOCOLS[protocol],
            **{name.replace("_", "."): value for name, value in config.items()},
        }
        self.consumer = Consumer(settings)
        self.read = []
        self.errors = []
        self.owned = frozenset()
        self._ends = threading.Event()
        self.consumer.subscribe(list(topics))
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        while not self._ends.is_set():
            message = self.consumer.poll(0.02)
            if message is not None and message.error() is None:
                self.read.append((message.topic(), message.partition(), message.offset()))
            elif message is not None:
                self.errors.append(message.error())
            self.owned = frozenset((one.topic, one.partition) for one in self.consumer.assignment())
        self.consumer.close()

    def stop(self):
        """Leave the group, if that has not happened yet."""
        self._ends.set()
        self._thread.join(WAIT_SECONDS)
        assert not self._thread.is_alive()
        self.owned = frozenset()


@pytest.fixture(scope="module")
def node(start_shared_node):
    """A broker with quick heartbeats and short sessions."""
    return start_shared_node(
        group_consumer_min_heartbeat_interval_ms=50,
        group_consumer_heartbeat_interval_ms=100,
        group_consumer_min_session_timeout_ms=1_000,
        group_consumer_session_timeout_ms=3_000,
        group_consumer_assignment_interval_ms=100,
        group_initial_rebalance_delay_ms=0,
        group_min_session_timeout_ms=1_000,
    )


@pytest.fixture
def member(node):
    """Make members; all of them leave after the test."""
    with contextlib.ExitStack() as stack:

        def make(group, *topics, **options):
            one = Member(node, group, *topics, **options)
            stack.callback(one.stop)
            return one

        yield make


def partitions(topic, count):
    """All partitions of a topic."""
    return {(topic, number) for number in range(count)}


def divided(wanted, *members):
    """Whether the members own just these partitions, each one once."""
    owned = [partition for one in members for partition in one.owned]
    return sorted(owned) == sorted(wanted)


def settle(wanted, *members, sizes=None):
    """Wait until the members have divided the partitions, into shares of these sizes."""
    eventually(
        lambda: divided(wanted, *members) and (sizes is None or sorted(len(one.owned) for one in members) == sizes),
        lambda: [(sorted(one.owned), one.errors) for one in members],
    )


def group_of(node, group):
    """The broker's own object for a group, to look at."""
    return node.node.groups.host.of(group).shard.groups[group]


def committed(node, group, topic, count):
    """The committed offsets of a topic."""
    reader = Consumer({"bootstrap.servers": node.address, "group.id": group})
    try:
        return [one.offset for one in reader.committed([TopicPartition(topic, n) for n in range(count)], timeout=20)]
    finally:
        reader.close()


def test_trigger_first_join(node, member):
    """The first member has everything, and reads it from the beginning."""
    node.create("first", 3)
    for number in range(3):
        node.produce("first", b"a", b"b", partition=number)
    one = member("g-first", "first")
    settle(partitions("first", 3), one)
    eventually(lambda: len(one.read) == 6)
    eventually(lambda: committed(node, "g-first", "first", 3) == [2, 2, 2])


def test_trigger_join_and_leave(node, member):
    """A second member takes half, and gives it back when it leaves."""
    node.create("share", 4)
    one = member("g-share", "share")
    settle(partitions("share", 4), one)
    two = member("g-share", "share")
    settle(partitions("share", 4), one, two, sizes=[2, 2])
    two.stop()
    settle(partitions("share", 4), one)


@pytest.mark.story
def test_partitions_of_an_expired_member_go_to_others(node, member):
    """The partitions of a member that is not heard of go to the others when its session has ended."""
    node.create("silent", 4)
    one = member("g-silent", "silent")
    settle(partitions("silent", 4), one)
    request = ConsumerGroupHeartbeatRequest(
        group_id="g-silent",
        member_id="silent",
        member_epoch=0,
        rebalance_timeout_ms=10_000,
        subscribed_topic_names=["silent"],
        topic_partitions=[],
    )
    assert node.link().call(request, 1).error_code == 0
    eventually(lambda: len(one.owned) == 2)
    settle(partitions("silent", 4), one)


def test_trigger_added_partitions(node, member):
    """Partitions that are added are divided among the members."""
    node.create("grows", 2)
    one, two = member("g-grows", "grows"), member("g-grows", "grows")
    settle(partitions("grows", 2), one, two, sizes=[1, 1])
    admin = AdminClient({"bootstrap.servers": node.address})
    for future in admin.create_partitions([NewPartitions("grows", 6)]).values():
        future.result(20)
    settle(partitions("grows", 6), one, two, sizes=[3, 3])


def test_trigger_new_topic_matching_a_pattern(node, member, monkeypatch):
    """A topic that is created and matches the subscription is read."""
    monkeypatch.setattr(consumer_update, "_PATTERNS_REST_MS", 100)
    node.create("logs-a", 2)
    one, two = member("g-pattern", "^logs-.*"), member("g-pattern", "^logs-.*")
    settle(partitions("logs-a", 2), one, two, sizes=[1, 1])
    node.create("logs-b", 2)
    node.create("other", 2)
    settle(partitions("logs-a", 2) | partitions("logs-b", 2), one, two, sizes=[2, 2])


def test_trigger_moved_coordinator(node, member):
    """When the coordinator has moved, members find it again and keep what they have."""
    node.create("moves", 4)
    one, two = member("g-moves", "moves"), member("g-moves", "moves")
    settle(partitions("moves", 4), one, two, sizes=[2, 2])
    before = one.owned, two.owned
    unified = node.partition("__consumer_offsets", coordinator_partition("g-moves", 50))

    def move():
        node.node.coordinators.released(unified)
        node.node.coordinators.led(unified)

    node.run(move)
    node.wait_until(lambda: not node.node.groups.loading)
    group = group_of(node, "g-moves")
    epoch = group.facts.epoch
    three = member("g-moves", "moves")
    settle(partitions("moves", 4), one, two, three, sizes=[1, 1, 2])
    assert group.facts.epoch > epoch
    assert one.owned <= before[0]
    assert two.owned <= before[1]


def test_a_deleted_topic_is_taken_from_its_members(node, member):
    """A topic that is deleted is taken from its members; the rest stays."""
    node.create("stays", 2)
    node.create("goes", 2)
    one = member("g-goes", "stays", "goes")
    settle(partitions("stays", 2) | partitions("goes", 2), one)
    admin = AdminClient({"bootstrap.servers": node.address})
    admin.delete_topics(["goes"])["goes"].result(20)
    settle(partitions("stays", 2), one)


def test_the_range_assignor_cuts_topics_into_runs(node, member):
    """With the range assignor, topics of 5 and 3 partitions are A0-2, B0-1 and A3-4, B2."""
    node.create("A", 5)
    node.create("B", 3)
    one = member("g-range", "A", "B", group_remote_assignor="range")
    two = member("g-range", "A", "B", group_remote_assignor="range")
    settle(partitions("A", 5) | partitions("B", 3), one, two, sizes=[3, 5])
    larger = max(one, two, key=lambda each: len(each.owned))
    assert larger.owned == {("A", 0), ("A", 1), ("A", 2), ("B", 0), ("B", 1)}


def test_idle_member_gets_work(node, member):
    """One of five members of a topic with four partitions is idle, until partitions are added."""
    node.create("idle", 4)
    members = [member("g-idle", "idle", group_remote_assignor="range") for _ in range(5)]
    settle(partitions("idle", 4), *members, sizes=[0, 1, 1, 1, 1])
    admin = AdminClient({"bootstrap.servers": node.address})
    admin.create_partitions([NewPartitions("idle", 5)])["idle"].result(20)
    settle(partitions("idle", 5), *members, sizes=[1, 1, 1, 1, 1])


@pytest.mark.story
def test_five_members_come_and_go(node, member):
    """While members come and go records are written; each is read, and the shares are even in the end."""
    node.create("busy", 10)
    written = 0

    def write():
        nonlocal written
        for number in range(10):
            node.produce("busy", b"x" * 10, partition=number)
        written += 1

    everybody, members = [], []
    for _ in range(5):
        members.append(member("g-busy", "busy"))
        everybody.append(members[-1])
        write()
    settle(partitions("busy", 10), *members, sizes=[2, 2, 2, 2, 2])
    for one in members[:3]:
        one.stop()
        write()
    members = members[3:]
    settle(partitions("busy", 10), *members, sizes=[5, 5])
    for _ in range(3):
        members.append(member("g-busy", "busy"))
        everybody.append(members[-1])
        write()
    settle(partitions("busy", 10), *members, sizes=[2, 2, 2, 2, 2])
    wanted = {("busy", number, offset) for number in range(10) for offset in range(written)}
    eventually(lambda: {record for one in everybody for record in one.read} == wanted)
    eventually(lambda: committed(node, "g-busy", "busy", 10) == [written] * 10)


def test_a_restarted_static_member_gets_its_partitions_back(node, member):
    """A static member that restarts gets its partitions back, and no other member notices."""
    node.create("static", 4)
    one = member("g-static", "static", group_instance_id="one")
    two = member("g-static", "static", group_instance_id="two")
    settle(partitions("static", 4), one, two, sizes=[2, 2])
    before, others = one.owned, two.owned
    group = group_of(node, "g-static")
    eventually(lambda: group.state == "Stable")
    epoch = group.facts.epoch
    one.stop()
    again = member("g-static", "static", group_instance_id="one")
    eventually(lambda: again.owned == before)
    assert two.owned == others
    assert group.facts.epoch == epoch


def test_static_instance_in_use(node, member):
    """A second process with the same instance id gets the error that it is in use."""
    node.create("in-use", 2)
    one = member("g-in-use", "in-use", group_instance_id="one")
    settle(partitions("in-use", 2), one)
    two = member("g-in-use", "in-use", group_instance_id="one")
    [error] = eventually(lambda: two.errors)
    assert "The instance ID is still used by another member" in error.str()
    assert one.owned == partitions("in-use", 2)


def test_an_expression_that_re2_refuses_is_an_error_of_the_consumer(node, member):
    """An expression that the client takes and RE2 does not is an error of the consumer."""
    one = member("g-bad", r"^(a)\1")
    [error] = eventually(lambda: one.errors)
    assert "The regular expression is not valid" in error.str()


@pytest.mark.story
@pytest.mark.parametrize("strategy", ["range,roundrobin", "cooperative-sticky"])
def test_members_change_the_protocol_one_by_one_and_lose_no_offset(node, member, strategy):
    """Members go over to the new protocol one by one, and back again: nothing is lost, offsets go on."""
    topic = f"moving-{strategy[:5]}"
    node.create(topic, 4)
    written = 0
    everybody = []

    def write():
        nonlocal written
        for number in range(4):
            node.produce(topic, b"x", partition=number)
        written += 1

    def come(protocol):
        options = {"partition_assignment_strategy": strategy} if protocol == "classic" else {}
        everybody.append(member(topic, topic, protocol=protocol, **options))
        return everybody[-1]

    def settle_all(*members):
        write()
        settle(partitions(topic, 4), *members, sizes=SHARES[len(members)])
        eventually(lambda: committed(node, topic, topic, 4) == [written] * 4)

    def kind():
        return node.run(lambda: group_of(node, topic).type.value)

    old = [come("classic"), come("classic")]
    settle_all(*old)
    assert kind() == "classic"
    new = [come("consumer")]
    settle_all(*old, *new)
    assert kind() == "consumer"
    old.pop().stop()
    new.append(come("consumer"))
    settle_all(*old, *new)
    old.pop().stop()
    settle_all(*new)
    assert kind() == "consumer"
    old = [come("classic")]
    settle_all(*old, *new)
    assert kind() == "consumer"
    for one in new:
        one.stop()
    settle_all(*old)
    assert kind() == "classic"
    wanted = {(topic, number, offset) for number in range(4) for offset in range(written)}
    assert {record for one in everybody for record in one.read} == wanted


def test_administrators_see_state_assignor_and_members(node, member):
    """The group is listed and described with its state, assignor and members; it cannot be deleted while it has some."""
    node.create("seen", 2)
    one = member("g-seen", "seen")
    settle(partitions("seen", 2), one)
    admin = AdminClient({"bootstrap.servers": node.address})
    listed = {group.group_id: group for group in admin.list_consumer_groups().result(20).valid}
    assert listed["g-seen"].type.name == "CONSUMER"
    described = eventually(
        lambda: next(
            (
                group
                for group in [admin.describe_consumer_groups(["g-seen"])["g-seen"].result(20)]
                if group.state is ConsumerGroupState.STABLE
            ),
            None,
        )
    )
    assert described.partition_assignor == "uniform"
    [known] = described.members
    assert {(part.topic, part.partition) for part in known.assignment.topic_partitions} == partitions("seen", 2)
    with pytest.raises(KafkaException):
        admin.delete_consumer_groups(["g-seen"])["g-seen"].result(20)
    one.stop()
    eventually(lambda: not admin.describe_consumer_groups(["g-seen"])["g-seen"].result(20).members)
    admin.delete_consumer_groups(["g-seen"])["g-seen"].result(20)
