"""Finding partitions in a bucket, and the offset at which a time begins."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from crc32c import crc32c

from stratalog.spark.source.archive import find_timestamp, load_partitions
from stratalog.spark.source.options import Subscription, parse_options
from stratalog.spark.source.planner import DataLoss
from stratalog.tier.bucket.trash import trash_archive
from stratalog.tier.planning.slices import PartitionArchive
from stratalog.wire.batch import HEADER_BYTES, Record, build_batch
from stratalog.wire.compression import Codec
from stratalog.wire.errors import Corrupt, Invalid

Batches = Callable[..., bytes]


def subscribed(**option: str) -> Subscription:
    return parse_options({"path": "memory:x", **option}).subscription


def names(store: Any, **option: str) -> list[str]:
    return [str(each.partition) for each in load_partitions(store, subscribed(**option))]


@pytest.fixture
def filled(memory_archive: Any, batches: Batches) -> Any:
    """Topics whose names begin alike, and one in two partitions."""
    for topic, partition in (("orders", 1), ("orders", 0), ("orders-eu", 0), ("order", 0), ("x" * 240, 2)):
        memory_archive.add(topic, partition, batches(0, 20), topic_id=topic[:16].encode().ljust(16, b"_"))
    return memory_archive


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        ({"subscribe": "orders"}, ["orders-0", "orders-1"]),
        ({"subscribe": "orders-eu,order"}, ["order-0", "orders-eu-0"]),
        ({"subscribePattern": "orders?$"}, ["order-0", "orders-0", "orders-1"]),
        ({"subscribePattern": "s-"}, ["orders-eu-0"]),
        ({"subscribePattern": "nothing"}, []),
        ({"assign": '{"orders":[1]}'}, ["orders-1"]),
        ({"subscribe": "x" * 240}, ["x" * 240 + "-2"]),
        ({"subscribePattern": "x+"}, ["x" * 240 + "-2"]),
    ],
)
def test_only_what_is_subscribed_is_loaded(filled: Any, option: dict[str, str], expected: list[str]) -> None:
    """Names that begin alike and names cut in keys are distinguished; partitions come in order."""
    assert names(filled.store, **option) == expected


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"subscribe": "orders,nope"}, "topic 'nope' is not in the archive memory:spark-tests"),
        ({"assign": '{"orders":[0,7]}'}, r"partition orders-7 is not in the archive .*\[0, 1\]"),
    ],
)
def test_missing_partitions_are_named(filled: Any, option: dict[str, str], message: str) -> None:
    """A misspelt topic is an error, not an empty answer."""
    with pytest.raises(Invalid, match=message):
        names(filled.store, **option)


def test_the_newest_of_a_topic_made_again_is_read(
    memory_archive: Any, batches: Batches, caplog: pytest.LogCaptureFixture
) -> None:
    """Deleting and creating a topic leaves two archives of one name; a warning names the other."""
    memory_archive.add("orders", 0, batches(0, 20), topic_id=b"z" * 16, claimed_ms=5)
    memory_archive.manifests.clear()
    memory_archive.add("orders", 0, batches(0, 70), topic_id=b"a" * 16, claimed_ms=9)
    with caplog.at_level(logging.WARNING):
        (found,) = load_partitions(memory_archive.store, subscribed(subscribe="orders"))
    assert found.end_offset == 70
    assert "2 topics named 'orders'" in caplog.text


def test_a_deleted_topic_is_no_archive(memory_archive: Any, batches: Batches) -> None:
    """Though its manifest is there until its objects have gone, and was claimed last."""
    memory_archive.add("orders", 0, batches(0, 20), topic_id=b"z" * 16, claimed_ms=5)
    memory_archive.manifests.clear()
    memory_archive.add("orders", 0, batches(0, 70), topic_id=b"a" * 16, claimed_ms=9)
    manifest = memory_archive.manifests["orders", 0]
    deleted = trash_archive(manifest, manifest.claimant, now_ms=10, reason="topic deleted")
    memory_archive.write("orders", 0, deleted, [])
    (found,) = load_partitions(memory_archive.store, subscribed(subscribe="orders"))
    assert found.end_offset == 20


def test_objects_without_a_manifest_are_no_archive(memory_archive: Any, batches: Batches) -> None:
    """An upload that was never committed does not count."""
    memory_archive.add("orders", 0, batches(0, 20))
    memory_archive.add("orders", 1, batches(0, 20))
    memory_archive.store.delete_many([memory_archive.manifests["orders", 1].partition.manifest_key])
    assert names(memory_archive.store, subscribe="orders") == ["orders-0"]


def test_a_damaged_manifest_is_reported(memory_archive: Any, batches: Batches) -> None:
    """It is an error that names the key."""
    memory_archive.add("orders", 0, batches(0, 20))
    key = memory_archive.manifests["orders", 0].partition.manifest_key
    memory_archive.store.put(key, b"{}")
    with pytest.raises(Corrupt, match=key):
        names(memory_archive.store, subscribe="orders")


class ListedStore:
    """Counts the keys that listings bring."""

    def __init__(self, store: Any) -> None:
        self.store = store
        self.url = store.url
        self.keys = 0

    def list(self, prefix: str, start_after: str = "") -> Iterator[Any]:
        for info in self.store.list(prefix, start_after):
            self.keys += 1
            yield info

    def get(self, key: str) -> tuple[bytes, str]:
        return self.store.get(key)


def test_folders_of_many_objects_are_jumped_over(filled: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Finding partitions does not list every object that they hold."""
    monkeypatch.setattr("stratalog.tier.bucket.partition_folders.KEYS_PER_LISTING", 10)
    for manifest in filled.manifests.values():
        for number in range(200):
            filled.store.put(
                f"{manifest.partition.segments_prefix}{number:020}-{number + 1:020}-{0:010}-{'A' * 22}.seg", b"x"
            )
    store = ListedStore(filled.store)
    assert names(store, subscribe="orders") == ["orders-0", "orders-1"]
    assert store.keys < 50


@pytest.fixture
def timed(memory_archive: Any) -> Any:
    """Times that go back: offsets 0 to 4 at 100..500 ms, 5 to 9 at 50 ms, 10 to 14 at 400..800 ms."""
    memory_archive.chunk_bytes = 100
    times = [100, 200, 300, 400, 500, *[50] * 5, 400, 500, 600, 700, 800]
    batches = [
        bytes(
            build_batch(
                [Record(offset, times[offset], None, b"x") for offset in range(start, start + 5)], leader_epoch=0
            )
        )
        for start in (0, 5, 10)
    ]
    memory_archive.add("orders", 0, batches[0] + batches[1], batches[2])
    return memory_archive


def loaded(archive: Any) -> PartitionArchive:
    (found,) = load_partitions(archive.store, subscribed(subscribe="orders"))
    return found


@pytest.mark.parametrize(
    ("timestamp_ms", "offset"),
    [(0, 0), (100, 0), (101, 1), (500, 4), (501, 12), (800, 14), (801, None)],
)
def test_a_time_begins_at_the_first_record_not_older(timed: Any, timestamp_ms: int, offset: int | None) -> None:
    """Exactly, as ListOffsets answers it, across chunks and objects, also where times go back."""
    assert find_timestamp(timed.store, loaded(timed), timestamp_ms) == offset


@pytest.mark.parametrize(("timestamp_ms", "offset"), [(100, 3), (401, 4), (501, 12)])
def test_records_below_the_log_start_are_not_found(timed: Any, timestamp_ms: int, offset: int) -> None:
    """DeleteRecords may have moved the log start into the first object."""
    timed.set_log_start("orders", 0, 3)
    assert find_timestamp(timed.store, loaded(timed), timestamp_ms) == offset


def test_a_time_is_found_when_the_only_match_of_an_object_was_deleted(timed: Any) -> None:
    """The search goes on in the next object."""
    timed.set_log_start("orders", 0, 5)
    assert find_timestamp(timed.store, loaded(timed), 450) == 11


def test_a_time_is_looked_for_around_damage(timed: Any) -> None:
    """Where damaged records are left out, the first readable one counts; else damage is an error, as is a lost object."""
    entry = timed.manifests["orders", 0].entries[0]
    expected = find_timestamp(timed.store, loaded(timed), 0)
    data = bytearray(timed.store.get(entry.key)[0])
    data[70] ^= 1
    timed.store.put(entry.key, bytes(data))
    with pytest.raises(Corrupt, match=entry.key):
        find_timestamp(timed.store, loaded(timed), 0)
    found = find_timestamp(timed.store, loaded(timed), 0, skip_damage=True)
    assert found is not None
    assert expected is not None
    assert found > expected
    timed.store.delete_many([entry.key])
    with pytest.raises(DataLoss, match=entry.key):
        find_timestamp(timed.store, loaded(timed), 0)
    assert find_timestamp(timed.store, loaded(timed), 0, skip_loss=True) is not None


def odd_batch(*deltas: int) -> bytes:
    """A batch from offset 40 on, at 1000 ms and 100 ms more each, with offset deltas that its client has made up."""
    data = build_batch([Record(40 + n, 1000 + 100 * n, None, b"x") for n in range(len(deltas))], leader_epoch=0)
    at = HEADER_BYTES
    for delta in deltas:
        length = data[at] >> 1
        data[at + length - 4] = delta << 1  # before a null key, a value of one byte and no header
        at += 1 + length
    data[17:21] = crc32c(bytes(data[21:])).to_bytes(4, "big")
    return bytes(data)


@pytest.mark.parametrize("deltas", [(50, 51), (1, 0), (0, 0)])
def test_a_time_begins_where_a_reader_finds_the_record(
    deltas: tuple[int, int], memory_archive: Any, batches: Batches
) -> None:
    """Not at the offset that its client made up: a read would begin behind it, and pass over all up to there."""
    memory_archive.add("orders", 0, batches(0, 40, timestamp_ms=0, step_ms=1), odd_batch(*deltas) + batches(42, 60))
    archive = loaded(memory_archive)
    assert [find_timestamp(memory_archive.store, archive, at_ms) for at_ms in (39, 1000, 1050)] == [39, 40, 41]


def test_a_batch_that_cannot_be_read_counts_whole_where_a_time_is_looked_for(
    memory_archive: Any, batches: Batches, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its object is not left out of the search for it, and its reader is not spared the error."""
    monkeypatch.setattr("stratalog.spark.rows.decode.DECOMPRESSED_BYTES_MAX", 500)
    large = batches(10, 10, timestamp_ms=1000, step_ms=100, codec=Codec.ZSTD, value_bytes=100)
    early, late = batches(0, 10, timestamp_ms=0, step_ms=1), batches(20, 9, timestamp_ms=2000)
    memory_archive.add("orders", 0, early + large + late, batches(29, 10, timestamp_ms=60_000))
    archive = loaded(memory_archive)
    for skip in (False, True):
        found = [find_timestamp(memory_archive.store, archive, ms, skip_damage=skip) for ms in (500, 1900, 1901)]
        assert found == [10, 10, 20]
