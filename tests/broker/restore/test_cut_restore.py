"""A broker that begins with what a cut holds, and goes on by itself."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner

from stratalog.broker.restore import cut_restore
from stratalog.cli.main import cli
from stratalog.client.admin import describe_topic_configs
from stratalog.client.groups import committed_offsets
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.manifest import set_log_start
from stratalog.tier.manifests.manifest_store import change_manifest, read_manifest
from stratalog.tier.messages.group_copy import OffsetCopy, group_copy_projection
from stratalog.tier.messages.projection import topic_projection, write_projection
from stratalog.tier.objects.segment_blobs import AbortedTransaction
from stratalog.tier.stores.local_store import LocalStore
from stratalog.tier.work.archive_writer import archive_log
from stratalog.tier.work.cut_commands import create_cut, end_at
from stratalog.wire.batch import Record, build_batch, build_control_batch

ORDERS, PAID = os.urandom(16), os.urandom(16)
START_MS = 1_500_000_000_000


def batch(base, count, **options):
    """Records a second apart; values are offsets."""
    records = [Record(at, START_MS + 1000 * at, None, b"%d" % at) for at in range(base, base + count)]
    return bytes(build_batch(records, leader_epoch=base // 10, **options))


@pytest.fixture
def store(tmp_path):
    """``orders``: 20 records, two of them below the log start; ``paid``: transactions, one ends behind offset 6."""
    store = LocalStore(str(tmp_path / "bucket"), sync=False)
    orders = PartitionId("orders", ORDERS, 1)
    for base in (0, 10):
        archive_log(store, orders, [batch(base, 5) + batch(base + 5, 5)], now_ms=1, chunk_bytes=200)
    claimant = read_manifest(store, orders).manifest.claimant
    change_manifest(store, orders, lambda m: set_log_start(m, claimant, 2, now_ms=2, reason="deleted records"))
    configs = {"retention.ms": "1000", "max.message.bytes": "5000", "remote.storage.enable": "true"}
    write_projection(store, topic_projection("orders", ORDERS, partitions=3, configs=configs, cluster_id=""))
    begun = {"transactional": True, "producer_epoch": 0, "base_sequence": 0}
    marks = {"leader_epoch": 0, "timestamp_ms": START_MS, "producer_epoch": 0, "transactional": True}
    paid = [
        batch(0, 2, producer_id=70, **begun),
        batch(2, 2, producer_id=71, **begun),
        batch(4, 2, producer_id=72, **begun),
        bytes(build_control_batch(1, bytes(6), offset=6, producer_id=70, **marks)),
        bytes(build_control_batch(0, bytes(6), offset=7, producer_id=71, **marks)),
        bytes(build_control_batch(1, bytes(6), offset=8, producer_id=72, **marks)),
    ]
    aborted = [AbortedTransaction(71, 2, 7, 4)]
    archive_log(store, PartitionId("paid", PAID, 0), [b"".join(paid)], now_ms=1, aborted=aborted)
    return store


def run(store, *arguments, code=0):
    """A command of ``cut``."""
    found = CliRunner().invoke(cli, ["cut", *arguments, "--bucket", store.url])
    assert found.exit_code == code, found.output
    return found.output


def test_a_broker_begins_with_what_the_cut_holds(store, start_node, tmp_path):
    """Offsets, log start, epochs and settings; old records do not go at once; new ones follow; the bucket is as it was."""
    create_cut(store, "all", now_ms=3)
    archive_log(store, PartitionId("orders", ORDERS, 1), [batch(20, 5)], now_ms=1)
    before = [(each.key, each.version) for each in store.list("")]
    assert "2 topics, 4 partitions" in run(store, "restore", "all", "--data", str(tmp_path / "new" / "data"))
    node = start_node(directory="new")
    assert node.values("orders", 1, 2) == [b"%d" % at for at in range(2, 20)]
    assert [node.end("orders", 1, kind) for kind in (-2, -1)] == [2, 20]
    assert [node.end("orders", number) for number in (0, 2)] == [0, 0]
    log = node.partition("orders", 1).log
    assert [tuple(entry) for entry in log.leader_epochs.entries][:2] == [(0, 2), (1, 10)]
    configs = {name: value for name, value, *_ in describe_topic_configs(node.client(), ["orders"])["orders"]}
    assert (configs["retention.ms"], configs["max.message.bytes"]) == ("-1", "5000")
    assert configs.get("remote.storage.enable", "false") == "false"
    assert node.produce("orders", b"new", partition=1) == [20]
    assert node.node.image.topics.by_name["orders"].topic_id != ORDERS
    assert [(each.key, each.version) for each in store.list("")] == before


def test_groups_go_on_where_they_had_committed(store, start_node, tmp_path):
    """An offset beyond the cut, or before its log start, becomes its end or start, with a note; topics have new ids."""
    offsets = [OffsetCopy("orders", ORDERS, 1, 15, 1, "m"), OffsetCopy("orders", ORDERS, 0, 3)]
    write_projection(store, group_copy_projection("imported", "billing", [*offsets, OffsetCopy("paid", PAID, 0, 2)]))
    write_projection(store, group_copy_projection("imported", "late", [OffsetCopy("orders", ORDERS, 1, 99)]))
    write_projection(store, group_copy_projection("imported", "early", [OffsetCopy("orders", ORDERS, 1, 1)]))
    assert "and the offsets of 3 groups" in run(store, "create", "early", "--at", str(START_MS + 17_000))
    write_projection(store, group_copy_projection("imported", "billing", []))
    told = run(store, "restore", "early", "--topic", "orders", "--data", str(tmp_path / "new" / "data"))
    assert "1 topics, 3 partitions, 3 groups" in told
    assert "group late, orders-1: the committed offset 99 becomes 17." in told
    assert "group early, orders-1: the committed offset 1 becomes 2." in told
    assert "group billing, orders-0: the committed offset 3 becomes 0." in told
    assert "paid" not in told
    node = start_node(directory="new")
    found = {group: committed_offsets(node.client(), group) for group in ("billing", "late", "early")}
    assert {group: [(str(at), one.offset) for at, one in found[group].items()] for group in found} == {
        "billing": [("orders-0", 0), ("orders-1", 15)],
        "late": [("orders-1", 17)],
        "early": [("orders-1", 2)],
    }


def test_a_cut_of_records_that_are_deleted_up_to_the_active_segment_is_empty(tmp_path, start_node):
    """The manifest's log start lies behind its remote end, until the next segment is archived."""
    store = LocalStore(str(tmp_path / "bucket"), sync=False)
    orders = PartitionId("orders", ORDERS, 0)
    archive_log(store, orders, [batch(0, 10)], now_ms=1)
    claimant = read_manifest(store, orders).manifest.claimant
    moved = partial(set_log_start, claimant=claimant, offset=22, now_ms=2, resume_at=10, reason="deleted records")
    change_manifest(store, orders, moved)
    write_projection(store, topic_projection("orders", ORDERS, partitions=1, configs={}, cluster_id=""))
    cut = create_cut(store, "all", now_ms=3)
    assert [(one.log_start_offset, one.end_offset) for one in cut.partitions] == [(22, 22)]
    run(store, "restore", "all", "--data", str(tmp_path / "new" / "data"))
    node = start_node(directory="new")
    assert node.produce("orders", b"new") == [22]
    assert [node.end("orders", 0, kind) for kind in (-2, -1)] == [22, 23]


def test_a_hole_before_the_end_of_the_cut_keeps_its_offsets(tmp_path, start_node):
    """Compaction left it; a group that stands behind it sees the next record."""
    store = LocalStore(str(tmp_path / "bucket"), sync=False)
    compacted = PartitionId("orders", ORDERS, 0)
    archive_log(store, compacted, [batch(0, 10) + batch(20, 10)], now_ms=1, compacted=True)
    write_projection(store, topic_projection("orders", ORDERS, partitions=1, configs={}, cluster_id=""))
    write_projection(store, group_copy_projection("imported", "billing", [OffsetCopy("orders", ORDERS, 0, 20)]))
    create_cut(store, "early", now_ms=3, end_of=lambda *_: 20)
    told = run(store, "restore", "early", "--data", str(tmp_path / "new" / "data"))
    assert "committed offset" not in told
    node = start_node(directory="new")
    assert node.end("orders") == 20
    assert node.produce("orders", b"new", partition=0) == [20]
    assert node.values("orders")[-1] == b"new"
    assert [one.offset for one in committed_offsets(node.client(), "billing").values()] == [20]


def test_transactions_under_way_end_as_they_did(store, start_node, tmp_path):
    """Records committed behind the end of the cut are readable, aborted ones are not, and nothing hangs."""
    create_cut(store, "early", now_ms=3, topics=["paid"], end_of=end_at(START_MS + 5000))
    run(store, "restore", "early", "--data", str(tmp_path / "new" / "data"))
    node = start_node(directory="new")
    end = node.end("paid")
    assert node.run(lambda: node.partition("paid").partition.last_stable_offset) == end == 8
    assert node.run(lambda: node.partition("paid").log.producer_state.first_unstable_offset) is None
    seen = {record.offset: record.value for record in node.read("paid", read_committed=True)}
    assert [seen[offset] for offset in sorted(seen)] == [b"0", b"1", b"4"]


def test_only_named_topics_and_only_into_an_empty_directory(store, tmp_path):
    """A topic that the cut does not hold is wrong; so is a directory with something in it."""
    create_cut(store, "all", now_ms=3)
    assert "1 topics, 1 partitions" in run(store, "restore", "all", "--topic", "paid", "--data", str(tmp_path / "paid"))
    assert "does not hold topic zzz" in run(
        store, "restore", "all", "--topic", "zzz", "--data", str(tmp_path / "none"), code=3
    )
    assert "is not empty" in run(store, "restore", "all", "--data", str(tmp_path / "paid"), code=2)
    assert not Path(tmp_path / "none").exists()


def test_a_disk_without_room_is_said_before_anything_is_fetched(store, tmp_path, monkeypatch):
    """With both numbers."""
    create_cut(store, "all", now_ms=3)
    monkeypatch.setattr(cut_restore.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 5}))
    assert "has room for 5" in run(store, "restore", "all", "--data", str(tmp_path / "data"), code=2)
    assert not (tmp_path / "data").exists()
