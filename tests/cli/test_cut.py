"""Cuts from the command line: made, listed, shown, deleted."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from stratalog.cli.main import cli
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.stores.local_store import LocalStore
from stratalog.tier.work.archive_writer import archive_log
from stratalog.tier.work.cut_commands import find_cuts
from stratalog.wire.batch import Record, build_batch

TOPIC_ID = b"\1" * 16


@pytest.fixture
def bucket(tmp_path):
    """A directory that holds three records of ``orders``, a second apart, in two partitions."""
    store = LocalStore(str(tmp_path / "bucket"), sync=False)
    for number, times in enumerate(((1_000, 2_000), (3_000,))):
        records = [Record(at, time, None, b"v") for at, time in enumerate(times)]
        archive_log(store, PartitionId("orders", TOPIC_ID, number), [bytes(build_batch(records))], now_ms=1)
    return store


def run(store, *arguments: str, code: int = 0) -> str:
    """The stdout of a command."""
    found = CliRunner().invoke(cli, ["cut", *arguments, "--bucket", store.url])
    assert found.exit_code == code, found.output
    return found.stdout if code == 0 else found.output


def test_a_cut_is_made_listed_shown_and_deleted(bucket):
    """As tables and as JSON; the ends are exclusive."""
    assert run(bucket, "create", "first").splitlines() == [
        "TOPIC   PARTITION  LOG START  END  MANIFEST",
        "orders          0          0    2         3",
        "orders          1          0    1         3",
    ]
    (row,) = map(json.loads, run(bucket, "list", "--json").splitlines())
    assert (row["name"], row["state"], row["topics"], row["partitions"]) == ("first", "complete", 1, 2)
    shown = [json.loads(line) for line in run(bucket, "show", row["id"], "--json").splitlines()]
    assert [(one["partition"], one["log_start"], one["end"]) for one in shown] == [(0, 0, 2), (1, 0, 1)]
    run(bucket, "create", "early", "--topic", "orders", "--at", "1970-01-01T00:00:02Z")
    assert [line.split()[3] for line in run(bucket, "show", "early").splitlines()] == ["START", "1", "0"]
    run(bucket, "delete", "first")
    assert "early" in run(bucket, "list")
    assert "first" not in run(bucket, "list")
    assert "no cut 'first'" in run(bucket, "show", "first", code=3)
    assert "no cut 'first'" in run(bucket, "delete", "first", code=3)


def test_an_unfinished_cut_is_shown_and_ended(bucket):
    """A document that cannot be read, and pins without one, are anomalies of ``list --check``."""
    run(bucket, "create", "first")
    run(bucket, "list", "--check")
    (found,) = find_cuts(bucket)
    bucket.put(found.key, b"{")
    assert "damaged" in run(bucket, "list")
    run(bucket, "list", "--check", code=4)
    assert "cannot be read" in run(bucket, "show", "first", code=1)
    bucket.delete_many([found.key])
    assert "no document" in run(bucket, "list", "--check", code=4)
    run(bucket, "delete", found.cut.cut_id if found.cut else "")
    assert run(bucket, "list", "--check").splitlines() == ["NAME  CREATED  STATE  TOPICS  PARTITIONS  GROUPS  ID"]


@pytest.mark.parametrize("name", ["2026", "a@b"])
def test_a_wrong_name_is_a_wrong_command(bucket, name):
    """Exit code 2, and nothing is written."""
    assert "cannot be the name" in run(bucket, "create", name, code=2)
    assert run(bucket, "list", "--json") == ""
