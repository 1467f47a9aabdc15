"""A backfill beside an archive that went back and grew again: rows of the state that it has left go."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from msgspec import structs

from stratalog.spark.backfill.backfill import backfill, foresee_backfill
from stratalog.spark.ledger.layout import head_key
from stratalog.spark.ledger.ledger_json import head_from_bytes, head_to_bytes
from stratalog.spark.ledger.target import open_target
from stratalog.spark.source.options import parse_options
from stratalog.spark.source.planner import DataLoss
from stratalog.tier.care.rewind import read_cut_target, rewind_partition
from stratalog.tier.manifests.entry import Entry
from stratalog.tier.manifests.manifest import Uploaded, commit
from stratalog.tier.manifests.manifest_store import read_manifest
from stratalog.tier.manifests.parts import Claimant
from stratalog.tier.objects.segment_object import SegmentRequest, build_segment
from stratalog.tier.work.cut_commands import create_cut
from stratalog.wire.batch import Record, build_batch
from stratalog.wire.errors import Invalid

HOUR_MS = 3_600_000
DAY_BEGIN_MS = 1_372_896_000_000


def batch(first: int, text: bytes, epoch: int = 0) -> bytes:
    """Ten records, an hour apart from the tenth hour on: some partition folders hold twenty and more."""
    records = [
        Record(offset, DAY_BEGIN_MS + offset * HOUR_MS, b"k", text + b"-%d" % offset)
        for offset in range(first, first + 10)
    ]
    return bytes(build_batch(records, leader_epoch=epoch))


@pytest.fixture
def went_back(tmp_path: Path, archive_in: Callable[[str], Any]) -> Any:
    """``orders-0`` with the offsets 0 to 29 and a cut at 10; `go_back` takes it there."""
    archive = archive_in(f"file://{tmp_path / 'archive'}")
    archive.add("orders", 0, batch(0, b"old"))
    archive.cut = create_cut(archive.store, "monday", now_ms=50)
    archive.manifests["orders", 0] = read_manifest(archive.store, archive.manifests["orders", 0].partition).manifest
    archive.add("orders", 0, batch(10, b"old"), batch(20, b"old"))
    return archive


def go_back(archive: Any) -> None:
    """As ``stratalog restore --takeover`` does."""
    target = read_cut_target(archive.store, archive.cut, archive.cut.partitions[-1])
    claimant = Claimant(1, -1, b"m" * 16, 4)
    archive.manifests["orders", 0] = rewind_partition(archive.store, target, claimant, cluster_id="c", now_ms=90)


def grow(archive: Any, *firsts: int) -> None:
    """The restored cluster acknowledges and archives ten records from each of ``firsts`` on."""
    manifest = archive.manifests["orders", 0]
    for first in firsts:
        entry = upload(archive, batch(first, b"new", 9), first)
        manifest = commit(manifest, manifest.claimant, [Uploaded(entry, manifest.claimant)], now_ms=100)
    archive.write("orders", 0, manifest, [])


def upload(archive: Any, data: bytes, first: int, count: int = 10, partition: int = 0) -> Entry:
    manifest = archive.manifests["orders", partition]
    built = build_segment(
        SegmentRequest(
            partition=manifest.partition,
            uuid=uuid.uuid4().bytes,
            base=first,
            end=first + count,
            epoch=manifest.claimant.leader_epoch,
            source=[data],
        )
    )
    archive.store.put(built.entry.key, list(built.source))
    return built.entry


def rows(rig: Any, target: str) -> list[Any]:
    return list(rig.target_rows(open_target(target, {}).store))


@pytest.mark.parametrize("kind", ["directory", "store"])
def test_rows_of_a_state_that_the_archive_has_left_are_replaced(
    kind: str, tmp_path: Path, went_back: Any, rig: Any
) -> None:
    """Offsets that were converted before the archive went back are converted anew, by the next backfill, unasked."""
    target = str(tmp_path / "lake") if kind == "directory" else f"memory:{uuid.uuid4().hex}"
    settings = rig.settings(went_back, target)
    backfill(settings, rig.HereRunner())
    go_back(went_back)
    grow(went_back, 10, 20, 30)
    assert foresee_backfill(settings).offsets == 40
    summary = backfill(settings, rig.HereRunner())
    assert (summary.abandoned, summary.rows) == (1, 40)
    assert rows(rig, target) == rig.archive_rows(went_back)
    assert backfill(settings, rig.HereRunner()).runs == 0


def test_rows_go_before_others_come(tmp_path: Path, went_back: Any, rig: Any) -> None:
    """A target is never ahead of the archive; what comes later has names of its own, though the offsets are the same."""
    target = str(tmp_path / "lake")
    settings = rig.settings(went_back, target)
    for _ in range(2):
        backfill(settings, rig.HereRunner())
    before = set(rig.visible_keys(open_target(target, {}).store))
    go_back(went_back)
    assert backfill(settings, rig.HereRunner()).abandoned == 1
    assert rows(rig, target) == rig.archive_rows(went_back)
    for first in (10, 20):
        grow(went_back, first)
        assert backfill(settings, rig.HereRunner()).abandoned == 0
        assert rows(rig, target) == rig.archive_rows(went_back)
    assert not before & set(rig.visible_keys(open_target(target, {}).store))


def test_rows_that_retention_has_removed_from_the_archive_stay(tmp_path: Path, went_back: Any, rig: Any) -> None:
    """If a span begins below the log start, its rows there are taken from its own files."""
    target = str(tmp_path / "lake")
    backfill(rig.settings(went_back, target), rig.HereRunner())
    before = rows(rig, target)
    go_back(went_back)
    grow(went_back, 10, 20)
    manifest = structs.replace(went_back.manifests["orders", 0], log_start_offset=7)
    went_back.write("orders", 0, manifest, [])
    assert backfill(rig.settings(went_back, target), rig.HereRunner()).abandoned == 1
    assert rows(rig, target) == [*before[:7], *rig.archive_rows(went_back)[7:]]


def test_spans_that_are_what_the_archive_holds_are_left_alone(tmp_path: Path, went_back: Any, rig: Any) -> None:
    """One that was converted before the cut, and one of the state after it."""
    target = str(tmp_path / "lake")
    settings = rig.settings(went_back, target)
    backfill(rig.settings(went_back, target, endingOffsets='{"orders": {"0": 10}}'), rig.HereRunner())
    backfill(settings, rig.HereRunner())
    go_back(went_back)
    grow(went_back, 10)
    summary = backfill(settings, rig.HereRunner())
    assert (summary.abandoned, summary.rows) == (1, 10)
    assert rows(rig, target) == rig.archive_rows(went_back)


def age(target: str) -> None:
    """Make the ledger one of an earlier version."""
    store, key = open_target(target, {}).store, head_key("orders")
    store.put(key, head_to_bytes(structs.replace(head_from_bytes(store.get(key)[0], key), shortened={})))


def test_a_ledger_of_an_earlier_version_is_gone_on_with(tmp_path: Path, went_back: Any, rig: Any) -> None:
    """It does not say which state of the archive it knows. That the archive went back long ago, and that its objects were
    merged since, is no reason to convert all of it anew; that it is shorter than what was converted is one.
    """
    target = str(tmp_path / "lake")
    settings = rig.settings(went_back, target)
    go_back(went_back)
    grow(went_back, 10, 20)
    backfill(settings, rig.HereRunner())
    age(target)
    manifest = went_back.manifests["orders", 0]
    merged = upload(went_back, batch(10, b"new", 9) + batch(20, b"new", 9), 10, 20)
    went_back.write("orders", 0, structs.replace(manifest, entries=(manifest.entries[0], merged)), [])
    before = set(rig.visible_keys(open_target(target, {}).store))
    assert backfill(settings, rig.HereRunner()).runs == 0
    grow(went_back, 30)
    assert backfill(settings, rig.HereRunner()).abandoned == 0
    assert before < set(rig.visible_keys(open_target(target, {}).store))
    assert rows(rig, target) == rig.archive_rows(went_back)
    age(target)
    go_back(went_back)
    assert backfill(settings, rig.HereRunner()).abandoned == 2
    assert rows(rig, target) == rig.archive_rows(went_back)


@pytest.mark.parametrize("deleted", [False, True])
def test_rows_of_a_partition_without_a_manifest_stay(
    deleted: bool, tmp_path: Path, archive_in: Callable[[str], Any], rig: Any
) -> None:
    """A ledger of an earlier version has more offsets than such a partition, which an assignment names all the same. It may
    come back, and is compared then with what was converted.
    """
    archive = archive_in(f"file://{tmp_path / 'archive'}")
    for number in (0, 1):
        archive.add("orders", number, batch(0, b"old"), batch(10, b"old"))
    target = str(tmp_path / "lake")
    read = parse_options({"archive": archive.store.url, "assign": '{"orders": [0, 1]}'})
    settings = replace(rig.settings(archive, target), read=read)
    backfill(settings, rig.HereRunner())
    age(target)
    whole = archive.manifests["orders", 1]
    if deleted:
        archive.write("orders", 1, structs.replace(whole, deleted_ms=5, entries=(), remote_end=0), [])
    else:
        archive.store.delete_many([whole.partition.manifest_key])
    before = rows(rig, target)
    assert backfill(settings, rig.HereRunner()).runs == 0
    archive.add("orders", 0, batch(20, b"old"))
    summary = backfill(settings, rig.HereRunner())
    assert (summary.abandoned, summary.removed, summary.rows) == (0, 0, 10)
    archive.write("orders", 1, structs.replace(whole, shortened_seq=2), [])
    merged = upload(archive, batch(0, b"old") + batch(10, b"old"), 0, 20, 1)
    archive.write("orders", 1, structs.replace(archive.manifests["orders", 1], entries=(merged,)), [])
    assert backfill(settings, rig.HereRunner()).abandoned == 0
    assert set(before) < set(rows(rig, target)) == set(rig.archive_rows(archive))


def test_a_table_is_not_gone_on_with(tmp_path: Path, went_back: Any, rig: Any) -> None:
    """Its files are not replaced, so the backfill says so and adds nothing."""

    class Table:
        files_url = str(tmp_path / "lake")
        one_period_a_file = False
        files_options: Mapping[str, str] = MappingProxyType({})

        def last_run(self, head: Any) -> int:
            return int(head.seq)

        def add(self, head: Any, run: Any) -> None:
            del head, run

    settings = rig.settings(went_back, Table.files_url, table=Table())
    backfill(settings, rig.HereRunner())
    go_back(went_back)
    grow(went_back, 10, 20, 30)
    before = rows(rig, Table.files_url)
    with pytest.raises(Invalid, match=r"orders-0: offsets 0 to 29 were converted.*convert to another table"):
        backfill(settings, rig.HereRunner())
    assert rows(rig, Table.files_url) == before


def test_an_object_that_is_gone_in_the_place_of_what_goes_is_a_loss(tmp_path: Path, went_back: Any, rig: Any) -> None:
    """The error comes before any row goes; where loss is accepted the rest is replaced, and what is missing waits."""
    target = str(tmp_path / "lake")
    settings = rig.settings(went_back, target)
    backfill(settings, rig.HereRunner())
    go_back(went_back)
    grow(went_back, 10, 20)
    key = went_back.manifests["orders", 0].entries[1].key
    data = went_back.store.get(key)[0]
    went_back.store.delete_many([key])
    before = rows(rig, target)
    with pytest.raises(DataLoss):
        backfill(settings, rig.HereRunner())
    assert rows(rig, target) == before
    lenient = replace(settings, read=replace(settings.read, fail_on_data_loss=False))
    assert backfill(lenient, rig.HereRunner()).abandoned == 1
    went_back.store.put(key, data)
    now = rig.archive_rows(went_back)
    assert rows(rig, target) == [*now[:10], *now[20:]]
    assert backfill(settings, rig.HereRunner()).rows == 10
    assert rows(rig, target) == now


def test_a_partition_without_a_manifest_stops_no_other(tmp_path: Path, went_back: Any, rig: Any) -> None:
    """Its rows stay, also where an earlier backfill has seen that it went back once."""
    went_back.add("orders", 1, batch(0, b"old"))
    target = str(tmp_path / "lake")
    read = parse_options({"archive": went_back.store.url, "assign": '{"orders": [0, 1]}'})
    settings = replace(rig.settings(went_back, target), read=read)
    go_back(went_back)
    backfill(settings, rig.HereRunner())
    before = rows(rig, target)
    went_back.store.delete_many([went_back.manifests["orders", 0].partition.manifest_key])
    went_back.add("orders", 1, batch(10, b"old"))
    summary = backfill(settings, rig.HereRunner())
    assert (summary.abandoned, summary.removed, summary.rows) == (0, 0, 10)
    assert set(before) < set(rows(rig, target))


def test_a_way_back_that_has_no_number_is_known_by_its_name(tmp_path: Path, went_back: Any, rig: Any) -> None:
    """An earlier version kept no number of it, and wrote the ledger, too."""
    target = str(tmp_path / "lake")
    settings = rig.settings(went_back, target)
    backfill(settings, rig.HereRunner())
    age(target)
    go_back(went_back)
    went_back.write("orders", 0, structs.replace(went_back.manifests["orders", 0], shortened_seq=0), [])
    assert backfill(settings, rig.HereRunner()).abandoned == 1
    assert rows(rig, target) == rig.archive_rows(went_back)
