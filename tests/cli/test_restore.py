from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from stratalog.cli.main import cli
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.manifest_store import read_manifest
from stratalog.tier.messages.projection import cluster_projection, write_projection
from stratalog.tier.stores.local_store import LocalStore
from stratalog.tier.work.archive_writer import archive_log
from stratalog.wire.batch import Record, build_batch

ORDERS = PartitionId("orders", bytes(range(16)), 0)


@pytest.fixture
def bucket(tmp_path):
    """A directory with one archived partition: its URL and the store."""
    store = LocalStore(str(tmp_path / "bucket"), sync=False)
    batches = [bytes(build_batch([Record(at, 1000 + at, None, b"v" * 50)], leader_epoch=1)) for at in range(20)]
    archive_log(store, ORDERS, [b"".join(batches)], now_ms=1)
    return f"file://{tmp_path}/bucket", store


def run(*arguments):
    """One command; exit code, stdout, stderr."""
    result = CliRunner().invoke(cli, ["restore", *map(str, arguments)])
    return result.exit_code, result.stdout, result.stderr


def test_the_result_says_what_there_is_and_what_to_type_next(bucket, tmp_path):
    """A topic without description is restored with the defaults, and said so; no cluster is named, so one is made."""
    url, store = bucket
    code, out, err = run("--bucket", url, "--data", tmp_path / "data", "--json")
    told = json.loads(out)
    assert code == 0
    assert (told["topics"], told["partitions"], told["takeover"], told["clamped"]) == (1, 1, False, [])
    assert len(told["cluster_id"]) == 22
    assert "topic.json is missing" in told["problems"][0]
    assert f"stratalog serve --data {tmp_path}/data --bucket {url} --set node.id=1" in err
    assert read_manifest(store, ORDERS).manifest.claimant.incarnation == 0
    assert not list(tmp_path.glob("*.restoring-*"))


def test_a_takeover_raises_the_incarnation_by_one_each_time(bucket, tmp_path):
    """Also in the cluster's own document."""
    url, store = bucket
    write_projection(store, cluster_projection("c1", 4))
    for number in (5, 6):
        assert run("--bucket", url, "--data", tmp_path / f"data{number}", "--takeover", "--node-id", 3)[0] == 0
        assert read_manifest(store, ORDERS).manifest.claimant.incarnation == number
        assert json.loads(store.get(cluster_projection("c1", 0).key)[0])["incarnation"] == number
    assert read_manifest(store, ORDERS).manifest.claimant.broker_id == 3


def test_a_directory_in_use_and_a_bucket_that_is_not_there_are_refused(bucket, tmp_path):
    """Before anything is claimed."""
    url, store = bucket
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").write_text("x")
    before = store.get(ORDERS.manifest_key)
    assert run("--bucket", url, "--data", tmp_path / "full", "--takeover")[0] == 2
    assert run("--bucket", f"file://{tmp_path}/nowhere", "--data", tmp_path / "data")[0] == 3
    assert store.get(ORDERS.manifest_key) == before
    assert not (tmp_path / "data").exists()


def test_a_missing_archive_ends_a_restore_with_3(bucket, tmp_path):
    """A misspelt topic or prefix ends with 3, and no directory is made that looks like a broker's."""
    url, _ = bucket
    (tmp_path / "other").mkdir()
    for arguments in (("--bucket", url, "--topic", "ordres"), ("--bucket", f"file://{tmp_path}/other")):
        code, _, err = run(*arguments, "--data", tmp_path / "data")
        assert code == 3
        assert "the bucket file://" in err
        assert not (tmp_path / "data").exists()
