"""The plan over HTTP."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from stratalog.broker.http.tier_plan import _parts
from stratalog.broker.runtime.fresh_figures import LOOKS_A_STEP
from stratalog.cli.http import http_json
from stratalog.cli.output import NotFoundError
from stratalog.wire.topic import TopicPartition


@pytest.fixture
def waiting(start_node):
    """A broker with two topics that wait to be uploaded."""
    broker = start_node()
    for name in ("a", "b"):
        broker.create(
            name, remote_storage_enable="true", internal_segment_bytes=2000, retention_ms=-1, local_retention_ms=-1,
            remote_copy_lag_ms=3_600_000
        )  # fmt: skip
        for _ in range(5):
            broker.produce(name, *[b"v" * 100] * 5)
        broker.wait_until(lambda name=name: broker.partition(name).log.active_base_offset > 0)
    host, port = broker.node.http_address
    return lambda query="": http_json(f"{host}:{port}", "GET", f"/v1/tier/plan{query}")


def test_steps_of_all_or_one_topic(waiting):
    """With what they cost and why."""
    assert {step["topic"] for step in waiting()["steps"]} == {"a", "b"}
    answer = waiting("?topic=b")
    assert {step["topic"] for step in answer["steps"]} == {"b"}
    step = answer["steps"][0]
    assert (step["action"], step["start"], step["usage"]["writes"]) == ("wait", 0, 0)
    assert "remote.copy.lag" in step["why"]


def test_an_unknown_topic_is_not_found(waiting):
    """In a sentence."""
    with pytest.raises(NotFoundError, match="'absent' does not exist"):
        waiting("?topic=absent")


def test_it_pauses_while_it_puts_the_partitions_in_order():
    """A broker may lead a hundred thousand."""

    class Led:
        looks = 0

        def __init__(self, number):
            self.name = TopicPartition(f"t{number // 10}", number % 10)

        @property
        def topic_partition(self):
            Led.looks += 1
            return self.name

    tiering = SimpleNamespace(watched=lambda _: None)
    services = SimpleNamespace(led=list(map(Led, range(5000))), tiering=tiering, bucket_url="memory:")
    most = 0
    for _ in _parts(services, None):
        most, Led.looks = max(most, Led.looks), 0
    assert most <= LOOKS_A_STEP
