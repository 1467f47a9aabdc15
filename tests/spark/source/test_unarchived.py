"""Partitions without an archive: naming them gives no rows, as from Spark's Kafka source."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stratalog.spark.backfill.backfill import BackfillSettings, backfill, foresee_backfill
from stratalog.spark.source.archive import load_partitions
from stratalog.spark.source.options import parse_options
from stratalog.spark.source.planner import DataLoss
from stratalog.spark.source.read_plan import plan_slices
from stratalog.spark.source.stream_driver import StreamDriver
from stratalog.spark.source.stream_options import parse_stream
from stratalog.spark.source.unarchived import partition_count, similar_topic
from stratalog.tier.documents.keys import topic_key
from stratalog.tier.messages.projection import topic_projection, write_projection
from stratalog.wire.errors import Invalid, Unknown
from stratalog.wire.topic import TopicPartition

TOPIC_ID = b"t" * 16
P2 = TopicPartition("orders", 2)


@pytest.fixture
def describe(memory_archive: Any) -> Any:
    """Writes the ``topic.json`` of a topic."""

    def write(partitions: int, topic: str = "orders", topic_id: bytes = TOPIC_ID, state: str = "live") -> None:
        fields = {"partitions": partitions, "configs": {}, "cluster_id": "c", "state": state}
        write_projection(memory_archive.store, topic_projection(topic, topic_id, **fields))

    return write


@pytest.fixture
def store(memory_archive: Any, batches: Any, describe: Any) -> Any:
    """Topic ``orders`` has three partitions; nothing of the last one is archived."""
    memory_archive.add("orders", 0, batches(0, 100))
    memory_archive.add("orders", 1, batches(0, 50))
    describe(3)
    return memory_archive.store


def options(**given: str) -> Any:
    return parse_options({"path": "memory:x", **({} if "assign" in given else {"subscribe": "orders"}), **given})


def read(store: Any, **given: str) -> list[tuple[int, int, int]]:
    return [(each.partition, each.start_offset, each.end_offset) for each in plan_slices(store, options(**given))]


@pytest.mark.parametrize(
    "given",
    [
        {"startingOffsets": '{"orders":{"0":90,"1":0,"2":0}}'},
        {"startingOffsets": '{"orders":{"0":90,"1":-2,"2":-2}}', "strictOffsets": "true"},
        {"startingOffsets": '{"orders":{"0":90}}', "endingOffsets": '{"orders":{"2":-1}}'},
        {"startingOffsets": '{"orders":{"0":90}}', "endingOffsets": '{"orders":{"0":100,"1":50,"2":0}}'},
        {"startingOffsets": '{"orders":{"0":90}}', "assign": '{"orders":[0,1,2]}'},
    ],
)
def test_offsets_of_an_empty_partition_read_nothing_there(store: Any, given: dict[str, str]) -> None:
    """Kafka's source wants all partitions of a topic to be named, also those without a record."""
    assert read(store, **given) == [(0, 90, 100), (1, 0, 50)]


def test_times_of_an_empty_partition_are_behind_its_last_record(store: Any) -> None:
    """As they are in a partition whose records are all older."""
    times = {"startingOffsetsByTimestamp": '{"orders":{"0":1,"1":1,"2":1}}'}
    with pytest.raises(Invalid, match="orders-2: no record is as new as"):
        read(store, **times)
    assert len(read(store, **times, startingOffsetsByTimestampStrategy="latest")) == 2


def test_an_offset_beyond_an_empty_partition_is_a_loss(store: Any) -> None:
    """As it is beyond the end of any other."""
    with pytest.raises(DataLoss, match="orders-2: the starting offset 7 is beyond offset 0"):
        read(store, startingOffsets='{"orders":{"2":7}}')


def test_only_partitions_that_the_topic_has_may_be_named(store: Any) -> None:
    """A number too high is a mistake, and is reported as before."""
    with pytest.raises(Invalid, match="'startingOffsets' names orders-3, which is not among"):
        read(store, startingOffsets='{"orders":{"3":0}}')
    with pytest.raises(Unknown, match=r"partition orders-3 is not in the archive.*has 3 partitions"):
        read(store, assign='{"orders":[0,3]}')
    with pytest.raises(Invalid, match="'startingOffsets' names orders-2, which is not among"):
        read(store, assign='{"orders":[0]}', startingOffsets='{"orders":{"2":0}}')


@pytest.mark.parametrize("document", [None, b"{", b'{"topic":7}'])
def test_without_a_topic_json_folders_count(store: Any, document: bytes | None) -> None:
    """As many partitions are known as have a folder, with a manifest or without."""
    key = topic_key("orders", TOPIC_ID)
    if document is None:
        store.delete_many([key])
    else:
        store.put(key, document)
    with pytest.raises(Invalid, match="names orders-2"):
        read(store, startingOffsets='{"orders":{"2":0}}')
    store.put(f"{key.removesuffix('topic.json')}0000000003/x.seg", b"not committed yet")
    assert len(read(store, startingOffsets='{"orders":{"2":0,"3":0}}')) == 2


def test_a_topic_that_is_described_and_empty_has_no_rows(
    store: Any, describe: Any, memory_archive: Any, batches: Any
) -> None:
    """A deleted one is unknown; of two with one name the archived one counts."""
    describe(4, "empty", b"e" * 16)
    describe(2, "gone", b"g" * 16, state="deleting")
    describe(9, "orders", b"o" * 16)
    assert load_partitions(store, options(subscribe="empty").subscription) == []
    assert partition_count(store, "empty") == 4
    assert partition_count(store, "empty@2026-01-01") == 4
    with pytest.raises(Unknown, match="topic 'gone' is not in the archive"):
        load_partitions(store, options(subscribe="gone").subscription)
    with pytest.raises(Invalid, match="names orders-5"):
        read(store, startingOffsets='{"orders":{"5":0}}')
    assert len(load_partitions(store, options(subscribe="orders,empty").subscription)) == 2


def test_a_long_name_is_that_of_its_own_topic(store: Any, describe: Any) -> None:
    """Names are cut in keys, so the document says whose it is."""
    describe(2, "x" * 240, b"x" * 16)
    assert [partition_count(store, "x" * length) for length in (240, 241, 200)] == [2, 0, 0]


@pytest.mark.parametrize("name", ["../x", "a/b", "", ".", "..", "a b", "ä", "x" * 250])
def test_names_that_no_topic_has_are_unknown(store: Any, name: str) -> None:
    """They are no keys, and no error of the store."""
    assert partition_count(store, name) == 0
    if name:
        with pytest.raises(Unknown, match="is not in the archive"):
            load_partitions(store, options(assign=json.dumps({name: [0]})).subscription)


def test_a_name_that_is_nearly_right_is_suggested(store: Any, describe: Any) -> None:
    """Among what begins alike, and what the query has found besides."""
    describe(4, "flights", b"f" * 16)
    assert similar_topic(store, "fligths", ()) == "flights"
    assert similar_topic(store, "zorders", {"orders"}) == "orders"
    assert similar_topic(store, "zebra", ()) is None
    with pytest.raises(Unknown, match=r"did you mean 'orders'.*first segment has been uploaded"):
        load_partitions(store, options(subscribe="oders").subscription)


def test_a_stream_may_name_it_too_and_reads_it_from_its_beginning(
    store: Any, memory_archive: Any, batches: Any
) -> None:
    """It is no part of the offsets before something of it is archived."""
    given = {"path": "memory:x", "subscribe": "orders", "lease": "false", "manifestRefresh": "0"}
    given |= {"discoveryInterval": "0", "startingOffsets": '{"orders":{"0":90,"1":-1,"2":-1}}'}
    driver = StreamDriver(store, parse_options(given, streaming=True), parse_stream(given), 2)
    start = driver.initial()
    assert start == {TopicPartition("orders", 0): 90, TopicPartition("orders", 1): 50}
    memory_archive.add("orders", 2, batches(0, 10))
    end = driver.next_end(start, None)
    assert end[P2] == 10
    tasks, _ = driver.plan(start, end)
    assert [(each.partition, each.start_offset) for task in tasks for each in task] == [(0, 90), (2, 0)]


def test_a_backfill_of_it_has_nothing_to_do(tmp_path: Any, archive_in: Any) -> None:
    """Neither planned nor run, and nothing is written."""
    archive = archive_in(f"file://{tmp_path}/archive")
    fields: dict[str, Any] = {"partitions": 2, "configs": {}, "cluster_id": "c"}
    write_projection(archive.store, topic_projection("orders", TOPIC_ID, **fields))
    read_options = parse_options({"path": archive.store.url, "subscribe": "orders"})
    settings = BackfillSettings("orders", read_options, str(tmp_path / "lake"))
    assert foresee_backfill(settings).spans == 0

    class NoRunner:
        def convert(self, *_: object) -> list[Any]:
            raise AssertionError("nothing is to be converted")

    assert backfill(settings, NoRunner()).runs == 0
    assert not (tmp_path / "lake").exists()
