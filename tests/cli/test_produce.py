"""Records from standard input, against a running broker."""

from __future__ import annotations

import io

import pytest
from click.testing import CliRunner
from kafka import KafkaConsumer, TopicPartition

from stratalog.cli.main import cli
from stratalog.cli.produce import read_lines
from stratalog.client.client import Client
from stratalog.client.transactions import describe_producers
from stratalog.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)


def read_back(live_broker, topic) -> list:
    """All records of a topic as an independent client sees them, by partition and offset."""
    consumer = KafkaConsumer(bootstrap_servers=live_broker.kafka, consumer_timeout_ms=5000)
    partitions = [TopicPartition(topic, number) for number in range(3)]
    consumer.assign(partitions)
    consumer.seek_to_beginning()
    wanted = sum(consumer.end_offsets(partitions).values())
    found = []
    while len(found) < wanted:
        found += [record for batch in consumer.poll(1000).values() for record in batch]
    consumer.close()
    return sorted(found, key=lambda record: (record.partition, record.offset))


def test_lines_are_records(stratalog, live_broker, topic) -> None:
    """Keys, headers, time and codec arrive as another client reads them."""
    stratalog(
        "produce", topic, "-K", ":", "-H", "source=test", "-t", "2013-07-04", "-z", "zstd", "-p", "1", stdin="a:1\nb:\nc\n"
    )  # fmt: skip
    found = read_back(live_broker, topic)
    assert [(record.partition, record.key, record.value) for record in found] == [
        (1, b"a", b"1"),
        (1, b"b", b""),
        (1, None, b"c"),
    ]
    assert {record.timestamp for record in found} == {1372896000000}
    assert [(header[0], header[1]) for header in found[0].headers] == [("source", b"test")]


def test_deliveries_are_printed(stratalog, topic) -> None:
    """Partition, offset and time of each record, in the order of the input; keys by murmur2."""
    told = stratalog("produce", topic, "-K", ":", "--json", stdin="AA:1\nUA:2\nAA:3\n").rows
    assert [row["offset"] for row in told] == [0, 0, 1]
    assert told[0]["partition"] == told[2]["partition"] != told[1]["partition"]


def test_json_lines_are_records_and_null_is_a_tombstone(stratalog, live_broker, topic) -> None:
    """Fields of each record; the rest from the options."""
    lines = '{"key": "a", "value": {"x": 1}, "partition": 0}\n{"value": null, "headers": {"h": "1"}}\n'
    stratalog("produce", topic, "--input", "json", "--key", "k", "--partition", "2", stdin=lines)
    first, second = read_back(live_broker, topic)
    assert (first.partition, first.key, first.value) == (0, b"a", b'{"x":1}')
    assert (second.partition, second.key, second.value, len(second.headers)) == (2, b"k", None, 1)


def test_a_text_may_stand_for_null(stratalog, live_broker, topic) -> None:
    """Keys and values alike."""
    stratalog("produce", topic, "-K", ":", "-Z", "NULL", "-p", "0", stdin="a:NULL\nNULL:b\n")
    assert [(record.key, record.value) for record in read_back(live_broker, topic)] == [(b"a", None), (None, b"b")]


def test_records_that_a_topic_takes_are_never_too_large_together(stratalog, live_broker, topic) -> None:
    """A file of very short lines, short lines behind a long one, a topic that takes less: each line for itself is legal."""
    assert "Wrote 130000 records" in stratalog("produce", topic, "-p", "0", stdin="a\n" * 130_000).err
    lines = ["x" * 200_000, "y" * 1_000_000, *["z" * 99] * 3000]
    assert "Wrote 3002 records" in stratalog("produce", topic, "-p", "1", stdin="\n".join(lines)).err
    stratalog("topic", "alter", topic, "--config", "max.message.bytes=10000")
    rows = [f"{number:0>99}" for number in range(3000)]
    told = stratalog("produce", topic, "-p", "2", "--json", stdin="\n".join(rows)).rows
    assert [row["offset"] for row in told] == list(range(3000))
    found = [record.value.decode() for record in read_back(live_broker, topic) if record.partition == 2]
    assert found == rows
    assert "MESSAGE_TOO_LARGE" in stratalog("produce", topic, "-p", "2", stdin="q" * 20_000, code=1).err


def test_a_topic_that_is_being_made_is_waited_for(scripted) -> None:
    """LEADER_NOT_AVAILABLE: it has not reached the broker that had it made."""
    made = MetadataResponseTopic(
        name="new",
        topic_id=b"n" * 16,
        partitions=[MetadataResponsePartition(partition_index=0, leader_id=1, replica_nodes=[1], isr_nodes=[1])],
    )
    left = [[MetadataResponseTopic(error_code=5, name="new", partitions=[])], [], [made]]

    def metadata(_request):
        node = MetadataResponseBroker(node_id=1, host="127.0.0.1", port=scripted.port)
        return MetadataResponse(brokers=[node], topics=left.pop(0))

    scripted.ranges = {3: (0, 13)}
    scripted.answers[3] = metadata
    found = CliRunner().invoke(cli, ["produce", "new", "-b", scripted.address], input="")
    assert (found.exit_code, left) == (0, [])
    assert [request.allow_auto_topic_creation for request, _ in scripted.requests[1:]] == [True, False, True]


def test_a_count_ends_the_input_early(stratalog, topic) -> None:
    """Further input is not read."""
    assert "Wrote 2 records" in stratalog("produce", topic, "-n", "2", stdin="1\n2\n3\n").err


def test_a_line_that_is_no_record_is_a_usage_error(stratalog, topic) -> None:
    """Named by its number."""
    assert "line 2: " in stratalog("produce", topic, "--input", "json", stdin='{"value": "x"}\nnonsense\n', code=2).err


def test_an_error_in_the_midst_says_what_was_written_before(stratalog, topic, monkeypatch) -> None:
    """From there the input can be taken up again."""
    monkeypatch.setattr("stratalog.cli.produce.READ_BYTES", 10)
    found = stratalog(
        "produce", topic, "-p", "0", "--input", "json", stdin='{"value": "x"}\n' * 5 + "nonsense\n", code=2
    )
    assert "Lines 1 to 5 are written. The error is of the next 1," in found.err
    assert found.err.index("Lines 1") < found.err.index("Error: line 6")
    assert len(stratalog("consume", topic, "--exit").out.splitlines()) == 5


def test_a_partition_that_is_not_there_is_exit_code_3(stratalog, topic) -> None:
    """The topic exists."""
    assert "counted from 0" in stratalog("produce", topic, "-p", "9", stdin="x\n", code=3).err


def test_bytes_pass_unchanged(stratalog, live_broker, topic) -> None:
    """Input is bytes, not text."""
    stratalog("produce", topic, "-p", "0", stdin=b"\xff\x00\xfe\r\n")
    assert read_back(live_broker, topic)[0].value == b"\xff\x00\xfe\r"


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4"])
def test_other_codecs_are_understood_by_another_client(stratalog, live_broker, topic, codec) -> None:
    """zstd is seen above."""
    stratalog("produce", topic, "-p", "0", "-z", codec, stdin="x\n" * 100)
    assert {record.value for record in read_back(live_broker, topic)} == {b"x"}


@pytest.mark.parametrize(("acks", "ids"), [("all", 1), ("1", 0)])
def test_batches_have_a_producer_id_where_one_is_of_use(stratalog, live_broker, topic, acks, ids) -> None:
    """One id for the whole command."""
    stratalog("produce", topic, "-p", "0", "-a", acks, stdin="x\n" * 10)
    with Client(live_broker.kafka) as client:
        assert [one.last_sequence for one in describe_producers(client, TopicPartition(topic, 0))] == [9] * ids


class Slowly(io.BytesIO):
    """A pipe that gives at most five bytes at once."""

    def read1(self, size: int = -1, /) -> bytes:
        return super().read1(min(size, 5))


def test_lines_are_sent_as_they_arrive() -> None:
    """No line waits for a batch to fill; the last one needs no line end."""
    assert list(read_lines(Slowly(b"a\nb\nlonger\nend"))) == [[b"a", b"b"], [b"longer"], [b"end"]]
    assert list(read_lines(io.BytesIO(b""))) == []
