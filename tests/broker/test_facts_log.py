"""Facts of Kafka's design that must hold literally: log and topics, epochs of one broker, metadata."""

from pathlib import Path

import pytest

from stratalog.client.admin import alter_topic_configs
from stratalog.client.client import Client
from stratalog.client.records import NewRecord
from stratalog.hot.replica_state import FollowerState
from stratalog.wire.batch import iter_headers
from stratalog.wire.compression import Codec
from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from stratalog.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from stratalog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic

DEFAULTS = {
    "segment.bytes": "1073741824",
    "segment.ms": "604800000",
    "retention.ms": "604800000",
    "segment.index.bytes": "10485760",
    "index.interval.bytes": "4096",
    "min.insync.replicas": "1",
    "min.cleanable.dirty.ratio": "0.5",
    "delete.retention.ms": "86400000",
    "max.message.bytes": "1048588",
}
BROKER_DEFAULTS = {"replica.lag.time.max.ms": "30000", "offsets.topic.num.partitions": "50"}
THEN_MS = 1_385_856_000_000


def bases(node, topic="t"):
    return [segment.base_offset for segment in node.partition(topic).log.segments()]


def test_defaults_with_source_and_synonyms(broker):
    """DescribeConfigs tells Kafka 4.3's values, that they are defaults, and the broker's names for them."""
    broker.create("t")
    resources = [
        DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
        for kind, name in ((2, "t"), (4, str(broker.node.node_id)))
    ]
    topic, node = broker.link().call(DescribeConfigsRequest(resources=resources, include_synonyms=True), 4).results
    rows = {one.name: one for one in topic.configs}
    assert {name: rows[name].value for name in DEFAULTS} == DEFAULTS
    assert {rows[name].config_source for name in DEFAULTS if name != "min.insync.replicas"} == {5}
    assert (
        rows["min.insync.replicas"].config_source == 3
    )  # a setting of the cluster from its first records on (KIP-966)
    assert rows["segment.bytes"].synonyms[0].name == "log.segment.bytes"
    rows = {one.name: one for one in node.configs}
    assert {name: rows[name].value for name in BROKER_DEFAULTS} == BROKER_DEFAULTS


def test_a_segment_rolls_by_size(broker):
    """Before the batch that would not fit."""
    broker.create("t", segment_bytes=1 << 20)
    for _ in range(4):
        broker.produce("t", b"x" * 400_000)
    assert bases(broker) == [0, 2]


def test_a_segment_rolls_by_record_time(broker):
    """The segment's first record against the batch being appended, Kafka's rule."""
    broker.create("t", segment_ms=3_600_000, retention_ms=-1)
    for minutes in (0, 30, 61, 62):
        broker.produce("t", NewRecord(b"v", THEN_MS + minutes * 60_000, partition=0))
    assert bases(broker) == [0, 2]


def test_a_segment_rolls_by_a_full_index(broker):
    """segment.index.bytes=80 and index.interval.bytes=0: the sparse index is full after a few batches."""
    broker.create("t", segment_index_bytes=80, index_interval_bytes=0, retention_ms=-1)
    for number in range(25):
        broker.produce("t", NewRecord(b"v" * 10, THEN_MS + number, partition=0))
    found = bases(broker)
    assert len(found) > 1
    assert found[1] <= 11
    data = Path(broker.directory, "data", "t-0")
    for base in found[:-1]:
        assert 0 < (data / f"{base:020d}.index").stat().st_size <= 80
        assert (data / f"{base:020d}.index").stat().st_size % 8 == 0
        assert (data / f"{base:020d}.timeindex").stat().st_size % 12 == 0


def test_file_names_are_first_offsets_of_twenty_digits_and_look_ups_hit_every_border(broker):
    """Base - 1, base, last and last + 1 of every segment give the batch that holds them."""
    broker.create("t", segment_bytes=1 << 20)
    for _ in range(7):
        broker.produce("t", b"x" * 200_000, b"y" * 200_000)
    segments = broker.partition("t").log.segments()
    names = sorted(path.name for path in Path(broker.directory, "data", "t-0").glob("*.log"))
    assert names == [f"{segment.base_offset:020d}.log" for segment in segments]
    assert len(names) > 2
    for segment in segments:
        for offset in (segment.base_offset - 1, segment.base_offset, segment.end_offset - 1, segment.end_offset):
            if 0 <= offset < 14:
                assert broker.read("t", offset=offset)[0].offset == offset


def test_a_message_larger_than_max_message_bytes_is_refused(broker, new_batch):
    """MESSAGE_TOO_LARGE, nothing appended; the largest that fits is taken."""
    batch = new_batch(b"x" * 5000)
    broker.create("t", max_message_bytes=len(batch))
    assert broker.append("t", new_batch(b"x" * 5001)).error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert broker.end("t") == 0
    assert broker.append("t", batch).error_code == 0


@pytest.mark.story
@pytest.mark.parametrize(
    ("setting", "sent", "stored"),
    [
        ("producer", Codec.GZIP, Codec.GZIP),
        ("zstd", Codec.NONE, Codec.ZSTD),
        ("lz4", Codec.SNAPPY, Codec.LZ4),
        ("uncompressed", Codec.GZIP, Codec.NONE),
        ("gzip", Codec.GZIP, Codec.GZIP),
    ],
)
def test_a_topic_codec_other_than_the_producers_re_encodes(broker, new_batch, setting, sent, stored):
    """Offsets, times, keys and values are kept; the stored codec bits are the topic's."""
    broker.create("t", compression_type=setting)
    broker.produce("t", b"before")
    batch = new_batch(b"a" * 50, b"b" * 50, None, timestamp_ms=THEN_MS, key=b"k", codec=sent)
    assert broker.append("t", batch).base_offset == 1
    records = broker.read("t", offset=1)
    assert [(one.offset, one.timestamp_ms, one.key, one.value) for one in records] == [
        (1, THEN_MS, b"k", b"a" * 50),
        (2, THEN_MS + 1, b"k", b"b" * 50),
        (3, THEN_MS + 2, b"k", None),
    ]
    log = broker.partition("t").log
    read = log.read(1, max_bytes=1 << 20, max_offset=4)
    data = b"".join(part.file.pread(part.length, part.position) for part in read.parts)
    assert [Codec(header.attributes & 7) for _, header in iter_headers(data)] == [stored]


def test_compacted_topics_want_keys(broker, new_batch):
    """INVALID_RECORD for a batch with a record that has none, nothing appended."""
    broker.create("t", cleanup_policy="compact")
    assert broker.append("t", new_batch(b"v")).error_code == ErrorCode.INVALID_RECORD
    assert broker.end("t") == 0
    assert broker.append("t", new_batch(b"v", key=b"k")).base_offset == 0


def test_acks_all_needs_no_more_replicas_than_there_are(broker, new_batch):
    """A topic of one replica with min.insync.replicas=2 is written to, as in Kafka 4.3."""
    broker.create("t", min_insync_replicas=2)
    assert broker.append("t", new_batch(b"all")).base_offset == 0
    assert broker.values("t") == [b"all"]


def test_acks_all_needs_min_insync_replicas(broker, new_batch):
    """NOT_ENOUGH_REPLICAS and nothing appended; acks 0 and 1 work, and readers see it once enough are in sync (KIP-966)."""
    broker.create("t", min_insync_replicas=2)
    state = broker.partition("t").partition.leader.state
    state._followers[2] = FollowerState(last_caught_up_ms=0)  # a second one that is not in sync
    assert broker.append("t", new_batch(b"all")).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert broker.end("t") == 0
    assert broker.append("t", new_batch(b"one"), acks=1).base_offset == 0
    broker.append("t", new_batch(b"zero"), acks=0)
    broker.wait_until(lambda: broker.partition("t").log.flushed_offset == 2)
    assert broker.partition("t").partition.high_watermark == 0
    with Client(broker.address) as client:
        alter_topic_configs(client, "t", set_to={"min.insync.replicas": "1"})
    broker.wait_until(lambda: broker.partition("t").partition.high_watermark == 2)
    assert broker.values("t") == [b"one", b"zero"]


@pytest.mark.parametrize(("factor", "code"), [(2, ErrorCode.INVALID_REPLICATION_FACTOR), (-1, ErrorCode.NONE)])
def test_replication_factor_above_live_brokers_is_invalid(broker, factor, code):
    """-1 takes the default."""
    topic = CreatableTopic(name="t", num_partitions=1, replication_factor=factor, assignments=[], configs=[])
    (answer,) = broker.link().call(CreateTopicsRequest(topics=[topic], timeout_ms=1000), 7).topics
    assert answer.error_code == code


def test_flush_messages_and_flush_ms_at_other_values_behave_as_in_kafka(start_node, watched_files, new_batch):
    """A sync every so many messages, or after so many milliseconds, and none in between."""
    node = start_node(files=watched_files)
    node.create("counted", flush_messages=3)
    node.create("timed", flush_messages=1_000_000, flush_ms=50)
    node.create("never", flush_messages=9_223_372_036_854_775_807)

    def syncs(topic):
        return sum(1 for call, path in list(watched_files.calls) if call == "sync" and f"/{topic}-0/" in path)

    node.wait_until(lambda: all(directory.writer.idle for directory in node.node.directories.all))  # created
    before = {topic: syncs(topic) for topic in ("counted", "timed", "never")}
    for topic in before:
        for _ in range(2):
            node.append(topic, new_batch(b"v"))
    assert syncs("counted") == before["counted"]
    node.append("counted", new_batch(b"v"))
    node.wait_until(lambda: syncs("counted") > before["counted"])
    node.wait_until(lambda: syncs("timed") > before["timed"])
    assert syncs("never") == before["never"]


def test_a_batch_is_on_disk_before_acks_all_is_answered(start_node, watched_files, new_batch):
    """With flush.messages=1, our default: write, sync, then the answer."""
    node = start_node(files=watched_files)
    node.create("t")
    node.wait_until(lambda: all(directory.writer.idle for directory in node.node.directories.all))  # created
    watched_files.calls.clear()
    assert node.append("t", new_batch(b"v")).error_code == 0
    calls = [call for call, path in watched_files.calls if path.endswith("/t-0/00000000000000000000.log")]
    assert calls == ["write", "sync"]


def test_sendfile_carries_nearly_all_fetched_bytes(broker):
    """At least 95 % of what leaves in plain text, by the counters."""
    broker.create("t")
    for _ in range(20):
        broker.produce("t", b"x" * 100_000)
    network = broker.node.metrics.network
    before = network.sendfile_bytes, network.copied_file_bytes
    assert len(broker.read("t")) == 20
    sent, copied = network.sendfile_bytes - before[0], network.copied_file_bytes - before[1]
    assert sent >= 0.95 * (sent + copied)
    assert sent + copied >= broker.partition("t").log.size_bytes


def test_each_leadership_raises_the_epoch_restart_included(broker):
    """And the leader-epoch checkpoint knows where each one began."""
    broker.create("t")
    epochs = []
    for number in range(3):
        epochs.append(broker.partition("t").partition.leader_epoch)
        assert broker.produce("t", b"v") == [number]
        broker.restart()
    assert epochs == sorted(set(epochs))
    lines = Path(broker.directory, "data", "t-0", "leader-epoch-checkpoint").read_text().splitlines()
    assert lines[2:5] == [f"{epoch} {number}" for number, epoch in enumerate(epochs)]


@pytest.mark.story
def test_hot_reads_touch_no_disk_and_pages_stay_warm_over_a_restart(serve_process):
    """The new process reads less than one record of the twenty from the disk while it serves all of them.

    Not nothing: a module that is imported only now may cost a page.
    """
    import signal

    from stratalog.client.admin import create_topic
    from stratalog.client.client import Client
    from stratalog.client.records import Producer
    from stratalog.wire.topic import TopicPartition

    broker = serve_process()
    with Client(broker.address) as client:
        create_topic(client, "t", partition_count=1)
        for _ in range(20):
            Producer(client, "t").send([NewRecord(b"x" * 500_000, 1_700_000_000_000, partition=0)])
    assert broker.end(signal.SIGTERM) == 0
    broker.start()

    def read_bytes() -> int:
        lines = Path(f"/proc/{broker.process.pid}/io").read_text().splitlines()
        return int(dict(line.split(": ") for line in lines)["read_bytes"])

    with Client(broker.address) as client:
        topic_id = client.topic("t").topic_id
        link, offset, size_bytes = client.link(), 0, 0
        before = read_bytes()
        while offset < 20:
            wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
            request = FetchRequest(
                max_wait_ms=0, min_bytes=0, topics=[FetchTopic(topic="t", topic_id=topic_id, partitions=[wanted])]
            )
            records = link.call(request).responses[0].partitions[0].records
            size_bytes += len(records)
            offset = [header for _, header in iter_headers(records)][-1].next_offset
        assert size_bytes > 10_000_000
        assert client.list_offsets({TopicPartition("t", 0): -1})[TopicPartition("t", 0)].offset == 20
        assert read_bytes() - before < 500_000


@pytest.mark.story
def test_restart_storms_forget_nothing(start_node):
    """Twenty starts in a row: the topics, their ids and their records are unchanged (a catalogue of others' faults)."""
    node = start_node()
    ids = {f"t{number}": node.create(f"t{number}").topic_id for number in range(3)}
    for name in ids:
        node.produce(name, name.encode())
    for _ in range(20):
        node.restart()
    assert {topic.name: topic.topic_id for topic in node.node.image.topics.by_name.values()} == ids
    assert [node.values(name) for name in ids] == [[name.encode()] for name in ids]
