from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from stratalog.broker.cli import cli
from stratalog.tier.archive_writer import archive_log
from stratalog.tier.keys import PartitionId
from stratalog.tier.local_store import LocalStore
from stratalog.tier.manifest_store import read_manifest
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


def test_nothing_to_repair_ends_with_0(bucket):
    """And says so."""
    assert run("repair", "--bucket", bucket[0]) == (0, "", "Nothing to repair.\n")


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
    assert run("repair", "--bucket", url, "--apply", "--accept-loss", "--topic", "others") == (
        0,
        "",
        "Nothing to repair.\n",
    )
    assert run("repair", "--bucket", url, "--apply", "--accept-loss")[0] == 0
    assert read_manifest(store, ORDERS).manifest.log_start_offset == 20
