"""Committed settings that this release cannot read."""

import http.client
import logging

import pytest

from stratalog.broker.control.unreadable_settings import UnreadableSettings
from stratalog.broker.runtime.metrics import Metrics
from stratalog.metadata.image.decision import Decision
from stratalog.metadata.image.difference import difference
from stratalog.metadata.image.image import EMPTY_IMAGE
from stratalog.wire.records.metadata import ConfigRecord

TOPIC, BROKER, METRICS, GROUP = 2, 4, 16, 32


def record(kind, holder, name, value):
    return ConfigRecord(resource_type=kind, resource_name=holder, name=name, value=value)


UNREADABLE = (
    record(BROKER, "", "max.connections.per.ip.overrides", "127.0.0.1"),
    record(BROKER, "", "max.connections", "many"),
    record(BROKER, "1", "log.retention.ms", "for ever"),
    record(BROKER, "", "listener.name.x.ssl.client.auth", "\x00"),
    record(TOPIC, "t", "retention.bytes", "all"),
    record(TOPIC, "t", "min.insync.replicas", "two"),
    record(GROUP, "g", "consumer.session.timeout.ms", "long"),
    record(METRICS, "m", "interval.ms", "short"),
)


def commit(broker, *records):
    """Write them past all checks, as another release would."""
    broker.run(lambda: broker.node.control.execute(lambda image: Decision(records, None), source="test", size=1))


async def at_once(steps):
    for _ in steps:
        pass


async def follow(found, before, records):
    image = before.apply(records)
    await found.follow(image, difference(before, image))
    return image


async def test_each_is_named_once_in_the_log_and_as_a_problem_until_it_goes(caplog):
    """With its holder, the reason and the remedy; the figure counts them."""
    found, metrics = UnreadableSettings(at_once), Metrics()
    found.add_metrics(metrics)
    image = await follow(found, EMPTY_IMAGE, [record(TOPIC, "t", "retention.ms", "5")])
    assert found.problems() == []
    image = await follow(found, image, [record(TOPIC, "t", "retention.bytes", "all"), record(BROKER, "", "x", "y")])
    image = await follow(found, image, [record(TOPIC, "t", "segment.bytes", "2097152")])
    (problem,) = found.problems()
    assert "topic t" in problem
    assert "Invalid value all for configuration retention.bytes" in problem
    assert "write it anew or remove it" in problem
    assert [one.getMessage() for one in caplog.records if one.levelno == logging.ERROR] == [problem]
    assert "stratalog_unreadable_settings 1" in metrics.render().decode()
    await follow(found, image, [record(TOPIC, "t", "retention.bytes", None)])
    assert found.problems() == []
    assert "stratalog_unreadable_settings 0" in metrics.render().decode()


async def test_the_first_look_is_at_all_settings():
    """An image that a snapshot brings may hold some already."""
    found, image = UnreadableSettings(at_once), EMPTY_IMAGE.apply(UNREADABLE)
    await found.follow(image, difference(image, image))
    assert len(found.problems()) == len(UNREADABLE) - 1  # names of listeners are not known to have a value
    assert any("of all brokers " in one for one in found.problems())


def test_a_node_goes_on_and_starts_again_with_settings_that_it_cannot_read(broker):
    """A node that ended over a committed record would end at each start, and so would all others."""

    def in_force():
        limits = broker.node.server.limits
        return limits.connections_max, limits.per_ip_overrides

    broker.create("t")
    commit(broker, record(BROKER, "", "max.connections", "77"))
    commit(broker, *UNREADABLE)
    assert in_force() == (77, {})  # the former value holds
    broker.produce("t", b"x")
    broker.create("later")
    broker.stop()
    broker.start()
    broker.produce("t", b"y")
    assert len(broker.values("t")) == 2
    host, port = broker.node.http_address
    asked = http.client.HTTPConnection(host, port, timeout=20)
    asked.request("GET", "/readyz?verbose")
    text = asked.getresponse().read().decode()
    asked.close()
    assert "problem: a committed setting of topic t cannot be read" in text
    assert not broker.node.failed.is_set()


@pytest.mark.parametrize("name", ["retention.ms", "retention.bytes", "cleanup.policy", "delete.retention.ms"])
def test_records_stay_while_what_decides_about_them_cannot_be_read(broker, name):
    """The owner may have asked for every record to be kept."""
    broker.create("t")
    commit(broker, record(TOPIC, "t", name, "?"))
    config = broker.partition("t").log.config
    assert not config.deletes
    assert not config.compacted
