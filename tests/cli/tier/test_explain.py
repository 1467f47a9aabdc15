"""The cost of a read, asked of a bucket and of a broker."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from stratalog.cli import prices
from stratalog.cli.command import HTTP_DEFAULT
from stratalog.cli.main import cli
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.stores.local_store import LocalStore
from stratalog.tier.work.archive_writer import archive_log
from stratalog.wire.batch import Record, build_batch


def segment(first: int) -> bytes:
    batches = [build_batch([Record(first + n, 0, None, b"v" * 1000)], leader_epoch=0) for n in range(50)]
    return b"".join(bytes(one) for one in batches)


@pytest.fixture
def bucket(tmp_path: Path) -> str:
    """Two objects of fifty records of orders-0, one of orders-1."""
    store = LocalStore(str(tmp_path / "bucket"))
    archive_log(store, PartitionId("orders", bytes(16), 0), [segment(0), segment(50)], now_ms=0, chunk_bytes=10_000)
    archive_log(store, PartitionId("orders", bytes(16), 1), [segment(0)], now_ms=0)
    return f"file://{tmp_path}/bucket"


def test_a_fetch_is_explained_part_by_part(stratalog, bucket) -> None:
    """Manifest, tails, chunks and the sum; what it costs by the chosen table."""
    rows = stratalog(
        "tier", "explain", "fetch", "orders", "0", "--offset", "0", "--bucket", bucket, "--store", "aws-s3-standard",
        "--json"
    ).rows  # fmt: skip
    by_name = {row["what"]: row for row in rows}
    assert by_name["manifest"]["requests"] == 1
    assert by_name["tails"]["requests"] == 2
    assert by_name["chunks"]["requests"] > 2
    whole = by_name["all"]
    assert whole["requests"] == sum(by_name[name]["requests"] for name in ("manifest", "tails", "chunks"))
    assert (whole["start"], whole["end"], whole["objects"]) == (0, 100, 2)
    assert whole["cost"] == pytest.approx(whole["requests"] * 0.0004 / 1000)


def test_exact_chunk_tables_can_be_read(stratalog, bucket) -> None:
    """The figures hardly change."""
    arguments = ("tier", "explain", "fetch", "orders", "0", "--offset", "20", "--until", "60", "--bucket", bucket)
    even, exact = (stratalog(*arguments, *more, "--json").rows[-1] for more in ((), ("--exact",)))
    assert even["requests"] == exact["requests"]
    assert even["bytes"] == pytest.approx(exact["bytes"], rel=0.05)


def test_without_prices_there_is_no_cost(stratalog, bucket) -> None:
    """A directory asks for nothing; the table and a sentence for people."""
    found = stratalog(
        "tier", "explain", "fetch", "orders", "0", "--offset", "0", "--bytes", "10000", "--bucket", bucket
    )
    assert "all" in found.out
    assert "for the reader" in found.err
    assert "Prices" not in found.err


def test_a_backfill_is_explained_by_partition(stratalog, bucket) -> None:
    """With what the driver asks for, and the sum."""
    rows = stratalog("tier", "explain", "backfill", "orders", "--bucket", bucket, "--json").rows
    assert [(row["topic"], row.get("objects")) for row in rows] == [
        ("orders", 2),
        ("orders", 1),
        ("(driver)", None),
        ("(all)", 3),
    ]
    assert rows[0]["requests"] == 2
    assert rows[-1]["requests"] == sum(row["requests"] for row in rows[:-1])


def test_the_broker_tells_the_bucket(stratalog, live_broker) -> None:
    """Without --bucket; nothing is archived there of such a topic."""
    refused = stratalog("tier", "explain", "fetch", "absent", "0", "--offset", "0", code=3)
    assert f"file://{live_broker.home}/bucket" in refused.err


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("fetch", "orders", "7", "--offset", "0"), 3),
        (("fetch", "orders", "0", "--offset", "0", "--store", "nope"), 2),
        (("fetch", "orders", "0"), 2),
        (("backfill", "absent"), 3),
    ],
)
def test_wrong_questions_have_their_codes(stratalog, bucket, arguments, code) -> None:
    """Missing topics and wrong usage end with their own exit codes."""
    stratalog("tier", "explain", *arguments, "--bucket", bucket, code=code)


@pytest.mark.parametrize("arguments", [("fetch", "orders", "0", "--offset", "0"), ("backfill",)])
def test_without_a_bucket_the_broker_of_this_machine_is_asked(bucket, monkeypatch, arguments) -> None:
    """As the examples have it; by the address that brokers have by default."""
    asked = []
    monkeypatch.setattr(prices, "http_json", lambda http, *_: asked.append(http) or {"bucket": bucket})
    found = CliRunner().invoke(cli, ["tier", "explain", *arguments, "--json"], env={"STRATALOG_HTTP": None})
    assert (found.exit_code, bool(found.stdout)) == (0, True)
    assert asked == [HTTP_DEFAULT]
