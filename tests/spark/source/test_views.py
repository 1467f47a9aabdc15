"""Topics as they were at a cut or at a time, without Spark."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from stratalog.spark.source.archive import find_timestamp, load_partitions
from stratalog.spark.source.fetch import ReadRequest, read_slices
from stratalog.spark.source.options import parse_options
from stratalog.tier.bucket.trash import trash_archive
from stratalog.tier.manifests.json import from_bytes, to_bytes
from stratalog.tier.manifests.manifest import Claimant
from stratalog.tier.planning.slices import OffsetRange, PartitionArchive, cut_slices
from stratalog.tier.work.cut_commands import create_cut, delete_cut, end_at, read_cut
from stratalog.wire.errors import Invalid

Batches = Callable[..., bytes]
CLAIMANT = Claimant(0, 1, b"c" * 16, 1)


def views(store: Any, name: str, **option: str) -> list[PartitionArchive]:
    chosen = option or {"subscribe": name}
    return load_partitions(store, parse_options({"path": "memory:x", **chosen}).subscription)


def offsets(store: Any, archive: PartitionArchive) -> list[int]:
    """Rows of a full read, and the name of the view."""
    slices, holes = cut_slices(archive, OffsetRange(archive.log_start_offset, archive.end_offset))
    assert holes == []
    batches = list(read_slices(store, slices, ReadRequest(("offset", "topic", "partition"))))
    assert {(t, p) for b in batches for t, p in zip(b[1].to_pylist(), b[2].to_pylist(), strict=True)} <= {
        archive.partition
    }
    return [offset for batch in batches for offset in batch.column(0).to_pylist()]


@pytest.fixture
def cut(memory_archive: Any, batches: Batches) -> Any:
    """Two partitions; the cut ``early`` at the time of offset 33, the cut ``all`` at the end; more came later."""
    for partition in range(2):
        memory_archive.add("orders", partition, batches(0, 30), batches(30, 30, timestamp_ms=1_030_000))
    for name, end in (("early", {"end_of": end_at(1_033_000)}), ("all", {})):
        create_cut(memory_archive.store, name, now_ms=7, **end)
    return memory_archive


def test_a_cut_ends_exactly_where_it_ends(cut: Any, batches: Batches) -> None:
    """Inside a batch, too, in every partition, whatever was appended or removed since."""
    for partition in range(2):
        key = cut.manifests["orders", partition].partition.manifest_key
        cut.manifests["orders", partition] = from_bytes(cut.store.get(key)[0], key)
        cut.add("orders", partition, batches(60, 20))
        cut.set_log_start("orders", partition, 50)
    for archive in views(cut.store, "orders@early"):
        assert offsets(cut.store, archive) == list(range(33))
    assert [offsets(cut.store, archive) for archive in views(cut.store, "orders..at..all")] == [[*range(60)]] * 2
    both = views(cut.store, "orders,orders@all")
    assert [(str(each.partition), each.log_start_offset, each.end_offset) for each in both] == [
        ("orders-0", 50, 80), ("orders-1", 50, 80), ("orders@all-0", 0, 60), ("orders@all-1", 0, 60),
    ]  # fmt: skip


def test_a_cut_outlives_its_topic(cut: Any) -> None:
    """Its manifests' copies are read."""
    for manifest in cut.manifests.values():
        key = manifest.partition.manifest_key
        gone = trash_archive(from_bytes(cut.store.get(key)[0], key), CLAIMANT, now_ms=9, reason="test")
        cut.store.put(key, to_bytes(gone))
    (archive,) = views(cut.store, "", assign='{"orders@all": [1]}')
    assert str(archive.partition) == "orders@all-1"
    assert offsets(cut.store, archive) == list(range(60))


def test_times_inside_a_cut_are_found_only_inside(cut: Any) -> None:
    """A record behind the end of the cut is none of it."""
    archive = views(cut.store, "orders@early")[0]
    assert find_timestamp(cut.store, archive, 1_032_000) == 32
    assert find_timestamp(cut.store, archive, 1_033_000) is None
    assert find_timestamp(cut.store, archive, 1_059_000) is None


@pytest.mark.parametrize(("moment", "end"), [("1030000000", 60), ("1970-01-01T00:17:25Z", 45), ("1970-01-01", 0)])
def test_a_time_shows_what_stands_before_it(cut: Any, moment: str, end: int) -> None:
    """Up to the first record of that time or later; all that is archived if there is none."""
    for archive in views(cut.store, f"orders@{moment}"):
        assert offsets(cut.store, archive) == list(range(end))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "orders@nope",
            "topic 'orders@nope' is not in the archive memory:.*no complete cut 'nope'.*stratalog cut list",
        ),
        ("other@all", "no complete cut 'all' has a topic other"),
        ("other@2026-11-01", "topic 'other@2026-11-01' is not in the archive"),
        ("orders@", "topic 'orders@' is not in the archive"),
    ],
)
def test_a_view_that_is_not_there_is_named(cut: Any, name: str, message: str) -> None:
    """With what to do about it."""
    with pytest.raises(Invalid, match=message):
        views(cut.store, name)


def test_a_cut_that_is_being_deleted_is_no_view(cut: Any) -> None:
    """A view of a cut that is being deleted is refused: there is no complete cut of that name."""
    delete_cut(cut.store, read_cut(cut.store, "all"), now_ms=9)
    with pytest.raises(Invalid, match="no complete cut 'all'"):
        views(cut.store, "orders@all")


def test_a_topic_that_has_such_a_name_is_the_topic(memory_archive: Any, batches: Batches) -> None:
    """As on a mount: only no topic can have an @ in its name."""
    memory_archive.add("orders..at..2026-11-01", 0, batches(0, 20))
    (archive,) = views(memory_archive.store, "orders..at..2026-11-01")
    assert offsets(memory_archive.store, archive) == list(range(20))
