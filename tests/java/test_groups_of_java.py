"""Classic groups of Kafka's own consumer: every assignor, members that are killed, static ones, and the way to KIP-848."""

from __future__ import annotations

from collections import Counter

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

pytestmark = [pytest.mark.java, pytest.mark.timeout(600)]

ASSIGNORS = ("Range", "RoundRobin", "Sticky", "CooperativeSticky")
PARTITIONS = 6
MESSAGES = 3000
KAFKA_ASSIGNORS = "org.apache.kafka.clients.consumer"


@pytest.fixture(scope="module")
def broker(kafka, serve):
    """A broker with quick groups of both protocols."""
    return serve(
        "group.initial.rebalance.delay.ms=0",
        "group.min.session.timeout.ms=1000",
        "group.consumer.min.session.timeout.ms=1000",
        "group.consumer.session.timeout.ms=6000",
        "group.consumer.min.heartbeat.interval.ms=100",
        "group.consumer.heartbeat.interval.ms=500",
        "group.consumer.migration.policy=bidirectional",
    )


@pytest.fixture
def topic(broker, request):
    """A topic of six partitions for each test."""
    name = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)
    admin = AdminClient({"bootstrap.servers": broker.address, "log_level": 0})
    admin.create_topics([NewTopic(name, PARTITIONS)])[name].result(60)
    return name


@pytest.fixture
def member(background, broker, topic):
    """Starts a VerifiableConsumer that prints every record that it consumes and commits each poll."""

    def start(assignor: str = "Range", *, protocol: str = "classic", instance: str = ""):
        options = ["--group-protocol", protocol]
        if protocol == "classic":
            options += ["--assignment-strategy", f"{KAFKA_ASSIGNORS}.{assignor}Assignor", "--session-timeout", "6000"]
        if instance:
            options += ["--group-instance-id", instance]
        return background(
            "VerifiableConsumer", "--bootstrap-server", broker.address, "--topic", topic, "--group-id", topic,
            "--reset-policy", "earliest", "--verbose", *options,
        )  # fmt: skip

    return start


@pytest.fixture
def producer(background, broker, topic):
    """Starts a VerifiableProducer that writes the numbers from 0 on."""
    return lambda: background(
        "VerifiableProducer", "--bootstrap-server", broker.address, "--topic", topic, "--max-messages", str(MESSAGES),
        "--throughput", "100", "--acks", "-1",
    )  # fmt: skip


def owned(program) -> set[int]:
    """The partitions that a consumer has now, by what it has printed."""
    partitions: set[int] = set()
    for event in program.events:
        numbers = {one["partition"] for one in event.get("partitions", ())}
        if event["name"] == "partitions_assigned":
            partitions |= numbers
        elif event["name"] == "partitions_revoked":
            partitions -= numbers
    return partitions


def divided(*programs) -> bool:
    """Whether they have all partitions, each one once, in even shares."""
    shares = [owned(program) for program in programs if program.alive()]
    evenly = max(map(len, shares)) - min(map(len, shares)) <= 1
    return evenly and sorted(number for share in shares for number in share) == list(range(PARTITIONS))


def values(program, name: str = "record_data") -> list[str]:
    """The values that a program consumed, or wrote."""
    return [event["value"] for event in program.events if event["name"] == name]


def seen_twice(*programs) -> int:
    """How often a value was consumed again, by the same program or another one."""
    return sum(count - 1 for count in Counter(value for one in programs for value in values(one)).values())


@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_members_come_are_killed_and_leave(member, producer, until, assignor) -> None:
    """Three share the partitions, one is killed, one leaves: every acknowledged record was consumed by a member."""
    members = [member(assignor), member(assignor)]
    writer = producer()
    until(lambda: divided(*members))
    members.append(member(assignor))
    until(lambda: divided(*members))
    until(lambda: len(values(members[0])) > 100)
    members[0].kill()
    until(lambda: divided(*members[1:]))
    members[1].stop()
    assert members[1].events[-1]["name"] == "shutdown_complete"
    until(lambda: divided(members[2]))
    writer.end().ok()
    written = values(writer, "producer_send_success")
    assert len(written) == MESSAGES
    until(lambda: set().union(*map(values, members)) == set(written))
    # While it waits for the others a member goes on with the partitions that it keeps, and its client commits nothing.
    print(f"{assignor}: {len(written):,} records, consumed twice: {seen_twice(*members)}")


def test_a_kept_partition_is_read_on_while_the_cooperative_sticky_group_rebalances(member, until) -> None:
    """The first of two members gives up only what the second one gets."""
    first = member("CooperativeSticky")
    until(lambda: divided(first))
    second = member("CooperativeSticky")
    until(lambda: divided(first, second))
    revoked = [event["partitions"] for event in first.events if event["name"] == "partitions_revoked"]
    assert sorted(len(partitions) for partitions in revoked if partitions) == [PARTITIONS // 2]


def test_a_static_member_that_is_restarted_gets_its_partitions_back(member, producer, until) -> None:
    """Killed and started again within its session: the other one is not disturbed."""
    first, second = member("RoundRobin", instance="a"), member("RoundRobin", instance="b")
    until(lambda: divided(first, second))
    before, disturbed = owned(second), len(first.events)
    second.kill()
    again = member("RoundRobin", instance="b")
    until(lambda: again.alive() and owned(again) == before)
    assert len(first.events) == disturbed
    writer = producer()
    writer.end().ok()
    until(lambda: set(values(first) + values(again)) == set(values(writer, "producer_send_success")))


def test_a_group_goes_over_to_the_new_protocol_and_back(member, producer, until) -> None:
    """Member by member, while records are written: each is consumed."""
    writer = producer()
    members = [member("CooperativeSticky"), member("CooperativeSticky")]
    until(lambda: divided(*members))
    everyone = list(members)
    for protocol in ("consumer", "classic"):
        for number in range(2):
            members[number].stop()
            members[number] = member("CooperativeSticky", protocol=protocol)
            everyone.append(members[number])
            until(lambda: divided(*members))
    writer.end().ok()
    written = values(writer, "producer_send_success")
    until(lambda: set().union(*map(values, everyone)) == set(written))
    print(f"{len(written):,} records, consumed twice: {seen_twice(*everyone)}")


def test_console_consumers_of_one_group_share_and_resume(kafka, background, broker, clients, topic, until) -> None:
    """kafka-console-consumer with --group in both protocols: two share the topic, a later one goes on behind them."""
    consumer = ["consumer.ConsoleConsumer", "--bootstrap-server", broker.address, "--topic", topic, "--group", topic]

    def load(first: int, count: int) -> list[str]:
        numbers = range(first, first + count)
        clients.load(broker.address, "none", [(topic, n % PARTITIONS, b"%d" % n, 0) for n in numbers])
        return sorted(map(str, numbers))

    two = [
        background(*consumer, "--from-beginning", "--command-property", f"group.protocol={protocol}")
        for protocol in ("consumer", "consumer")
    ]
    wanted = load(0, 600)
    until(lambda: sorted(line for one in two if one.alive() for line in one.said.split()) == wanted)
    for one in two:
        one.stop()
    wanted = load(600, 300)
    later = kafka.run(*consumer, "--max-messages", "300", "--timeout-ms", "60000").ok()
    assert sorted(later.split()) == wanted
