from __future__ import annotations

import json
import time

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from stratalog.cli.main import cli
from stratalog.client.client import Client
from stratalog.client.records import NewRecord, Producer
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.garbage import Verdict, judge
from stratalog.tier.manifests.json import to_bytes
from stratalog.tier.manifests.manifest_store import read_manifest
from stratalog.tier.manifests.parts import Totals
from stratalog.tier.messages.projection import cluster_projection, topic_projection, write_projection
from stratalog.tier.stores.local_store import LocalStore
from stratalog.tier.stores.memory_store import MemoryStore
from stratalog.tier.stores.opening import provide_store, withdraw_store
from stratalog.tier.stores.wrappers import StoreWrapper
from stratalog.tier.work.archive_writer import archive_log
from stratalog.wire.batch import Record, build_batch

ORDERS = PartitionId("orders", bytes(range(16)), 0)


@pytest.fixture
def bucket(tmp_path):
    """A directory with one archived partition of three objects: its URL and the store."""
    store = LocalStore(str(tmp_path / "bucket"), sync=False)
    batches = [bytes(build_batch([Record(at, 1000 + at, None, b"v" * 50)], leader_epoch=1)) for at in range(30)]
    archive_log(store, ORDERS, [b"".join(batches[at : at + 10]) for at in (0, 10, 20)], now_ms=1)
    return f"file://{tmp_path}/bucket", store


def run(*arguments):
    """One command; exit code, stdout, stderr."""
    result = CliRunner().invoke(cli, ["tier", *arguments])
    return result.exit_code, result.stdout, result.stderr


def test_a_sound_archive_ends_a_repair_with_0(bucket):
    """And says so."""
    assert run("repair", "--bucket", bucket[0]) == (0, "", "Nothing to repair.\n")


def test_an_error_does_not_hide_what_was_repaired_before(bucket):
    """A manifest of a later release ends the command; the rows of the partitions before it are printed."""
    url, store = bucket
    other = ORDERS._replace(topic="payments", topic_id=bytes(16))
    newer = to_bytes(read_manifest(store, ORDERS).manifest).replace(
        b'"min_reader_version":1', b'"min_reader_version":9'
    )
    store.put(other.manifest_key, newer.rpartition(b',"crc32c":')[0] + b"}")
    store.delete_many([ORDERS.manifest_key])
    code, out, err = run("repair", "--bucket", url, "--apply", "--json")
    assert (code != 0, json.loads(out)["topic"], "upgrade" in err) == (True, "orders", True)
    assert read_manifest(store, ORDERS).manifest.totals.segments == 3


@pytest.mark.parametrize(("owner", "incarnation"), [("a", 0), ("b", 3), ("", 3)])
def test_a_manifest_without_a_trace_gets_the_incarnation_of_its_own_cluster(bucket, owner, incarnation):
    """That of another cluster in the bucket would fence the leader, if it lives, for good."""
    url, store = bucket
    for cluster_id, number in (("a", 0), ("b", 3)):
        write_projection(store, cluster_projection(cluster_id, number))
    if owner:
        described = topic_projection("orders", ORDERS.topic_id, partitions=1, configs={}, cluster_id=owner)
        write_projection(store, described)
    store.delete_many([ORDERS.manifest_key])
    assert run("repair", "--bucket", url, "--apply")[0] == 0
    assert read_manifest(store, ORDERS).manifest.claimant.incarnation == incarnation


def test_a_plan_changes_nothing_and_is_then_applied_once(bucket):
    """4 while there is something to do, 0 afterwards; applying again does nothing."""
    url, store = bucket
    before = read_manifest(store, ORDERS).manifest
    store.delete_many([ORDERS.manifest_key])
    listing = [info.key for info in store.list("")]
    code, out, _ = run("repair", "--bucket", url, "--json")
    row = json.loads(out)
    assert (code, row["outcome"], row["kinds"], row["added"]) == (4, "planned", ["missing-manifest"], 3)
    assert [info.key for info in store.list("")] == listing
    code, out, err = run("repair", "--bucket", url, "--apply")
    assert code == 0
    assert "repaired" in out
    assert err == "1 partitions repaired, 0 to be repaired.\n"
    assert read_manifest(store, ORDERS).manifest.entries == before.entries
    assert run("repair", "--bucket", url, "--apply") == (0, "", "Nothing to repair.\n")
    assert run("verify", "--bucket", url, "--deep")[0] == 0


def test_a_refusal_says_what_to_repeat_it_with(bucket):
    """Readable offsets are not given up unasked."""
    url, store = bucket
    store.delete_many([read_manifest(store, ORDERS).manifest.entries[1].key])
    code, out, err = run("repair", "--bucket", url, "--apply", "--topic", "orders")
    assert code == 4
    assert "[0,20)" in out
    assert "--accept-loss" in err
    assert run("repair", "--bucket", url, "--apply", "--accept-loss")[0] == 0
    assert read_manifest(store, ORDERS).manifest.log_start_offset == 20


def eventually(condition):
    """Wait for something that happens in the background."""
    deadline = time.monotonic() + 20
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert condition()


def test_a_running_leader_archives_again_what_was_lost(stratalog_broker):
    """The last object is gone while its offsets are still local: repaired under the leader, it goes on from there."""
    broker = stratalog_broker
    small = {"segment_bytes": 1048576, "internal_segment_bytes": 2000, "retention_ms": -1}
    broker.create_topic("orders", remote_storage_enable="true", **small)

    def produce(count):
        with Client(broker.bootstrap_servers) as client:
            for _ in range(count):
                Producer(client, "orders").send([NewRecord(b"x" * 100, 1, partition=0) for _ in range(10)])

    produce(20)
    unified = broker.node.partitions.by_name("orders", 0)
    eventually(lambda: unified.remote.end_offset == unified.log.active_base_offset > 100)
    partition = PartitionId("orders", unified.topic_id, 0)
    before = read_manifest(broker.store, partition).manifest
    lost = before.entries[-1]
    broker.store.delete_many([lost.key])
    url = broker.node.config.bucket_url
    assert run("repair", "--bucket", url, "--apply")[0] == 0
    assert read_manifest(broker.store, partition).manifest.remote_end == lost.base
    produce(4)
    eventually(lambda: unified.remote.end_offset == unified.log.active_base_offset > lost.end)
    after = read_manifest(broker.store, partition).manifest
    assert after.claimant == before.claimant
    assert after.entries[: len(before.entries) - 1] == before.entries[:-1]
    assert run("verify", "--bucket", url, "--deep")[0] == 0


def test_a_quarantine_is_kept_from_garbage_collection_until_it_is_released(bucket):
    """Then the objects are orphans like any others."""
    url, store = bucket
    entries = read_manifest(store, ORDERS).manifest.entries
    store.delete_many([entries[1].key])
    assert run("repair", "--bucket", url, "--apply", "--accept-loss")[0] == 0
    manifest = read_manifest(store, ORDERS).manifest
    (left_out,) = [info for info in store.list(ORDERS.segments_prefix) if info.key == entries[0].key]
    later = replace(manifest, claimant=manifest.claimant._replace(leader_epoch=99))
    assert judge(later, (), left_out, now_ms=2**60, grace_ms=0) is Verdict.JOB
    assert run("verify", "--bucket", url, "--grace", "0s")[0] == 0
    code, _, err = run("repair", "--bucket", url, "--release")
    assert (code, err) == (0, "Released the quarantine of 1 partitions.\n")
    assert read_manifest(store, ORDERS).manifest.jobs == ()
    assert run("verify", "--bucket", url, "--grace", "0s")[0] == 4
    assert run("repair", "--bucket", url, "--release")[2] == "Released the quarantine of 0 partitions.\n"


def test_a_plan_of_a_release_is_refused_as_nothing_may_be_written(bucket):
    """``--plan`` promises that nothing changes; a release knows no plan."""
    url, store = bucket
    listing = [(info.key, store.get(info.key)[0]) for info in store.list("")]
    code, _, err = run("repair", "--bucket", url, "--release", "--plan")
    assert code == 2
    assert "leave --plan out" in err
    assert [(info.key, store.get(info.key)[0]) for info in store.list("")] == listing


@pytest.mark.parametrize("command", ["repair", "gc"])
def test_a_topic_that_is_not_there_is_an_error(bucket, command):
    """Exit code 3, as everywhere, and not ``nothing to do``."""
    code, out, err = run(command, "--bucket", bucket[0], "--topic", "order")
    assert (code, out) == (3, "")
    assert "topic order is not in the bucket" in err


class Busy(StoreWrapper):
    """A bucket where one manifest changes between the look and the swap, so many times."""

    key = ""
    times = 0

    def compare_and_swap(self, key, data, expected, **options):
        if key == self.key and self.times:
            self.times -= 1
            raw, _ = self.inner.get(key)
            self.inner.put(key, raw + b" ")
        return super().compare_and_swap(key, data, expected, **options)


@pytest.mark.parametrize("times", [1, 100], ids=["once", "all the time"])
def test_a_partition_that_changes_meanwhile_holds_up_no_other(times):
    """It is planned again; if it changes all the time, that is its outcome, and the others are repaired and told."""
    store = Busy(MemoryStore("memory:busy"))
    partitions = [ORDERS._replace(partition=number) for number in range(3)]
    for one in partitions:
        archive_log(store, one, [bytes(build_batch([Record(0, 1000, None, b"v")], leader_epoch=1))], now_ms=1)
        wrong = replace(read_manifest(store, one).manifest, totals=Totals(size_bytes=1))
        store.put(one.manifest_key, to_bytes(wrong))
    store.key, store.times = partitions[1].manifest_key, times
    provide_store("memory:busy", store)
    try:
        code, out, err = run("repair", "--apply", "--bucket", "memory:busy", "--json")
    finally:
        withdraw_store("memory:busy")
    outcomes = [json.loads(line)["outcome"] for line in out.splitlines()]
    assert outcomes == ["repaired", "repaired" if times == 1 else "overtaken", "repaired"]
    assert code == (0 if times == 1 else 4)
    assert ("has changed since it was looked at" in err) == (times > 1)
