from __future__ import annotations

import json
import shutil

import pytest
from click.testing import CliRunner

from stratalog.cli.main import cli
from stratalog.tier.care import verify
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.stores.local_store import LocalStore
from stratalog.tier.work.archive_writer import archive_log
from stratalog.wire.batch import Record, build_batch
from stratalog.wire.errors import Corrupt

ORDERS = PartitionId("orders", bytes(range(16)), 0)


@pytest.fixture
def bucket(tmp_path):
    """A directory with one archived partition: its URL and the store."""
    store = LocalStore(str(tmp_path / "bucket"), sync=False)
    batches = [bytes(build_batch([Record(at, 1000 + at, None, b"v" * 50)], leader_epoch=1)) for at in range(20)]
    archive_log(store, ORDERS, [b"".join(batches[:10]), b"".join(batches[10:])], now_ms=1)
    return f"file://{tmp_path}/bucket", store


def run(*arguments):
    """One command; exit code, stdout, stderr."""
    result = CliRunner().invoke(cli, ["tier", "verify", *arguments])
    return result.exit_code, result.stdout, result.stderr


@pytest.mark.parametrize("depth", ["--shallow", "--deep"])
def test_a_clean_bucket_ends_with_0_and_says_what_was_looked_at(bucket, depth):
    """Stdout stays empty."""
    code, out, err = run("--bucket", bucket[0], depth)
    assert (code, out) == (0, "")
    assert err.startswith("Clean: 1 partitions, 2 objects, ")


def test_anomalies_end_with_4_a_line_each_and_advice(bucket):
    """The table on stdout, what to do on stderr."""
    url, store = bucket
    keys = [info.key for info in store.list(ORDERS.segments_prefix)]
    store.delete_many(keys[:1])
    code, out, err = run("--bucket", url)
    assert code == 4
    assert "missing-object" in out
    assert keys[0] in out
    assert "missing-object (1): An entry names an object that the store does not have" in err


def test_json_is_an_object_for_each_anomaly_and_a_summary(bucket):
    """With advice, so that a program needs no table of its own."""
    url, store = bucket
    key = next(iter(store.list(ORDERS.segments_prefix))).key
    data = bytearray(store.get(key)[0])
    data[70] ^= 1
    store.put(key, bytes(data))
    assert run("--bucket", url)[0] == 0
    code, out, _ = run("--bucket", url, "--deep", "--json", "--topic", "orders")
    anomaly, summary = map(json.loads, out.splitlines())
    assert code == 4
    assert (anomaly["kind"], anomaly["topic"], anomaly["partition"], anomaly["key"]) == ("wrong-crc", "orders", 0, key)
    assert anomaly["advice"]
    assert (summary["what"], summary["anomalies"], summary["kinds"]) == ("summary", 1, {"wrong-crc": 1})


def test_a_bucket_that_is_not_there_is_not_found(tmp_path):
    """Exit code 3, and no directory is made."""
    assert run("--bucket", f"file://{tmp_path}/nowhere")[0] == 3
    assert not (tmp_path / "nowhere").exists()


def test_a_broker_can_receive_the_result(start_node, bucket, tmp_path):
    """Its page then shows when, how deep and what was found; a broker of another bucket refuses."""
    node = start_node()
    host, port = node.node.http_address
    url = node.node.config.bucket_url
    assert url == bucket[0]
    code, _, err = run("--bucket", url, "--deep", "--tell", f"{host}:{port}")
    assert code == 0
    assert err.startswith("Clean: 1 partitions, 2 objects, ")
    told = node.node.tier_watch.verification
    assert (told.deep, told.topics, told.objects, told.anomalies) == (True, (), 2, 0)
    other = f"file://{shutil.copytree(tmp_path / 'bucket', tmp_path / 'other')}"
    code, _, err = run("--bucket", other, "--tell", f"{host}:{port}")
    assert code != 0
    assert f"this broker's bucket is {url}, not {other}" in err


def test_a_topic_that_is_not_there_is_an_error_and_not_clean(bucket):
    """Exit code 3: a misspelt name in a nightly job must not look like a verified archive."""
    code, out, err = run("--bucket", bucket[0], "--topic", "orders", "--topic", "ordres")
    assert (code, out) == (3, "")
    assert "topic ordres is not in the bucket" in err


def test_findings_are_printed_although_the_broker_cannot_be_reached(bucket):
    """The table, the sums and exit code 4, after hours of reading, when the address of ``--tell`` is wrong."""
    url, store = bucket
    code, _, err = run("--bucket", url, "--tell", "127.0.0.1:1")
    assert code == 4
    assert err.startswith("Clean: 1 partitions, 2 objects, ")
    assert "No broker answers" in err
    keys = [info.key for info in store.list(ORDERS.segments_prefix)]
    store.delete_many(keys[:1])
    code, out, err = run("--bucket", url, "--tell", "no address")
    assert code == 4
    assert keys[0] in out
    assert "Error: " in err


def test_a_grace_below_zero_is_refused(bucket):
    """As tier gc does."""
    code, _, err = run("--bucket", bucket[0], "--grace", "-1h")
    assert code == 2
    assert "'-1h' is negative" in err


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_an_error_hides_nothing_that_was_found_before_it(bucket, monkeypatch, more):
    """A store that fails in the midst ends the command."""
    url, store = bucket
    store.delete_many([info.key for info in store.list(ORDERS.segments_prefix)][:1])
    whole = verify.verify_bucket

    def broken(*arguments, **options):
        yield from whole(*arguments, **options)
        raise Corrupt("the next partition")

    monkeypatch.setattr(verify, "verify_bucket", broken)
    code, out, err = run("--bucket", url, *more)
    assert code == 1
    assert "missing-object" in out
    assert '"summary"' not in out
    assert "Not looked at to the end: 1 partitions were, and 1 anomalies found." in err
