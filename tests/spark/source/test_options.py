"""Option names, defaults and refusals."""

from __future__ import annotations

import pytest

from stratalog.spark.rows.schema import COLUMNS
from stratalog.spark.source.options import EARLIEST, LATEST, ReadOptions, parse_options
from stratalog.wire.errors import Invalid
from stratalog.wire.topic import TopicPartition

ORDERS_0 = TopicPartition("orders", 0)
ORDERS_1 = TopicPartition("orders", 1)


def parse(**options: str) -> ReadOptions:
    given = {"path": "s3://bucket/prefix", **options}
    if not {"subscribe", "subscribePattern", "assign"} & set(given):
        given["subscribe"] = "orders"
    return parse_options(given)


def test_defaults_are_those_of_the_kafka_source() -> None:
    """Everything from earliest to latest, committed, without headers, and a loss is an error."""
    options = parse()
    assert options.archive == "s3://bucket/prefix"
    assert (options.starting.offset_of(ORDERS_0), options.ending.offset_of(ORDERS_0)) == (EARLIEST, LATEST)
    assert options.columns == COLUMNS[:-1]
    assert options.fail_on_data_loss
    assert options.read_committed
    assert (options.partition_bytes_max, options.batch_bytes) == (256 << 20, 2 << 20)
    assert (options.partitions_min, options.partition_records_max) == (None, None)


def test_names_are_case_insensitive() -> None:
    """Spark hands options over in lower case, users write them as they like."""
    assert parse(STARTINGOFFSETS='{"orders":{"0":7}}', MinPartitions="3").starting.offset_of(ORDERS_0) == 7


def test_archive_beats_path() -> None:
    """A catalog table rewrites its path; the option 'archive' is left alone."""
    assert parse(archive="s3://other/place").archive == "s3://other/place"


@pytest.mark.parametrize(
    ("options", "wanted", "refused"),
    [
        ({"subscribe": " orders , clicks"}, ["orders", "clicks"], ["order", "orders2"]),
        ({"subscribePattern": "or.*s"}, ["orders", "orbits", "my-orders"], ["clicks"]),
        ({"subscribePattern": "^or.*s$"}, ["orders", "orbits"], ["clicks", "my-orders", "orders2"]),
        ({"assign": '{"orders": [1, 0], "clicks": [3]}'}, ["orders", "clicks"], ["x"]),
    ],
)
def test_each_way_to_subscribe(options: dict[str, str], wanted: list[str], refused: list[str]) -> None:
    """A list, a pattern that is found somewhere in the name, or partitions."""
    subscription = parse(**options).subscription
    assert all(subscription.wants_topic(topic) for topic in wanted)
    assert not any(subscription.wants_topic(topic) for topic in refused)


def test_timestamp_options_win_over_offsets() -> None:
    """startingTimestamp beats startingOffsetsByTimestamp beats startingOffsets; so do the ending ones."""
    by_offset = {"startingOffsets": '{"orders":{"0":5,"1":-2}}', "endingOffsets": '{"orders":{"0":9,"1":-1}}'}
    by_partition = {
        "startingOffsetsByTimestamp": '{"orders":{"0":1000}}',
        "endingOffsetsByTimestamp": '{"orders":{"0":2000}}',
    }
    options = parse(**by_offset)
    assert [options.starting.offset_of(each) for each in (ORDERS_0, ORDERS_1)] == [5, EARLIEST]
    assert [options.ending.offset_of(each) for each in (ORDERS_0, ORDERS_1)] == [9, LATEST]
    options = parse(**by_offset, **by_partition)
    assert [options.starting.timestamp_of(each) for each in (ORDERS_0, ORDERS_1)] == [1000, None]
    assert [options.ending.timestamp_of(each) for each in (ORDERS_0, ORDERS_1)] == [2000, None]
    options = parse(**by_offset, **by_partition, startingTimestamp="3000", endingTimestamp="4000")
    assert (options.starting.timestamp_of(ORDERS_1), options.ending.timestamp_of(ORDERS_0)) == (3000, 4000)


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [("64m", 64 << 20), ("1g", 1 << 30), ("8MiB", 8 << 20), ("100 kb", 100 << 10), ("12345", 12345)],
)
def test_sizes_take_units(text: str, size_bytes: int) -> None:
    """Sizes are written as in Spark."""
    assert parse(maxPartitionBytes=text).partition_bytes_max == size_bytes


def test_a_lease_is_written_unless_it_is_switched_off() -> None:
    """Six hours if nothing else is said."""
    assert parse().lease_ms == 6 * 3_600_000
    assert parse(leaseSeconds="90").lease_ms == 90_000
    assert parse(lease="false", leaseSeconds="90").lease_ms == 0


def test_damage_is_quarantined_only_with_a_place_to_tell_of_it() -> None:
    """Else it ends the query."""
    assert parse().bad_records_url is None
    assert parse(badRecords="quarantine", badRecordsPath="/mnt/bad").bad_records_url == "/mnt/bad"
    with pytest.raises(Invalid, match="'badRecordsPath' must say where"):
        parse(badRecords="quarantine")
    with pytest.raises(Invalid, match="'badRecords' is not quarantine"):
        parse(badRecordsPath="/mnt/bad")


@pytest.mark.parametrize(
    ("given", "brokers"),
    [
        ({}, None),
        ({"hotTail": "false"}, None),
        ({"kafka.bootstrap.servers": "b:9092"}, "b:9092"),
        ({"kafka.bootstrap.servers": "b:9092", "hotTail": "true"}, "b:9092"),
        ({"kafka.bootstrap.servers": "b:9092", "hotTail": "false"}, None),
        ({"kafka.bootstrap.servers": "b:9092", "kafka.security.protocol": "SASL_SSL"}, None),
    ],
)
def test_brokers_are_asked_where_they_are_named(given: dict[str, str], brokers: str | None) -> None:
    """Unless they want more than this source speaks, or the option says no."""
    assert parse(**given).hot_tail == brokers


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "'kafka.bootstrap.servers' must name the brokers"),
        ({"kafka.bootstrap.servers": "b:1", "kafka.security.protocol": "SSL"}, "by PLAINTEXT only, not by SSL"),
    ],
)
def test_a_hot_tail_that_cannot_be_had_is_refused(given: dict[str, str], message: str) -> None:
    """Where it was asked for by name."""
    with pytest.raises(Invalid, match=message):
        parse(hotTail="true", **given)


def test_columns_and_headers() -> None:
    """includeHeaders adds a column; the option columns names exactly those wanted."""
    assert parse(includeHeaders="true").columns == COLUMNS
    assert parse(columns="offset, value").columns == ("offset", "value")


def test_a_job_written_for_the_kafka_source_is_accepted() -> None:
    """Consumer and streaming settings mean nothing here and do no harm; the isolation level does."""
    options = parse(
        **{
            "kafka.bootstrap.servers": "broker:9092",
            "kafka.security.protocol": "SSL",
            "groupIdPrefix": "x",
            "maxOffsetsPerTrigger": "1000",
            "kafka.isolation.level": "read_uncommitted",
        }
    )
    assert not options.read_committed


def test_store_options_are_kept_apart() -> None:
    """An option that begins with s3. goes to the store, and into no message."""
    options = parse(**{"s3.endpoint": "http://x:1", "s3.secret-key": "hush"})
    assert options.store_options == {"s3.endpoint": "http://x:1", "s3.secret-key": "hush"}
    assert "hush" not in repr(options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"archive": "", "path": ""}, "'archive' must be specified"),
        ({"subscribe": "a", "assign": '{"a":[0]}'}, "only one of the following options"),
        ({"subscribe": " , "}, "no topics to subscribe to"),
        ({"subscribePattern": ""}, "is empty"),
        ({"subscribePattern": "("}, "no regular expression"),
        ({"assign": "orders"}, "not JSON"),
        ({"assign": "{}"}, "no topic partitions"),
        ({"assign": '{"orders": [-1]}'}, "'assign' must be like"),
        ({"startingOffsets": "latest"}, "'startingOffsets' can't be 'latest' for batch"),
        ({"startingOffsets": '{"orders":{"0":-1}}'}, "orders-0 can't be latest"),
        ({"endingOffsets": "earliest"}, "'endingOffsets' can't be 'earliest' for batch"),
        ({"endingOffsets": '{"orders":{"0":-2}}'}, "orders-0 can't be earliest"),
        ({"startingOffsets": "first"}, "'earliest', 'latest' or JSON"),
        ({"startingOffsets": '{"orders":{"0":-3}}'}, "not valid"),
        ({"startingOffsets": '{"orders":{"x":3}}'}, "not valid"),
        ({"startingOffsets": '{"orders":3}'}, "must be like"),
        ({"startingOffsetsByTimestamp": '{"orders":{"0":-3}}'}, "not valid"),
        ({"startingTimestamp": "-3"}, "'startingTimestamp'"),
        ({"startingTimestamp": "yesterday"}, "whole number"),
        ({"startingOffsetsByTimestampStrategy": "never"}, "one of error, latest"),
        ({"minPartitions": "0"}, "'minPartitions' must be at least 1"),
        ({"maxRecordsPerPartition": "many"}, "'maxRecordsPerPartition' must be a whole number"),
        ({"failOnDataLoss": "yes"}, "'failOnDataLoss' must be true or false"),
        ({"maxPartitionBytes": "0"}, "must be a size"),
        ({"batchBytes": "4g"}, "at most"),
        ({"lease": "maybe"}, "'lease' must be true or false"),
        ({"leaseSeconds": "0"}, "'leaseSeconds' must be at least 1"),
        ({"leaseSeconds": "604801"}, "'leaseSeconds' must be at most 604800"),
        ({"columns": "offset,colour"}, "colour"),
        ({"kafka.isolation.level": "none"}, "isolation"),
        ({"kafka.auto.offset.reset": "latest"}, "'auto.offset.reset' is not supported.*startingOffsets"),
        ({"kafka.key.deserializer": "x"}, "'key.deserializer' is not supported"),
        ({"kafka.enable.auto.commit": "true"}, "'enable.auto.commit' is not supported"),
        ({"startingOffset": "earliest"}, "unknown option 'startingoffset'; did you mean 'startingOffsets'"),
        ({"zzz": "1"}, "unknown option 'zzz': there are"),
    ],
)
def test_wrong_options_are_refused_by_name(options: dict[str, str], message: str) -> None:
    """Every refusal names the option and what would be right."""
    with pytest.raises(Invalid, match=message):
        parse(**options)


def test_a_subscription_is_needed() -> None:
    """Without any of the three the names of all are given."""
    with pytest.raises(Invalid, match="assign, subscribe, subscribePattern"):
        parse_options({"path": "s3://bucket/prefix"})


def test_columns_of_errors_are_there_where_something_is_decoded() -> None:
    """By default behind all others; by name as any other."""
    decoded = {"path": "s3://b/p", "subscribe": "orders", "valueFormat": "json", "valueSchema": "a int"}
    assert parse_options(decoded).columns[-1] == "valueError"
    assert parse_options({**decoded, "columns": "valueError,offset"}).columns == ("valueError", "offset")
    with pytest.raises(Invalid, match=r"names no column of .*: 'keyError'"):
        parse_options({**decoded, "columns": "keyError"})
    subject = parse_options(
        {"path": "x", "assign": '{"paid":[0]}', "valueFormat": "avro", "schemaRegistry": "http://r"}
    ).values.value.subject
    assert subject == "paid-value"


def test_the_registry_has_two_names() -> None:
    """That of Confluent's clients is taken, too; one of both is enough."""
    given = {"valueFormat": "avro", "schema.registry.url": "http://r:8081"}
    assert parse(**given).values == parse(valueFormat="avro", schemaRegistry="http://r:8081").values
    assert parse(**given, schemaRegistry="http://r:8081").values == parse(**given).values
    with pytest.raises(Invalid, match=r"'schema.registry.url' and 'schemaRegistry' are the same, and have two values"):
        parse(**given, schemaRegistry="http://other:8081")
    with pytest.raises(Invalid, match=r"unknown option 'schema.registry'; did you mean 'schemaRegistry'"):
        parse(**{"schema.registry": "x"})
