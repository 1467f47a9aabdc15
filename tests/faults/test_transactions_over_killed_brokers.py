"""Transactions over three brokers, any of them killed or cut off, and whose records move to the bucket."""

import random
import re
import threading
import time

import pytest
from confluent_kafka import KafkaException

from stratalog.broker.local_cluster.cluster import LocalCluster
from stratalog.client.admin import delete_topics
from stratalog.client.client import BrokerAway
from stratalog.client.coordinators import GROUP
from stratalog.client.transactions import abort_transaction, describe_producers, describe_transaction, list_transactions
from stratalog.wire.errors import KafkaError
from stratalog.wire.topic import TopicPartition
from tests.faults.over_brokers import PRODUCERS, SETTINGS, Brokers, LibrdkafkaProducer, WireProducer, everywhere, until

pytestmark = pytest.mark.story

KILLING_SECONDS = 25
PATIENCE_SECONDS = 180
QUICK_TIER = {"log.retention.check.interval.ms": 200, "log.segment.delete.delay.ms": 100}
EARLIEST_LOCAL = -4


@pytest.fixture(scope="module")
def cluster(stratalog_loop, tmp_path_factory):
    """Three nodes in processes of their own; each test starts again what it kills."""
    directory = str(tmp_path_factory.mktemp("cluster"))
    made = LocalCluster(directory, stratalog_loop, count=3, settings={**SETTINGS, **QUICK_TIER})
    made.start()
    made.wait_ready(PATIENCE_SECONDS)
    yield made
    made.discard()


@pytest.fixture
def topic(request):
    """A name that no other test has."""
    return re.sub(r"\W+", "-", request.node.name)[:200]


@pytest.fixture
def brokers(cluster, topic):
    """Its brokers, with a topic for this test. A node that an earlier test has left dead starts again."""
    cluster.start()
    cluster.wait_ready(PATIENCE_SECONDS)
    return Brokers(cluster, topic=topic)


@pytest.fixture(params=PRODUCERS.values(), ids=PRODUCERS)
def new_producer(request, brokers):
    """Makes a producer of each protocol."""
    return lambda name, **options: request.param(brokers, name, **options).init()


@pytest.mark.parametrize("role", ["coordinator", "leader", "group"])
def test_a_broker_is_killed_in_the_middle_of_a_transaction(brokers, new_producer, role):
    """It comes back with all that it had, and the transaction is committed on all brokers; so is the next one."""
    producer = new_producer(brokers.key_at(1))
    group = brokers.key_at(3, GROUP)
    expected = everywhere(producer, "open")
    producer.offsets(group, 7)
    killed = {"coordinator": 1, "leader": 2, "group": 3}[role]
    brokers.cluster.kill(killed)
    brokers.back(killed)
    producer.end()
    expected += everywhere(producer, "next")
    producer.offsets(group, 8)
    producer.end()
    assert brokers.committed(len(expected)) == sorted(expected)
    until(lambda: brokers.offset_of(group) == 8)


def test_a_dead_broker_holds_up_its_own_partitions_and_no_others(brokers, new_producer):
    """The end is decided without it; its marker comes when it is back."""
    producer, other_key = new_producer(brokers.key_at(1)), brokers.key_at(3)
    expected = everywhere(producer, "w")
    brokers.cluster.kill(2)
    began = time.monotonic()
    producer.end()
    assert time.monotonic() - began < 20
    alive = [number for number, leader in brokers.leaders().items() if leader in (1, 3)]
    assert brokers.committed(len(alive), *alive) == [f"w-{number}" for number in alive]
    until(lambda: brokers.stable(*alive))
    other = new_producer(other_key)
    expected += everywhere(other, "other", alive)
    other.end()
    brokers.back(2)
    assert brokers.committed(len(expected)) == sorted(expected)
    expected += everywhere(producer, "after")
    producer.end()
    assert brokers.committed(len(expected)) == sorted(expected)


@pytest.mark.parametrize("commit", [True, False])
def test_a_coordinator_that_dies_between_decision_and_markers_sends_them_when_it_is_back(brokers, new_producer, commit):
    """Its log says what is not finished; the leader comes back later still."""
    producer = new_producer(brokers.key_at(1))
    group = brokers.key_at(2, GROUP)
    values = everywhere(producer, "w")
    producer.offsets(group, 7)
    brokers.cluster.kill(2)
    producer.end(commit=commit)
    brokers.cluster.kill(1)
    brokers.back(1)
    brokers.back(2)
    expected = sorted(values) if commit else []
    assert brokers.committed(len(expected)) == expected
    until(brokers.stable)
    until(lambda: brokers.offset_of(group) == (7 if commit else -1001))


def test_a_topic_that_is_deleted_needs_no_marker(brokers, new_producer):
    """Not even where its broker is dead when the transaction ends."""
    key = brokers.key_at(1)
    producer = new_producer(key)
    everywhere(producer, "w")
    brokers.cluster.kill(3)
    producer.end()
    with brokers.client() as client:
        delete_topics(client, [brokers.topic])

    def complete():
        with brokers.client() as client:
            return describe_transaction(client, key).state == "CompleteCommit"

    until(complete)


def test_transactions_are_looked_at_and_ended_by_hand_on_the_broker_that_has_them(brokers):
    """``list`` asks all brokers, ``describe`` the coordinator, ``abort`` the partition's leader, with any coordinator.

    The marker by hand has the producer's own epoch and does not fence it, as in Kafka. Aborted records stay aborted.
    """
    name = brokers.key_at(1)
    producer = WireProducer(brokers, name).init()
    number = brokers.partition_at(2)
    producer.write(number, "never")
    where = TopicPartition(brokers.topic, number)
    with brokers.client() as client:
        assert name in [one.transactional_id for one in list_transactions(client)]
        described = describe_transaction(client, name)
        assert (described.state, list(described.partitions)) == ("Ongoing", [where])
        (open_there,) = describe_producers(client, where)
        brokers.cluster.kill(1)
        abort_transaction(client, where, open_there.start_offset)
    assert brokers.stable(number)
    brokers.back(1)
    producer.end()
    producer.write(number, "next")
    producer.end()
    assert brokers.committed(1, number) == ["next"]


class Writer(threading.Thread):
    """Transactions over all partitions until the test ends it; a third of them is aborted.

    An outcome that it did not hear may be either: a new producer has ended that transaction one way or the other.
    """

    def __init__(self, brokers, name, seed, make):
        super().__init__(name=name)
        self.brokers, self.make = brokers, make
        self.dice = random.Random(seed)
        self.ending = threading.Event()
        self.committed, self.unheard, self.ended = set(), set(), 0
        self.error = None

    def run(self):
        try:
            self._run()
        except Exception as error:  # noqa: BLE001 - told to the test
            self.error = error

    def _run(self):
        producer, number = None, 0
        while not self.ending.is_set():
            number += 1
            places = self.dice.sample(range(6), 4)
            values = {f"{self.name}.{number}.{place}" for place in places}
            commit = self.dice.random() < 0.7
            deciding = False
            try:
                producer = producer or self.make(self.brokers, self.name).init()
                for place in places:
                    producer.write(place, f"{self.name}.{number}.{place}")
                deciding = True
                producer.end(commit=commit)
                self.ended += 1
                if commit:
                    self.committed |= values
            except (KafkaException, KafkaError, BrokerAway):
                if deciding and commit:
                    self.unheard |= values
                producer = None


@pytest.mark.parametrize("seed", [1])
def test_brokers_are_killed_one_after_the_other_under_load(brokers, seed):
    """Committed records are there once, aborted ones are not, each transaction is whole, and none stays open."""
    dice = random.Random(seed)
    writers = [Writer(brokers, f"w{n}", seed + n, make) for n, make in enumerate([*PRODUCERS.values()] * 2)]
    for writer in writers:
        writer.start()
    until(lambda: all(writer.ended > 2 for writer in writers))
    deadline = time.monotonic() + KILLING_SECONDS
    kills = 0
    while time.monotonic() < deadline:
        killed = dice.choice([1, 2, 3])
        brokers.cluster.kill(killed)
        kills += 1
        time.sleep(dice.uniform(0, 1))
        brokers.back(killed)
        time.sleep(dice.uniform(0.5, 3))
    for writer in writers:
        writer.ending.set()
    for writer in writers:
        writer.join(180)
        assert not writer.is_alive()
        assert writer.error is None
    assert kills >= 2
    for writer in writers:  # a new producer ends what the last one has left open
        writer.make(brokers, writer.name).init()
    until(brokers.stable, what="the end of everything")
    expected = set().union(*[writer.committed for writer in writers])
    maybe = set().union(*[writer.unheard for writer in writers])
    found = brokers.committed(len(expected))
    assert len(found) == len(set(found)), "a record stands twice"
    assert not expected - set(found), "committed records are missing"
    assert not set(found) - expected - maybe, "records that were never committed"
    by_transaction = {}
    for value in found:
        by_transaction.setdefault(value.rpartition(".")[0], set()).add(value)
    assert {len(values) for values in by_transaction.values()} == {4}, "part of a transaction"


def test_brokers_that_do_not_reach_each_other_finish_when_they_do(stratalog_cluster):
    """The links of the coordinator are cut: the end is decided, its own partition has the marker, others wait for theirs."""
    brokers = Brokers(stratalog_cluster(nodes=3, settings={**SETTINGS, "broker.session.timeout.ms": 60_000}))
    brokers.cluster.partition(1, 2)
    producer = WireProducer(brokers, brokers.key_at(3)).init()
    values = []
    for place in range(6):
        producer.write(place, f"w-{place}")
        values.append(f"w-{place}")
    brokers.cluster.partition(3, 2)
    producer.end()
    away = brokers.partition_at(2)
    near = [place for place, leader in brokers.leaders().items() if leader != 2]
    assert brokers.committed(len(near), *near) == sorted(f"w-{place}" for place in near)
    assert not brokers.stable(away)
    brokers.cluster.heal()
    assert brokers.committed(6) == values
    until(brokers.stable)


def test_markers_of_other_brokers_go_to_the_bucket_with_the_records(cluster, topic):
    """Segments leave the disk with their aborted transactions; a reader from the beginning sees the commits alone."""
    configs = {
        "remote.storage.enable": "true",
        "internal.segment.bytes": "2000",
        "retention.ms": "-1",
        "local.retention.bytes": "0",
    }
    brokers = Brokers(cluster, partitions=3, topic=topic, **configs)
    producer = LibrdkafkaProducer(brokers, brokers.key_at(1)).init()
    expected = []
    for number in range(60):
        commit = number % 3 != 0
        for place in range(3):
            value = f"{number}-{place}-{'x' * 100}"
            producer.write(place, value)
            if commit:
                expected.append(value)
        producer.end(commit=commit)

    def moved():
        with brokers.client() as client:
            local = client.list_offsets({TopicPartition(topic, place): EARLIEST_LOCAL for place in range(3)})
            return all(one.offset > 20 for one in local.values())

    until(moved, what="the move to the bucket")
    assert brokers.committed(len(expected)) == sorted(expected)
    brokers.cluster.kill(2)
    brokers.back(2)
    assert brokers.committed(len(expected)) == sorted(expected)
