"""A bucket served for reading: everything archived is there, nothing is written, changes are followed."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from stratalog.broker.views import mount
from stratalog.client.admin import alter_topic_configs, delete_topics, describe_topic_configs
from stratalog.client.records import fetch, visible_records
from stratalog.tier.documents.keys import PartitionId, topic_key
from stratalog.tier.messages.projection import topic_projection, write_projection
from stratalog.tier.stores.local_store import LocalStore
from stratalog.tier.work.archive_writer import archive_log
from stratalog.wire.batch import Record, build_batch
from stratalog.wire.errors import ErrorCode, Invalid, KafkaError
from stratalog.wire.topic import TopicPartition

NOW_MS = 1_700_000_000_000
ORDERS = os.urandom(16)


class Bucket:
    """A directory with archived topics, written as a broker writes them."""

    def __init__(self, root) -> None:
        self.store = LocalStore(str(root), sync=False)
        self.url = self.store.url
        self._ends: dict[PartitionId, int] = {}

    def archive(self, topic: str, topic_id: bytes, number: int, *batches: list[bytes]) -> None:
        """Append one object with these batches of values, a second apart, to a partition's archive."""
        partition = PartitionId(topic, topic_id, number)
        data, offset = b"", self._ends.get(partition, 0)
        for values in batches:
            records = [
                Record(offset + at, NOW_MS + 1000 * (offset + at), None, value) for at, value in enumerate(values)
            ]
            data += build_batch(records)
            offset += len(values)
        self._ends[partition] = offset
        archive_log(self.store, partition, [data], now_ms=NOW_MS, cluster_id="c")

    def describe(self, topic: str, topic_id: bytes, partitions: int, state: str = "live", **configs: str) -> None:
        """Write ``topic.json``."""
        named = {name.replace("_", "."): value for name, value in configs.items()}
        command = topic_projection(topic, topic_id, partitions=partitions, configs=named, cluster_id="c", state=state)
        write_projection(self.store, command)

    def listed(self) -> list[tuple[str, str, int]]:
        """Every object with its version and time."""
        return [(each.key, each.version, each.modified_ms) for each in self.store.list("")]


@pytest.fixture
def bucket(tmp_path):
    """An archive of ``orders``: three partitions, the last one without any object."""
    made = Bucket(tmp_path / "bucket")
    made.archive("orders", ORDERS, 0, [b"a", b"b"], [b"c"])
    made.archive("orders", ORDERS, 0, [b"d"])
    made.archive("orders", ORDERS, 1, [b"x"])
    made.describe("orders", ORDERS, 3, retention_ms="60000", no_such_setting="1", segment_bytes="nonsense")
    return made


@pytest.fixture
def mounted(start_node, bucket, monkeypatch):
    """A broker that serves the bucket, and looks at it again at once."""
    monkeypatch.setattr(mount, "_ROUND_SECONDS", 0.01)
    monkeypatch.setattr(mount, "_STALE_MS", 10)
    monkeypatch.setattr(mount, "_CATALOGUE_ROUNDS", 3)
    return start_node(stratalog_read_only="true")


@pytest.mark.story
def test_everything_archived_is_read_and_nothing_is_written(mounted, bucket):
    """Values, ends, times and settings; afterwards every object has the version and the time it had."""
    before = bucket.listed()
    assert mounted.values("orders") == [b"a", b"b", b"c", b"d"]
    assert mounted.values("orders", 1) == [b"x"]
    assert mounted.values("orders", 2) == []
    assert [mounted.end("orders", number) for number in range(3)] == [4, 1, 0]
    assert [mounted.end("orders", 0, timestamp) for timestamp in (-2, -3, -4, -5)] == [0, 3, 4, 3]
    assert mounted.end("orders", 0, NOW_MS + 1001) == 2
    assert mounted.end("orders", 0, NOW_MS + 9999) == -1
    assert bucket.listed() == before


@pytest.mark.story
def test_settings_that_are_known_are_shown(mounted):
    """The settings of the topic in ``topic.json``, without those that this version cannot read."""
    configs = describe_topic_configs(mounted.client(), ["orders"])["orders"]
    values = {name: value for name, value, *_ in configs}
    assert values["retention.ms"] == "60000"
    assert values["segment.bytes"] != "nonsense"


@pytest.mark.story
def test_later_archived_records_are_followed(mounted, bucket):
    """A new object, a partition that had nothing, a topic of whom only manifests tell, one that was deleted."""
    bucket.archive("orders", ORDERS, 0, [b"e"])
    bucket.archive("orders", ORDERS, 2, [b"first"])
    bucket.archive("clicks", os.urandom(16), 1, [b"click"])
    mounted.wait_until(lambda: "clicks" in mounted.node.image.topics.by_name)
    mounted.wait_until(lambda: mounted.node.partitions.readable_by_name("orders", 0).log.log_end_offset == 5)
    assert mounted.values("orders") == [b"a", b"b", b"c", b"d", b"e"]
    assert mounted.values("orders", 2) == [b"first"]
    assert mounted.values("clicks", 1) == [b"click"]
    assert mounted.values("clicks", 0) == []
    bucket.describe("orders", ORDERS, 4)
    mounted.wait_until(lambda: len(mounted.node.image.topics.by_name["orders"].partitions) == 4)
    assert mounted.values("orders", 3) == []
    bucket.describe("orders", ORDERS, 4, state="deleting")
    mounted.wait_until(lambda: "orders" not in mounted.node.image.topics.by_name)
    with pytest.raises(KafkaError) as caught:
        mounted.end("orders")
    assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.story
def test_an_archive_whose_topic_has_left_the_bucket_is_not_removed(mounted, bucket):
    """Only the cluster that wrote it does that: a mount does not even ask, nor does it come back to it after a while."""
    bucket.describe("orders", ORDERS, 3, remote_storage_enable="true")
    mounted.wait_until(lambda: "remote.storage.enable" in mounted.node.image.topic_configs("orders"))
    bucket.describe("orders", ORDERS, 3, state="deleting", remote_storage_enable="true")
    mounted.wait_until(lambda: "orders" not in mounted.node.image.topics.by_name)
    assert mounted.node.deleted_archives.pending == []


def test_a_reader_at_the_end_is_woken_by_a_new_object(mounted, bucket):
    """A fetch that waits is answered with what has been archived meanwhile."""
    partition = TopicPartition("orders", 0)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(lambda: fetch(mounted.client(), {partition: 4}, max_wait_ms=20_000))
        mounted.wait_until(lambda: len(mounted.node.purgatory))
        bucket.archive("orders", ORDERS, 0, [b"late"])
        (fetched,) = waiting.result()
    assert [record.value for _, records in visible_records(fetched, 4) for record in records] == [b"late"]


@pytest.mark.story
@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda node: node.produce("orders", b"no"), ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (lambda node: node.create("mine"), ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (lambda node: delete_topics(node.client(), ["orders"]), ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (
            lambda node: alter_topic_configs(node.client(), "orders", set_to={"retention.ms": "1"}),
            ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ),
    ],
)
def test_every_change_is_refused_with_kafkas_words(mounted, bucket, change, code):
    """Changes of records, topics and settings are refused, and the bucket stays as it is."""
    before = bucket.listed()
    with pytest.raises(KafkaError) as caught:
        change(mounted)
    assert caught.value.code is code
    assert mounted.values("orders") == [b"a", b"b", b"c", b"d"]
    assert bucket.listed() == before


@pytest.mark.story
def test_a_damaged_manifest_spoils_its_own_partition_only(start_node, bucket, caplog):
    """The partition is refused with the reason, the others are read, also where ``topic.json`` is damaged, too."""
    key = PartitionId("orders", ORDERS, 1).manifest_key
    bucket.store.put(key, b"{")
    bucket.store.put(topic_key("orders", ORDERS), b"{}")
    node = start_node(stratalog_read_only="true")
    assert node.values("orders") == [b"a", b"b", b"c", b"d"]
    with pytest.raises(KafkaError) as caught:
        node.end("orders", 1)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert "orders-1 cannot be served" in caplog.text
    assert "topic.json is left aside" in caplog.text


@pytest.mark.story
def test_a_bucket_that_is_not_there_is_no_empty_one(start_node, tmp_path):
    """A wrong path is said, and the folder is not made."""
    with pytest.raises(Invalid, match="cannot be mounted"):
        start_node(directory="other", stratalog_read_only="true")
    assert not (tmp_path / "other" / "bucket").exists()


@pytest.mark.story
def test_a_topic_that_leaves_unread_does_not_end_the_following(mounted, bucket):
    """The damaged manifest of one of its partitions is asked for again, and just then the topic is gone."""
    bucket.store.put(PartitionId("orders", ORDERS, 3).manifest_key, b"{")
    bucket.describe("orders", ORDERS, 4)
    mounted.wait_until(lambda: len(mounted.node.image.topics.by_name["orders"].partitions) == 4)
    bucket.describe("orders", ORDERS, 4, state="deleting")
    mounted.wait_until(lambda: "orders" not in mounted.node.image.topics.by_name)
    for number in range(3):
        bucket.archive(f"clicks{number}", os.urandom(16), 0, [b"click"])
        mounted.wait_until(lambda number=number: f"clicks{number}" in mounted.node.image.topics.by_name)


@pytest.mark.story
def test_metadata_that_could_not_be_written_are_written_later(mounted, bucket, monkeypatch):
    """A topic that is new, one that has gone and more partitions: a full disk keeps none of them back for good."""
    bucket.archive("clicks", os.urandom(16), 0, [b"click"])
    mounted.wait_until(lambda: "clicks" in mounted.node.image.topics.by_name)
    full, propose = [True], type(mounted.node.quorum).propose

    def proposed(quorum, records, *, epoch):
        if full:
            full.append(True)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "the disk is full")
        return propose(quorum, records, epoch=epoch)

    monkeypatch.setattr(type(mounted.node.quorum), "propose", proposed)
    bucket.archive("views", os.urandom(16), 0, [b"view"])
    bucket.describe("orders", ORDERS, 5)
    mounted.wait_until(lambda: len(full) > 3)
    full.clear()
    mounted.wait_until(lambda: "views" in mounted.node.image.topics.by_name)
    mounted.wait_until(lambda: len(mounted.node.image.topics.by_name["orders"].partitions) == 5)
    full.append(True)
    bucket.describe("orders", ORDERS, 5, state="deleting")
    mounted.wait_until(lambda: len(full) > 3)
    full.clear()
    mounted.wait_until(lambda: "orders" not in mounted.node.image.topics.by_name)
    assert mounted.values("views") == [b"view"]


def test_it_begins_with_nothing_of_an_earlier_run(mounted):
    """Topics that stand in the metadata already may be others than those of the bucket."""
    mounted.stop()
    with pytest.raises(Invalid, match=r"log.dirs that are empty"):
        mounted.start()
