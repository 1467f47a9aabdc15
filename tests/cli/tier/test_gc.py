"""``stratalog tier gc``: what it says, what it removes, and its exit codes."""

from __future__ import annotations

import json
import os

import pytest
from click.testing import CliRunner

from stratalog.cli.main import cli
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.manifest import Claimant
from stratalog.tier.stores.local_store import LocalStore
from stratalog.tier.stores.store import StoreUnavailable
from stratalog.tier.work import garbage_collection
from stratalog.tier.work.archive_writer import archive_log
from stratalog.wire.batch import Record, build_batch

ORDERS = PartitionId("orders", bytes(range(16)), 0)


@pytest.fixture
def bucket(tmp_path):
    """A directory with one archived partition under epoch 3 and an orphan of epoch 2, two days old."""
    store = LocalStore(str(tmp_path / "bucket"), sync=False)
    batch = bytes(build_batch([Record(0, 1000, None, b"v" * 50)], leader_epoch=3))
    archive_log(store, ORDERS, [batch], now_ms=1, claimant=Claimant(0, 3, bytes(16)))
    key = ORDERS.segment_key(1, 9, 2, bytes([7] * 16))
    store.put(key, b"x" * 100)
    path = tmp_path / "bucket" / key
    old = path.stat().st_mtime - 2 * 86_400
    os.utime(path, (old, old))
    return f"file://{tmp_path}/bucket", store, key


def run(*arguments):
    """One command; exit code, stdout, stderr."""
    result = CliRunner().invoke(cli, ["tier", "gc", *arguments])
    return result.exit_code, result.stdout, result.stderr


def keys(store):
    """All of the bucket."""
    return [info.key for info in store.list("")]


def test_a_dry_run_is_the_default(bucket):
    """It says what would go and how to remove it, and writes nothing."""
    url, store, key = bucket
    before = keys(store)
    code, out, err = run("--bucket", url)
    assert code == 0
    assert "orders" in out
    assert "Found 1 objects (100 B), 0 unfinished uploads, 0 leases that ran out and 0 objects of broken probes" in err
    assert "add --apply" in err
    assert keys(store) == before
    assert key in before


def test_apply_removes_it(bucket):
    """Once; then there is nothing more."""
    url, store, key = bucket
    assert run("--bucket", url, "--apply")[2].startswith("Removed 1 objects")
    assert key not in keys(store)
    assert "Found 0 objects" in run("--bucket", url)[2]


def test_json_names_every_key(bucket):
    """A line for each partition and a summary."""
    url, _, key = bucket
    code, out, _ = run("--bucket", url, "--json", "--topic", "orders")
    partition, summary = map(json.loads, out.splitlines())
    assert code == 0
    assert partition["keys"] == [key]
    assert partition["what"] == "partition"
    assert summary == {
        "what": "summary",
        "applied": False,
        "partitions": 1,
        "objects": 1,
        "bytes": 100,
        "uploads": 0,
        "leases": 0,
        "probes": 0,
        "problems": 0,
    }


def test_a_longer_grace_leaves_it(bucket):
    """It waits, and the table says so."""
    url, _, _ = bucket
    code, out, err = run("--bucket", url, "--grace", "72h")
    assert code == 0
    assert "Found 0 objects" in err
    assert out.split()[-1] == "missing)"  # the topic was never described


def test_an_undecided_partition_ends_with_4(bucket):
    """The reason is printed, and the folder stays as it is."""
    url, store, key = bucket
    store.delete_many([ORDERS.manifest_key])
    code, out, err = run("--bucket", url, "--apply")
    assert code == 4
    assert "repair" in out
    assert "left alone" in err
    assert key in keys(store)


def test_an_error_hides_nothing_that_was_removed_before_it(bucket, monkeypatch):
    """A store that fails in the midst ends the command."""
    url, store, key = bucket
    later = PartitionId("payments", bytes(16), 0)
    archive_log(store, later, [bytes(build_batch([Record(0, 1, None, b"v")], leader_epoch=0))], now_ms=1)
    examine = garbage_collection._examine

    def examined(store, folder, *more):
        if folder == later:
            raise StoreUnavailable("get", later.manifest_key, url, "slow down")
        return examine(store, folder, *more)

    monkeypatch.setattr(garbage_collection, "_examine", examined)
    code, out, err = run("--bucket", url, "--apply")
    assert code == 1
    assert "orders" in out
    assert "Removed 1 objects (100 B)" in err
    assert err.index("Removed") < err.index("Error: ")
    assert key not in keys(store)
