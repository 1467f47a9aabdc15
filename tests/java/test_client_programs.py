"""Kafka's producing and consuming programs against a running broker."""

from __future__ import annotations

import json
import re

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

pytestmark = [pytest.mark.java, pytest.mark.timeout(600)]

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@pytest.fixture(scope="module")
def broker(kafka, serve):
    return serve("log.retention.check.interval.ms=100")


@pytest.fixture(scope="module")
def create(broker):
    """Creates a topic of one partition."""
    admin = AdminClient({"bootstrap.servers": broker.address, "log_level": 0})

    def create(name: str, **config: str) -> str:
        named = {key.replace("_", "."): value for key, value in config.items()}
        admin.create_topics([NewTopic(name, 1, 1, config=named)])[name].result(30)
        return name

    return create


def consume(kafka, broker, topic: str, offset: str, count: int, *options: str) -> list[str]:
    """Lines of kafka-console-consumer, without a group."""
    return kafka.run(
        "consumer.ConsoleConsumer", "--bootstrap-server", broker.address, "--topic", topic, "--partition", "0",
        "--offset", offset, "--max-messages", str(count), "--timeout-ms", "20000", *options,
    ).ok().splitlines()  # fmt: skip


@pytest.mark.parametrize("codec", CODECS)
def test_the_perf_test_sends_everything_with_every_codec(kafka, broker, create, clients, codec) -> None:
    """kafka-producer-perf-test, acks=all and idempotent: no warning, every record once, sequences in order."""
    topic = create(f"perf-{codec}")
    said = kafka.run(
        "ProducerPerformance", "--topic", topic, "--num-records", "20000", "--record-size", "200", "--throughput", "-1",
        "--bootstrap-server", broker.address, "--command-property", "acks=all", "enable.idempotence=true",
        f"compression.type={codec}",
    )  # fmt: skip
    assert re.match(r"20000 records sent, [\d.]+ records/sec", said.ok().splitlines()[-1])
    assert said.err == ""
    rows = clients.read(broker.address, topic)
    assert [offset for offset, *_ in rows] == list(range(20000))
    dump = kafka.dump(broker.files(".log", ".index", ".timeindex", partition=f"{topic}-0"), "--deep-iteration").clean()
    assert {stored for *_, stored in dump.batches} == {codec}


def test_console_programs_read_what_they_wrote(kafka, broker, create) -> None:
    """kafka-console-producer with keys and headers; kafka-console-consumer from the start, an offset and the end back."""
    topic = create("console")
    lines = "".join(f"a:{i}\tkey-{i}\tvalue {i}\n" for i in range(50))
    kafka.run(
        "ConsoleProducer", "--bootstrap-server", broker.address, "--topic", topic, "--reader-property", "parse.key=true",
        "--reader-property", "parse.headers=true", stdin=lines,
    ).ok()  # fmt: skip
    shown = [f"Partition:0\tOffset:{i}\ta:{i}\tkey-{i}\tvalue {i}" for i in range(50)]
    properties = ("print.partition", "print.offset", "print.headers", "print.key")
    show = [word for name in properties for word in ("--formatter-property", f"{name}=true")]
    assert consume(kafka, broker, topic, "earliest", 50, *show) == shown
    assert consume(kafka, broker, topic, "40", 10, *show) == shown[40:]


def test_the_verifiable_producer_is_acknowledged_in_order(kafka, broker, create) -> None:
    """Every value is reported once, with the offset under which it is read."""
    topic = create("verifiable")
    said = kafka.run(
        "VerifiableProducer", "--bootstrap-server", broker.address, "--topic", topic, "--max-messages", "500", "--acks",
        "-1", "--value-prefix", "7",
    ).ok()  # fmt: skip
    told = [json.loads(line) for line in said.splitlines()]
    sent = {one["offset"]: one["value"] for one in told if one["name"] == "producer_send_success"}
    assert told[-1]["acked"] == 500
    assert sorted(sent) == list(range(500))
    assert consume(kafka, broker, topic, "earliest", 500) == [sent[offset] for offset in range(500)]


def test_a_console_consumer_reads_across_the_border_of_the_tier(kafka, broker, create, clients, until) -> None:
    """From offset 0, long gone from the disk, to the end; every CRC is checked by the client."""
    topic = create(
        "tiered",
        remote_storage_enable="true",
        local_retention_bytes="1",
        internal_segment_bytes="50000",
        retention_ms="-1",
    )
    values = [(topic, 0, b"%d " % i * 20, 1_700_000_000_000 + i) for i in range(5000)]
    clients.load(broker.address, "none", values, batch_num_messages=100)
    first = broker.data / f"{topic}-0" / f"{0:020}.log"
    until(lambda: not first.exists() and len(broker.files(".log", partition=f"{topic}-0")) == 1)
    assert consume(kafka, broker, topic, "earliest", 5000) == [value.decode() for _, _, value, _ in values]


def test_kafkas_compatibility_test_succeeds(kafka, broker) -> None:
    """Its own list of what a broker can do: all of it; access lists are known of, also where there is no authorizer."""
    supported = {
        "offsets-for-times": True,
        "cluster-id": True,
        "create-topics": True,
        "describe-acls": True,
        "describe-configs": True,
        "idempotent-producer": True,
    }
    options = [word for name, able in supported.items() for word in (f"--{name}-supported", str(able).lower())]
    said = kafka.run(
        "ClientCompatibilityTest", "--bootstrap-server", broker.address, "--topic", "compatible", *options,
        "--expect-record-too-large-exception", "false", "--num-cluster-nodes", "1",
    )  # fmt: skip
    assert said.ok().endswith("SUCCESS.\n")
