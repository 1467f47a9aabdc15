"""Classic groups of confluent-kafka (librdkafka): strategies, members that come and go, static ones, restarts."""

import contextlib
import socket
import threading
import time

import pytest
from confluent_kafka import Consumer, ConsumerGroupState, KafkaError
from confluent_kafka.admin import AdminClient, NewPartitions

from stratalog.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol

WAIT_SECONDS = 40
SESSION_MS = 1_500
SETTINGS = {
    "group_initial_rebalance_delay_ms": 0,
    "group_min_session_timeout_ms": 1_000,
    "offsets_topic_num_partitions": 4,
}


def eventually(condition, what="what was waited for did not happen"):
    """Wait until a condition holds; what it returned."""
    end = time.monotonic() + WAIT_SECONDS
    while not (found := condition()):
        assert time.monotonic() < end, what() if callable(what) else what
        time.sleep(0.02)
    return found


class Member:
    """A consumer in a thread of its own, which keeps what it has read, owns, was given and lost."""

    def __init__(self, address, group, *topics, strategy="range", **config) -> None:
        self.read = []
        self.errors = []
        self.given = []
        self.lost = []
        self.owned = frozenset()
        self.consumer = Consumer(
            {
                "bootstrap.servers": address,
                "group.id": group,
                "partition.assignment.strategy": strategy,
                "auto.offset.reset": "earliest",
                "auto.commit.interval.ms": 100,
                "session.timeout.ms": SESSION_MS,
                "heartbeat.interval.ms": 100,
                "topic.metadata.refresh.interval.ms": 200,
                "log_level": 0,
                "error_cb": self.errors.append,
                **{name.replace("_", "."): value for name, value in config.items()},
            }
        )
        self._incremental = strategy == "cooperative-sticky"
        self._ends = threading.Event()
        self.consumer.subscribe(list(topics), on_assign=self._on_assign, on_revoke=self._on_revoke)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _on_assign(self, consumer, partitions) -> None:
        self.given.append(frozenset((one.topic, one.partition) for one in partitions))
        (consumer.incremental_assign if self._incremental else consumer.assign)(partitions)

    def _on_revoke(self, consumer, partitions) -> None:
        self.lost.append(frozenset((one.topic, one.partition) for one in partitions))
        if self._incremental:
            consumer.incremental_unassign(partitions)
        else:
            consumer.unassign()

    def _run(self) -> None:
        while not self._ends.is_set():
            message = self.consumer.poll(0.02)
            if message is not None and message.error() is None:
                self.read.append((message.topic(), message.partition(), message.offset()))
            elif message is not None:
                self.errors.append(message.error())
            with contextlib.suppress(RuntimeError):
                self.owned = frozenset((one.topic, one.partition) for one in self.consumer.assignment())
        self.consumer.close()

    def stop(self) -> None:
        """Close the consumer: a dynamic one leaves the group."""
        self._ends.set()
        self._thread.join(WAIT_SECONDS)
        assert not self._thread.is_alive()
        self.owned = frozenset()


@pytest.fixture(scope="module")
def node(start_shared_node):
    """A broker with quick groups."""
    return start_shared_node(**SETTINGS)


@pytest.fixture
def start(node):
    """Start members; all are closed after the test."""
    members = []

    def begin(group, *topics, address=node.address, **options):
        members.append(Member(address, group, *topics, **options))
        return members[-1]

    yield begin
    for one in members:
        one._ends.set()
    for one in members:
        one.stop()


def group_of(node, group):
    """The broker's own object for a group."""
    return node.run(lambda: node.node.groups.host.of(group).shard.groups.get(group))


def shares(*members):
    """Partitions of each, as topic letters with partition numbers, in no order."""
    return sorted(sorted(f"{topic[-1]}{number}" for topic, number in one.owned) for one in members)


def settle(*members, count, sizes=None):
    """Wait until the members have divided ``count`` partitions among them, each once, into shares of these sizes."""

    def divided():
        owned = [partition for one in members for partition in one.owned]
        fits = sizes is None or sorted(len(one.owned) for one in members) == sorted(sizes)
        return fits and len(owned) == len(set(owned)) == count

    eventually(divided, lambda: [sorted(one.owned) for one in members])


# -- strategies --


def test_fact_range_gives_neighbours_to_each(node, start):
    """5 partitions, 3 members: {0,1} {2,3} {4}."""
    node.create("range-A", 5)
    members = [start("range-1", "range-A") for _ in range(3)]
    settle(*members, count=5, sizes=[2, 2, 1])
    assert shares(*members) == [["A0", "A1"], ["A2", "A3"], ["A4"]]


def test_fact_range_divides_each_topic_by_itself(node, start):
    """Topics of 5 and 3, 2 members: A0-2 with B0-1, and A3-4 with B2."""
    node.create("two-A", 5)
    node.create("two-B", 3)
    members = [start("range-2", "two-A", "two-B") for _ in range(2)]
    settle(*members, count=8, sizes=[5, 3])
    assert shares(*members) == [["A0", "A1", "A2", "B0", "B1"], ["A3", "A4", "B2"]]


def test_fact_an_idle_member_gets_work_when_partitions_are_added(node, start):
    """4 partitions, 5 members: one has none, until there are 5."""
    node.create("grows", 4)
    members = [start("idle", "grows") for _ in range(5)]
    settle(*members, count=4, sizes=[0, 1, 1, 1, 1])
    admin = AdminClient({"bootstrap.servers": node.address})
    admin.create_partitions([NewPartitions("grows", 5)])["grows"].result()
    settle(*members, count=5, sizes=[1] * 5)


def test_fact_the_strategy_is_chosen_by_votes(node, start):
    """[range, roundrobin], [roundrobin, range], [roundrobin, range]: roundrobin."""
    node.create("votes", 6)
    first = start("votes", "votes", strategy="range,roundrobin")
    settle(first, count=6)
    assert group_of(node, "votes").protocol_name == "range"
    others = [start("votes", "votes", strategy="roundrobin,range") for _ in range(2)]
    settle(first, *others, count=6, sizes=[2, 2, 2])
    assert group_of(node, "votes").protocol_name == "roundrobin"


@pytest.mark.story
@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
def test_five_members_come_and_go(node, start, strategy):
    """Each time the partitions are divided evenly; in the end every record has been read by a member."""
    topic = f"five-{strategy}"
    node.create(topic, 10)
    node.produce(topic, b"early", partition=0)
    members = []
    for count in range(1, 6):
        members.append(start(topic, topic, strategy=strategy))
        if count in {1, 3, 5}:
            settle(*members, count=10, sizes=[10 * (n + 1) // count - 10 * n // count for n in range(count)])
    for number in range(10):
        node.produce(topic, b"middle", partition=number)
    for one in members[1:4]:
        one.stop()
    settle(*members, count=10, sizes=[0, 0, 0, 5, 5])
    for number in range(10):
        node.produce(topic, b"late", partition=number)
    wanted = {(topic, number, offset) for number in range(10) for offset in range(3 if number == 0 else 2)}
    eventually(lambda: {record for one in members for record in one.read} >= wanted)
    assert [error for one in members for error in one.errors] == []
    members[0].stop()
    members[4].stop()
    assert group_of(node, topic).state == "Empty"


def test_a_cooperative_rebalance_stops_no_member(node, start):
    """A member that keeps a partition reads on: only moving ones are given up (KIP-429)."""
    node.create("calm", 6)
    first = start("calm", "calm", strategy="cooperative-sticky")
    settle(first, count=6)
    second = start("calm", "calm", strategy="cooperative-sticky")
    settle(first, second, count=6, sizes=[3, 3])
    assert frozenset().union(*first.lost) == second.owned
    assert first.owned <= first.given[0]
    assert frozenset().union(*first.given[1:]) == frozenset(), "nothing that it kept was given to it anew"


# -- what sets a rebalance off --


def test_fact_a_member_that_is_silent_is_replaced(node, start):
    """When its session has ended the others have its partitions."""
    node.create("silent", 4)
    alive = start("silent", "silent")
    settle(alive, count=4)
    subscription = b"\0\0\0\0\0\x01\0\x06silent\0\0\0\0"
    silent = JoinGroupRequest(
        group_id="silent",
        session_timeout_ms=1_000,
        rebalance_timeout_ms=10_000,
        member_id="",
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=subscription)],
    )
    assert node.link().call(silent, 0).error_code == 0
    eventually(lambda: len(alive.owned) < 4)
    settle(alive, count=4)


def test_fact_a_new_topic_that_matches_a_pattern(node, start):
    """It is read as soon as clients have seen it."""
    node.create("pattern-A", 2)
    one = start("pattern", "^pattern-.*")
    settle(one, count=2)
    node.create("pattern-B", 3)
    settle(one, count=5)


def test_fact_a_session_timeout_out_of_bounds_is_refused(node, start):
    """The consumer gets this error again and again."""
    node.create("bounds")
    one = start("bounds", "bounds", session_timeout_ms=900)
    eventually(lambda: any("session timeout" in str(error).lower() for error in one.errors), lambda: one.errors)
    assert group_of(node, "bounds") is None


# -- static members --


def test_fact_a_static_member_that_returns_keeps_the_generation(node, start):
    """Within its session: no other member notices (KIP-345)."""
    node.create("static", 4)
    stays = start("static", "static", group_instance_id="stays", session_timeout_ms=30_000)
    goes = start("static", "static", group_instance_id="goes", session_timeout_ms=30_000)
    settle(stays, goes, count=4, sizes=[2, 2])
    group = group_of(node, "static")
    generation, owned, told = group.generation, goes.owned, (len(stays.given), len(stays.lost))
    goes.stop()
    assert len(group.members.by_id) == 2
    back = start("static", "static", group_instance_id="goes", session_timeout_ms=30_000)
    eventually(lambda: back.owned == owned)
    assert (group.generation, group.state) == (generation, "Stable")
    assert (len(stays.given), len(stays.lost)) == told


def test_fact_a_second_process_with_the_same_instance_id_fences_the_first(node, start):
    """FENCED_INSTANCE_ID is fatal for it; the second has its place."""
    node.create("twins", 2)
    first = start("twins", "twins", group_instance_id="twin")
    settle(first, count=2)
    second = start("twins", "twins", group_instance_id="twin")
    eventually(lambda: len(second.owned) == 2)
    codes = {KafkaError._FATAL, KafkaError.FENCED_INSTANCE_ID}
    eventually(lambda: any(error.code() in codes for error in first.errors), lambda: first.errors)


# -- the coordinator --


def test_fact_a_coordinator_that_comes_back(start_node, start):
    """Members go on in the same generation with the same partitions, and read what is new."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    node = start_node(listeners=f"PLAINTEXT://127.0.0.1:{port}", **SETTINGS)
    node.create("moved", 4)
    members = [
        start("moved", "moved", address=node.address, session_timeout_ms=20_000, reconnect_backoff_max_ms=200)
        for _ in range(2)
    ]
    settle(*members, count=4, sizes=[2, 2])
    generation, owned = group_of(node, "moved").generation, [one.owned for one in members]
    node.restart()
    for number in range(4):
        node.produce("moved", b"new", partition=number)
    eventually(lambda: sum(len(one.read) for one in members) >= 4)
    node.wait_until(lambda: not node.node.groups.loading)
    assert group_of(node, "moved").generation == generation
    assert [one.owned for one in members] == owned


def test_administrators_see_the_group(node, start):
    """Its members, what they have, and that it is gone when it was deleted."""
    node.create("seen", 2)
    one = start("seen", "seen", client_id="me")
    settle(one, count=2)
    admin = AdminClient({"bootstrap.servers": node.address})
    described = admin.describe_consumer_groups(["seen"])["seen"].result()
    assert (described.state, described.partition_assignor) == (ConsumerGroupState.STABLE, "range")
    (member,) = described.members
    assert member.client_id == "me"
    assert {(part.topic, part.partition) for part in member.assignment.topic_partitions} == one.owned
    listed = admin.list_consumer_groups(states={ConsumerGroupState.STABLE}).result()
    assert "seen" in {group.group_id for group in listed.valid}
    assert listed.errors == []
    one.stop()
    admin.delete_consumer_groups(["seen"])["seen"].result()
    assert group_of(node, "seen") is None
