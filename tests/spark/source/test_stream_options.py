"""Options that only a stream has."""

from __future__ import annotations

import pytest

from stratalog.spark.source.options import EARLIEST, LATEST, parse_options
from stratalog.spark.source.stream_options import StreamOptions, parse_stream
from stratalog.spark.source.stream_plan import BatchLimits
from stratalog.wire.errors import Invalid
from stratalog.wire.topic import TopicPartition

ORDERS = TopicPartition("orders", 0)


def test_without_options_all_that_there_is_is_read():
    """Manifests every five seconds, listings every minute, brokers twice a second."""
    assert parse_stream({}) == StreamOptions(BatchLimits(None, None, 900_000), 5000, 60_000, 500)


def test_limits_have_the_names_of_the_kafka_source():
    """In any case, times as Spark writes them."""
    given = {"MAXOFFSETSPERTRIGGER": "1000", "minOffsetsPerTrigger": "10", "maxtriggerdelay": "5m"}
    given |= {"manifestRefresh": "250ms", "discoveryInterval": "1h", "hotTailRefresh": "1s"}
    assert parse_stream(given) == StreamOptions(BatchLimits(1000, 10, 300_000), 250, 3_600_000, 1000)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"maxOffsetsPerTrigger": "0"}, "option 'maxOffsetsPerTrigger' must be at least 1"),
        ({"maxOffsetsPerTrigger": "5", "minOffsetsPerTrigger": "6"}, r"'minOffsetsPerTrigger' \(6\) must not be above"),
        ({"maxTriggerDelay": "soon"}, "option 'maxTriggerDelay' must be a time like 30s"),
        ({"endingOffsets": "latest"}, r"option 'endingOffsets' is not for a stream.*availableNow=True"),
        ({"endingtimestamp": "1"}, "option 'endingTimestamp' is not for a stream"),
        ({"subscribe": "a,orders@cut"}, "'@' is a topic as it was"),
        ({"assign": '{"orders@cut":[0]}'}, "'@' is a topic as it was"),
        ({"hotTailRefresh": "never"}, "option 'hotTailRefresh' must be a time like 30s"),
        ({"endingOffsetsByTimestamp": "{}"}, "option 'endingOffsetsByTimestamp' is not for a stream"),
    ],
)
def test_an_error_names_its_option(given, message):
    """With what to do instead."""
    with pytest.raises(Invalid, match=message):
        parse_stream(given)


def test_a_stream_asks_brokers_that_are_named():
    """As in a read: users of the Kafka source expect the newest records."""
    named = {"path": "s3://b/p", "subscribe": "orders", "kafka.bootstrap.servers": "b:9092"}
    assert parse_options(named, streaming=True).hot_tail == "b:9092"
    assert parse_options({**named, "hotTail": "false"}, streaming=True).hot_tail is None


def test_a_stream_starts_at_the_end_unless_told_otherwise():
    """A partition that offsets or times do not name is read from its beginning: nothing is left out unasked."""

    def start(**options):
        return parse_options({"path": "s3://b/p", "subscribe": "orders", **options}, streaming=True).starting

    assert start().offset_of(ORDERS) == LATEST
    assert start(startingOffsets="latest").offset_of(ORDERS) == LATEST
    assert start(startingOffsets="earliest").offset_of(ORDERS) == EARLIEST
    assert start(startingOffsets='{"orders":{"0":-1}}').offset_of(ORDERS) == LATEST
    assert start(startingOffsets='{"orders":{"1":7}}').offset_of(ORDERS) == EARLIEST
    assert start(startingOffsetsByTimestamp='{"orders":{"1":7}}').offset_of(ORDERS) == EARLIEST
    assert start(startingTimestamp="7").timestamp_of(ORDERS) == 7


def test_options_of_a_stream_have_no_effect_on_a_read():
    """One set of options may serve both, as with Spark's Kafka source."""
    both = {"path": "s3://b/p", "subscribe": "orders"}
    assert parse_options({**both, "maxOffsetsPerTrigger": "5", "manifestRefresh": "1s"}) == parse_options(both)
