"""Kafka's programs and clients under quotas: set by kafka-configs, obeyed or not."""

from __future__ import annotations

import pytest

pytestmark = [pytest.mark.java, pytest.mark.timeout(600)]

CONFIG = "kafka.admin.ConfigCommand"


@pytest.fixture(scope="module")
def broker(kafka, serve):
    """A broker of its own: quotas hold for every client."""
    return serve()


@pytest.fixture
def configs(kafka, broker):
    """Runs kafka-configs; it must end well, and what it printed is returned."""

    def run(*arguments: str) -> str:
        return kafka.run(CONFIG, "--bootstrap-server", broker.address, *arguments).ok()

    return run


@pytest.mark.parametrize(
    ("entity", "words", "quotas"),
    [
        (("--entity-type", "clients", "--entity-name", "etl"), "client-id 'etl'", "producer_byte_rate=1024"),
        (("--entity-type", "clients", "--entity-default"), "the default client-id", "consumer_byte_rate=2048"),
        (
            ("--entity-type", "users", "--entity-name", "alice", "--entity-type", "clients", "--entity-default"),
            "user-principal 'alice', the default client-id",
            "request_percentage=12.5",
        ),
        (("--entity-type", "ips", "--entity-name", "10.0.0.1"), "ip '10.0.0.1'", "connection_creation_rate=7"),
    ],
)
def test_kafka_configs_sets_describes_and_removes_quotas(configs, entity, words, quotas) -> None:
    """Every kind of entity, in kafka-configs' own words."""
    name, value = quotas.split("=")
    assert "Completed updating" in configs("--alter", *entity, "--add-config", quotas)
    described = configs("--describe", *entity)
    assert words in described
    assert f"{name}={float(value)}" in described
    assert "Completed updating" in configs("--alter", *entity, "--delete-config", name)
    assert name not in configs("--describe", *entity)


def test_kafkas_producer_keeps_to_its_quota(kafka, broker, configs) -> None:
    """kafka-producer-perf-test sends everything, and says that it was throttled."""
    kafka.run("TopicCommand", "--bootstrap-server", broker.address, "--create", "--topic", "limited").ok()
    configs("--alter", "--entity-type", "clients", "--entity-name", "slow", "--add-config", "producer_byte_rate=200000")
    printed = kafka.run(
        "ProducerPerformance",
        *("--topic", "limited", "--num-records", "2500", "--record-size", "1000", "--throughput", "-1"),
        *("--producer-props", f"bootstrap.servers={broker.address}", "client.id=slow", "acks=1"),
        "--print-metrics",
    ).ok()
    assert "2500 records sent" in printed
    throttled = next(line for line in printed.splitlines() if "produce-throttle-time-max" in line)
    assert float(throttled.rsplit(":", 1)[1]) > 0
